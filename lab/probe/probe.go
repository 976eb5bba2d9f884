// Package probe observes what a kernel does to sk_buffs inside the lab's
// network namespaces: the headroom with which they reach seg6, every
// reallocation of their head and who asked for it, transmission and drops; and it
// times the calls of a function.
//
// It loads eBPF programs and attaches them, by one of two backends that are
// chosen by trying. It reports only sk_buffs of the namespaces it was given,
// switches nothing of the host, and leaves nothing attached once closed. It
// neither builds namespaces nor sends frames.
package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/nsthread"
)

// A Backend is a way of learning of calls of kernel functions.
type Backend string

const (
	// Auto is the first of Fentry and Tracepoint that the kernel accepts.
	Auto Backend = ""
	// Fentry attaches to the functions themselves. It needs fentry and fexit.
	Fentry Backend = "fentry"
	// Tracepoint infers calls of pskb_expand_head from the slab's tracepoints
	// and the kernel stack, and takes the state on the way into seg6 from
	// netfilter hooks in front of routing in the lab's namespaces. It does not
	// see __pskb_pull_tail.
	Tracepoint Backend = "tracepoint"
)

// ErrUnsupported is wrapped by every error that means that this kernel lacks
// something, as opposed to an attempt that failed.
var ErrUnsupported = errors.New("unsupported")

// A Node is a network namespace to observe.
type Node struct {
	Name  string
	NetNS int // an open descriptor of the namespace
}

// Options say what to observe and how.
type Options struct {
	Nodes   []Node
	Backend Backend
	// Buffer is how many bytes of events wait for the reader, a power of two
	// and of whole pages; 0 means 8 MB, some 16 000 events.
	Buffer int
}

// A Probe observes until it is closed.
type Probe struct {
	backend Backend
	nodes   map[uint32]string // by inode number of the namespace
	symbols *symbols
	coll    *ebpf.Collection
	links   []link.Link
	reader  *ringbuf.Reader

	mu      sync.Mutex
	records []bpfRecord
	refused uint64 // events beyond maxRecords
	flushed chan struct{}
	done    chan struct{}
}

// maxRecords bounds what waits for Collect, to some 110 MB.
const maxRecords = 1 << 18

// programs names those of each backend; the rest of the object serves both.
var programs = map[Backend][]string{
	Fentry:     {bpfProgFnSeg6DoSrh, bpfProgFnSeg6LocalInput, bpfProgFnIp6Forward, bpfProgFnExpand, bpfProgFnExpanded, bpfProgFnPull},
	Tracepoint: {bpfProgNfRoute, bpfProgTpKmalloc, bpfProgTpKmemCacheAlloc},
}

// rawTracepoints are the tracepoints of programs that do not carry their name.
var rawTracepoints = map[string]string{
	bpfProgTpKmalloc:        "kmalloc",
	bpfProgTpKmemCacheAlloc: "kmem_cache_alloc",
}

// Supported gives the backends that this kernel accepts, found by loading and
// attaching them, and for each of the others the reason.
func Supported() (ok []Backend, missing map[Backend]error) {
	missing = map[Backend]error{}
	for _, b := range []Backend{Fentry, Tracepoint} {
		p, err := Open(Options{Backend: b})
		if err != nil {
			missing[b] = err
			continue
		}
		ok = append(ok, b)
		p.Close()
	}
	return ok, missing
}

// Open starts to observe. The error wraps ErrUnsupported when the kernel lacks
// what the backend needs. With the tracepoint backend the namespaces live at
// least until Close.
func Open(o Options) (*Probe, error) {
	if o.Backend != Auto {
		return open(o, o.Backend)
	}
	p, err := open(o, Fentry)
	if err == nil || !errors.Is(err, ErrUnsupported) {
		return p, err
	}
	p, err2 := open(o, Tracepoint)
	if err2 != nil {
		return nil, errors.Join(err, err2)
	}
	return p, nil
}

