// Package port lends real network ports to labs and gives them back as they were.
//
// A port is bound by moving its device into the namespace of a node. Before the
// first change a record of its settings is on disk (Record); it is removed after the
// last of them has come back. So a port can be given back at any time, by any
// later command, whatever became of the process, the lab or its namespaces. The
// package knows nothing of labs but their names.
package port

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/nsthread"
	"seg6lab/lab/topology"
)

// Binding says where a port is to go.
type Binding struct {
	// Port that is asked for.
	Port *topology.Port
	// Lab, End and Netns name the end, and the namespace of its node, which is
	// open as Handle.
	Lab    string
	End    topology.End
	Netns  string
	Handle netns.NsHandle
	// To is the bound end that the cable leads to, nil for outside equipment.
	To *topology.End
	// MAC is the Ethernet address of the end, that of the port when nil.
	MAC *topology.MAC
	// MTU of the end in bytes, and length of its transmit queue in packets, that of
	// the port when 0.
	MTU, TxQueueLen int
	// Queues of the port to use, as many as the port has when 0.
	Queues int
	// PlaceInterrupts gives the interrupt of each queue a CPU of its own.
	PlaceInterrupts bool
	// Force takes a port that is in use.
	Force bool
}

// MTU of a bound port where the link says nothing: that of a veth.
const MTU = 1500

// MissingError says that a bound port is nowhere to be found. Its record is kept.
type MissingError struct {
	Record *Record
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("port %s of lab %s is missing: it gets its settings back once it is there again (seg6lab port release %s)", e.Record.Port(), e.Record.Lab, e.Record.Settings.Name)
}

// RestoreError says that not everything of a port is as it was. Its record is kept.
type RestoreError struct {
	Record *Record
	Err    error
}

func (e *RestoreError) Error() string {
	what := strings.ReplaceAll(e.Err.Error(), "\n", "; ")
	return fmt.Sprintf("port %s is not as it was before lab %s: %s (seg6lab port release %s tries again, --forget leaves it so)", e.Record.Port(), e.Record.Lab, what, e.Record.Settings.Name)
}

func (e *RestoreError) Unwrap() error { return e.Err }

// reached is told about the steps of Bind and Release, for tests that end the
// process there.
var reached = func(step string) {}

// Bind moves a port of this namespace into a node's, under the name, the Ethernet
// address and the MTU of the end, promiscuous as a veth is, and sets it up. It does
// not wait for the link. When it fails, the port is as it was; where that fails
// too, the error says so and the record is kept.
func Bind(b Binding) (_ *Facts, err error) {
	unlock, err := lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	from, err := home()
	if err != nil {
		return nil, err
	}
	defer from.close()
	unreadable, err := b.spare()
	if err != nil {
		return nil, err
	}
	r := &Record{
		Version: recordVersion,
		Lab:     b.Lab, Node: b.End.Node, Device: b.End.Dev, To: b.To,
		Netns: b.Netns, Registry: registry(), Home: from.cookie,
	}
	if r.Boot, err = bootID(); err != nil {
		return nil, err
	}
	var f *Facts
	ours := false // the record is, and not a damaged one
	err = from.do(func() error {
		around, err := lookAround()
		if err != nil {
			return err
		}
		if f, err = around.take(b.Port, b.Force); err != nil {
			return errors.Join(err, unreadable)
		}
		r.Kind, r.Driver, r.PCI, r.PermMAC = f.Kind, f.Driver, f.PCI, f.PermMAC
		r.path = filepath.Join(Dir(), fmt.Sprintf("%s.%d%s", f.Name, from.cookie, suffix))
		if r.Settings, err = readSettings(f.index); err != nil {
			return fmt.Errorf("port %s: %w", f, err)
		}
		if _, err := os.Stat(r.path); err == nil {
			return fmt.Errorf("port %s is bound already, by the damaged record %s", f, r.path)
		}
		ours = true
		if err := r.write(); err != nil {
			return fmt.Errorf("port %s: record its settings, nothing was changed: %w", f, err)
		}
		reached("recorded")
		if err := here.LinkSetAlias(f.link, r.mark()); err != nil {
			return fmt.Errorf("port %s: set its alias: %w", f, err)
		}
		reached("marked")
		if err := move(f.index, int(b.Handle), b.End.Dev, 0); err != nil {
			return fmt.Errorf("port %s: move it to node %s as %s: %w", f, b.End.Node, b.End.Dev, err)
		}
		reached("moved")
		return nil
	})
	if err == nil {
		err = nsthread.In(b.Handle, func() error { return b.configure(f) })
		if err == nil && b.PlaceInterrupts {
			err = r.placeInterrupts()
		}
		if err != nil {
			err = fmt.Errorf("port %s as %s: %w", f, b.End, err)
		}
	}
	if err != nil {
		if _, e := os.Stat(r.path); ours && e == nil {
			err = errors.Join(err, r.release())
		}
		return nil, err
	}
	f.Lab, f.End, f.State = b.Lab, b.End.String(), Bound
	return f, nil
}