func open(o Options, b Backend) (_ *Probe, err error) {
	fail := func(what string, err error) error {
		if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
			return fmt.Errorf("probe: run as root: %w", unix.EPERM)
		}
		return fmt.Errorf("probe: backend %s: %s: %w", b, what, err)
	}
	p := &Probe{backend: b, nodes: map[uint32]string{}, done: make(chan struct{})}
	for _, n := range o.Nodes {
		var st unix.Stat_t
		if err := unix.Fstat(n.NetNS, &st); err != nil {
			return nil, fail("namespace of node "+n.Name, err)
		}
		p.nodes[uint32(st.Ino)] = n.Name
	}
	defer func() {
		if err != nil {
			p.release()
		}
	}()

	symbolsRead := make(chan error, 1)
	go func() {
		var err error
		p.symbols, err = kernelSymbols()
		symbolsRead <- err
	}()
	err = rlimit.RemoveMemlock()
	if err == nil {
		p.coll, err = load(b, o.Buffer)
	}
	if serr := <-symbolsRead; serr != nil {
		return nil, fail("symbols", serr)
	}
	if err != nil {
		return nil, fail("load", err)
	}
	if err := p.configure(); err != nil {
		return nil, fail("configure", err)
	}
	if p.reader, err = ringbuf.NewReader(p.coll.Maps[bpfMapRecords]); err != nil {
		return nil, fail("ring buffer", err)
	}
	if err := p.attach(o.Nodes); err != nil {
		return nil, fail("attach", err)
	}
	go p.read()
	return p, nil
}