// Check tells, before anything is changed, which of the ports that are to be bound
// to ends cannot be, and why. Bind looks again.
func Check(ports map[string]*topology.Port, force bool) error {
	if len(ports) == 0 {
		return nil
	}
	from, err := home()
	if err != nil {
		return err
	}
	defer from.close()
	records, unreadable := Records()
	var around *surroundings
	if err := from.do(func() (err error) { around, err = lookAround(); return err }); err != nil {
		return err
	}
	var errs []error
	ends := make(map[int]string)
	for _, end := range slices.Sorted(maps.Keys(ports)) {
		p := ports[end]
		if i := slices.IndexFunc(records, func(r *Record) bool { return r.Answers(p) && !r.Outdated() }); i >= 0 {
			if !force {
				errs = append(errs, &InUseError{records[i]})
			}
			continue
		}
		f, err := around.take(p, force)
		if err == nil && ends[f.index] != "" {
			err = fmt.Errorf("port %s is to be %s and %s", f, ends[f.index], end)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ends[f.index] = end
	}
	if len(errs) > 0 {
		errs = append(errs, unreadable)
	}
	return errors.Join(errs...)
}

// spare checks that no lab has the port, or takes it from the one that has.
// unreadable are records that may be of the port.
func (b *Binding) spare() (unreadable, err error) {
	records, unreadable := Records()
	for _, r := range records {
		if !r.Answers(b.Port) {
			continue
		}
		if !b.Force && !r.Outdated() {
			return nil, &InUseError{r}
		}
		if err := r.release(); err != nil {
			return nil, err
		}
	}
	return unreadable, nil
}

// InUseError says that a port is bound already.
type InUseError struct{ Record *Record }

func (e *InUseError) Error() string {
	return fmt.Sprintf("port %s is bound to %s of lab %s already (seg6lab down %s, or --force takes it from there)", e.Record.Port(), e.Record.End(), e.Record.Lab, e.Record.Lab)
}

// configure makes an end of the port that has been moved to the namespace of the
// calling thread.
func (b *Binding) configure(f *Facts) error {
	l, err := here.LinkByName(b.End.Dev)
	if err != nil {
		return err
	}
	index := l.Attrs().Index
	if b.MAC != nil && net.HardwareAddr(b.MAC[:]).String() != l.Attrs().HardwareAddr.String() {
		if err := setMAC(index, b.MAC[:]); err != nil {
			return fmt.Errorf("set the Ethernet address %s: %w (with its own in the link's macs it needs none)", b.MAC, err)
		}
	}
	if b.MTU != l.Attrs().MTU {
		if err := here.LinkSetMTU(l, b.MTU); err != nil {
			return fmt.Errorf("set the MTU %d: %w", b.MTU, err)
		}
	}
	if b.TxQueueLen != 0 {
		if err := here.LinkSetTxQLen(l, b.TxQueueLen); err != nil {
			return fmt.Errorf("set the length of the transmit queue: %w", err)
		}
	}
	if b.Queues != 0 {
		if err := setQueues(b.End.Dev, uint32(b.Queues)); err != nil {
			return fmt.Errorf("use %d queues: %w", b.Queues, err)
		}
	}
	reached("configured")
	// A veth takes frames to any address; so that a case sees the same here, the
	// port is promiscuous.
	flags := uint32(unix.IFF_UP | unix.IFF_PROMISC | unix.IFF_MULTICAST)
	if err := setFlags(index, flags, settableFlags&^unix.IFF_DEBUG&^unix.IFF_DYNAMIC); err != nil {
		return fmt.Errorf("set it up: %w", err)
	}
	reached("up")
	return nil
}

// setQueues has a device of the namespace of the calling thread spread frames over
// that many queues.
func setQueues(device string, n uint32) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("ethtool socket: %w", err)
	}
	defer tool.Close()
	c, err := tool.GetChannels(device)
	if errors.Is(err, unix.EOPNOTSUPP) && n == 1 {
		return nil // of drivers that have no choice
	}
	if err != nil {
		return fmt.Errorf("count those that there are: %w", err)
	}
	was := c
	if c.MaxCombined > 0 {
		c.CombinedCount, c.RxCount, c.TxCount = n, 0, 0
	} else {
		c.RxCount, c.TxCount = n, n
	}
	if most := max(c.MaxCombined, min(c.MaxRx, c.MaxTx)); n > most {
		return fmt.Errorf("the port has %d at most", most)
	}
	if c == was {
		return nil
	}
	_, err = tool.SetChannels(device, c)
	return err
}

// Release gives a port back: it moves it home, restores what it was, and removes
// the record. It may be called at any time and again after an error, which is a
// *MissingError, a *RestoreError, or says why nothing could be done.
func (r *Record) Release() error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(r.path); errors.Is(err, os.ErrNotExist) {
		return nil // by somebody else, while we waited
	}
	return r.release()
}

func (r *Record) release() error {
	if r.Outdated() {
		return r.remove()
	}
	if err := r.bringHome(); err != nil {
		return err
	}
	reached("home")
	err := r.atHome(func(index int) error {
		if err := r.Settings.restore(index); err != nil {
			return &RestoreError{r, err}
		}
		reached("restored")
		if err := here.LinkSetAlias(device(index), r.Settings.Alias); err != nil {
			return &RestoreError{r, fmt.Errorf("alias: %w", err)}
		}
		reached("unmarked")
		return nil
	})
	if err != nil {
		return err
	}
	return r.remove()
}

// Forget gives a port back as far as that goes, and removes the record in any case.
// lost says what could not be restored; err, why the record is still there.
func (r *Record) Forget() (lost, err error) {
	if lost = r.Release(); lost != nil {
		// Where it can be reached, nothing is to speak of the record any more.
		r.atHome(func(index int) error { return here.LinkSetAlias(device(index), r.Settings.Alias) })
	}
	return lost, r.remove()
}

// place is where a bound port is.
type place struct {
	ns    *namespace // open while the visit lasts
	index int
	facts *Facts
	match match
}

// match says how sure it is that a device is the port of a record.
type match int

const (
	no        match = iota
	unmarked        // by its name at home, before it was marked or after
	byAddress       // by PCI address and permanent Ethernet address: it was unplugged
	byMark
)

func (r *Record) matches(f *Facts, ns *namespace) match {
	switch {
	case f.link.Attrs().Alias == r.mark():
		return byMark
	case f.real() && r.PCI+r.PermMAC != "" && f.PCI == r.PCI && f.PermMAC == r.PermMAC:
		return byAddress
	case ns.cookie == r.Home && f.Name == r.Settings.Name && f.index == r.Settings.Index && f.Kind == r.Kind:
		return unmarked
	}
	return no
}

// visit looks for the port in every namespace and calls f where it is. When it is
// nowhere, the error is a *MissingError.
func (r *Record) visit(f func(p place) error) error {
	best := place{match: no}
	var failed error
	namespaces(r.Netns, func(ns *namespace) bool {
		var all []*Facts
		if err := ns.do(func() (err error) { all, err = survey(); return err }); err != nil {
			failed = errors.Join(failed, err) // it may have been there
			return true
		}
		for _, facts := range all {
			if m := r.matches(facts, ns); m > best.match {
				if best.ns != nil {
					best.ns.close()
				}
				copied, err := openNamespace(fmt.Sprintf("/proc/self/fd/%d", ns.file.Fd()))
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				best = place{copied, facts.index, facts, m}
			}
		}
		return best.match != byMark
	})
	if best.match == no {
		if failed != nil {
			return failed
		}
		return &MissingError{r}
	}
	defer best.ns.close()
	return f(best)
}

// named says whether the port is in the namespace of its node.
func (p place) named(r *Record) bool {
	var st, name unix.Stat_t
	return unix.Fstat(int(p.ns.file.Fd()), &st) == nil &&
		unix.Stat(filepath.Join(NetnsDir, r.Netns), &name) == nil && st.Dev == name.Dev && st.Ino == name.Ino
}

// bringHome moves the port to the namespace that it belongs to.
func (r *Record) bringHome() error {
	return r.visit(func(p place) error {
		if p.ns.cookie == r.Home {
			return nil
		}
		var err error
		there := false
		namespaces("", func(ns *namespace) bool {
			if there = ns.cookie == r.Home; there {
				err = p.ns.do(func() error { return r.moveTo(ns, p) })
			}
			return !there
		})
		if !there {
			return &RestoreError{r, errors.New("the network namespace that it belongs to is gone")}
		}
		if err != nil {
			return &RestoreError{r, fmt.Errorf("move it out of the lab: %w", err)}
		}
		return nil
	})
}

// moveTo moves the port home from the namespace of the calling thread.
func (r *Record) moveTo(to *namespace, p place) error {
	// Names that others have taken there meanwhile are told of when the port is
	// home; they must not keep it away.
	taken := make(map[string]bool)
	var indexes []int
	err := to.do(func() error {
		all, err := links()
		for _, l := range all {
			indexes = append(indexes, l.Attrs().Index)
			taken[l.Attrs().Name] = true
			for _, alt := range l.Attrs().AltNames {
				taken[alt] = true
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, alt := range p.facts.AltNames {
		if taken[alt] {
			if err := here.LinkDelAltName(p.facts.link, alt); err != nil {
				return err
			}
		}
	}
	name := r.Settings.Name
	if taken[name] {
		name = "s6port%d"
	}
	index := r.Settings.Index
	if slices.Contains(indexes, index) {
		index = 0
	}
	return move(p.index, int(to.file.Fd()), name, index)
}

// atHome calls f in the namespace that the port belongs to, with its index there.
func (r *Record) atHome(f func(index int) error) error {
	return r.visit(func(p place) error {
		if p.ns.cookie != r.Home {
			return &RestoreError{r, errors.New("something moved it away again")}
		}
		return p.ns.do(func() error { return f(p.index) })
	})
}