// load brings the backend's programs into the kernel. A program that the
// kernel refuses means that it lacks the backend.
func load(b Backend, buffer int) (*ebpf.Collection, error) {
	spec, err := loadBpf()
	if err != nil {
		return nil, err
	}
	for other, names := range programs {
		if other == b {
			continue
		}
		for _, n := range names {
			delete(spec.Programs, n)
		}
	}
	if buffer > 0 {
		spec.Maps[bpfMapRecords].MaxEntries = uint32(buffer)
	}
	coll, err := ebpf.NewCollection(spec)
	for _, short := range []error{unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.EAGAIN} {
		if errors.Is(err, short) {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return coll, nil
}

func (p *Probe) configure() error {
	for inode := range p.nodes {
		if err := p.coll.Maps[bpfMapNamespaces].Put(inode, uint32(1)); err != nil {
			return err
		}
	}
	expand, ok := p.symbols.text("pskb_expand_head")
	if !ok {
		return fmt.Errorf("%w: no symbol pskb_expand_head in /proc/kallsyms", ErrUnsupported)
	}
	for _, n := range attributed {
		if _, ok := p.symbols.text(n); !ok {
			return fmt.Errorf("%w: no symbol %s in /proc/kallsyms: calls could not be attributed", ErrUnsupported, n)
		}
	}
	// Absent when the compiler has merged it into its callers.
	reserve, _ := p.symbols.text("kmalloc_reserve")
	for name, v := range map[string]uint64{
		bpfVarExpandLo: expand.lo, bpfVarExpandHi: expand.hi,
		bpfVarReserveLo: reserve.lo, bpfVarReserveHi: reserve.hi,
		bpfVarInitOnAlloc: p.symbols.initOnAlloc,
	} {
		if err := p.coll.Variables[name].Set(v); err != nil {
			return fmt.Errorf("variable %s: %w", name, err)
		}
	}
	return nil
}

func (p *Probe) attach(nodes []Node) error {
	for name, prog := range p.coll.Programs {
		var l link.Link
		var err error
		switch prog.Type() {
		case ebpf.Netfilter:
			continue
		case ebpf.RawTracepoint:
			l, err = link.AttachRawTracepoint(link.RawTracepointOptions{
				Name: rawTracepoints[name], Program: prog,
			})
		default:
			l, err = link.AttachTracing(link.TracingOptions{Program: prog})
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrUnsupported, name, err)
		}
		p.links = append(p.links, l)
	}
	if p.backend != Tracepoint {
		return nil
	}
	for _, n := range nodes {
		if err := nsthread.In(netns.NsHandle(n.NetNS), func() error { return p.attachHooks() }); err != nil {
			return fmt.Errorf("netfilter hooks of node %s: %w", n.Name, err)
		}
	}
	return nil
}

// attachHooks attaches, in the namespace of the calling thread, the last
// program in front of routing. PRE_ROUTING is passed again for a VRF.
func (p *Probe) attachHooks() error {
	for _, pf := range []uint32{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} {
		for _, hook := range []uint32{unix.NF_INET_PRE_ROUTING, unix.NF_INET_LOCAL_OUT} {
			l, err := attachHook(p.coll.Programs[bpfProgNfRoute], pf, hook)
			if err != nil {
				return err
			}
			p.links = append(p.links, l)
		}
	}
	return nil
}

// attachHook takes the last priority that is free: NF_IP6_PRI_LAST itself is
// reserved, and two programs cannot share one (EBUSY), as two probes would.
func attachHook(prog *ebpf.Program, family, hook uint32) (l link.Link, err error) {
	const last, probes = 1<<31 - 2, 64
	for i := range int32(probes) {
		l, err = link.AttachNetfilter(link.NetfilterOptions{
			Program:        prog,
			ProtocolFamily: link.NetfilterProtocolFamily(family),
			Hook:           link.NetfilterInetHook(hook),
			Priority:       last - i,
		})
		if !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return l, err
}

// read drains the ring buffer until the reader is closed.
func (p *Probe) read() {
	defer close(p.done)
	var rec ringbuf.Record
	for {
		err := p.reader.ReadInto(&rec)
		p.mu.Lock()
		switch {
		case errors.Is(err, ringbuf.ErrFlushed):
			if p.flushed != nil {
				close(p.flushed)
				p.flushed = nil
			}
		case err == nil && len(p.records) >= maxRecords:
			p.refused++
		case err == nil && len(rec.RawSample) >= int(unsafe.Sizeof(bpfRecord{})):
			// The programs and this process share the machine's layout.
			p.records = append(p.records, *(*bpfRecord)(unsafe.Pointer(&rec.RawSample[0])))
		}
		p.mu.Unlock()
		if errors.Is(err, os.ErrClosed) {
			return
		}
	}
}

// Backend tells which backend observes.
func (p *Probe) Backend() Backend { return p.backend }

// Lost is the number of events since Open that found the buffer full, or a
// quarter of a million events that nobody had collected.
func (p *Probe) Lost() (uint64, error) {
	var n uint64
	if err := p.coll.Variables[bpfVarLost].Get(&n); err != nil {
		return 0, fmt.Errorf("probe: lost events: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return n + p.refused, nil
}

// ErrLost is wrapped by the error of Collect when events were lost.
var ErrLost = errors.New("events were lost")

// Collect gives what was observed since Open or the last Collect. The kernel
// must be done with the packets: wait for them at their destination first.
// When events were lost it gives the rest and an error that wraps ErrLost.
func (p *Probe) Collect(ctx context.Context) (*Trace, error) {
	flushed := make(chan struct{})
	p.mu.Lock()
	p.flushed = flushed
	p.mu.Unlock()
	if err := p.reader.Flush(); err != nil {
		return nil, fmt.Errorf("probe: flush: %w", err)
	}
	select {
	case <-flushed:
	case <-p.done:
		return nil, fmt.Errorf("probe: collect: %w", os.ErrClosed)
	case <-ctx.Done():
		return nil, fmt.Errorf("probe: collect: %w", ctx.Err())
	}
	p.mu.Lock()
	records := p.records
	p.records = nil
	p.mu.Unlock()

	a := assembler{nodes: p.nodes, resolve: p.symbols.name, caller: p.symbols.caller, zeroes: p.zeroes}
	t := a.assemble(records)
	t.Backend = p.backend
	n, err := p.Lost()
	if err != nil {
		return t, err
	}
	if n > 0 {
		return t, fmt.Errorf("probe: %w: %d", ErrLost, n)
	}
	return t, nil
}

// zeroes tells whether the allocation of a record was zeroed.
func (p *Probe) zeroes(r *bpfRecord) (yes, known bool) {
	if p.symbols.initOnAlloc != 0 {
		return r.Zeroing > 0, true
	}
	return bootZeroes()
}

// Close detaches and unloads everything.
func (p *Probe) Close() error {
	err := p.release()
	<-p.done
	return err
}

func (p *Probe) release() error {
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	if p.reader != nil {
		errs = append(errs, p.reader.Close())
	}
	if p.coll != nil {
		p.coll.Close()
	}
	return errors.Join(errs...)
}
