// Package forwarder is an SRv6 router in user space that does to a packet what
// the Linux kernel's seg6 does, byte for byte, and what the RFCs say where a
// quirk of the kernel is turned off.
//
// It takes Ethernet frames and gives Ethernet frames. It opens no device and
// reads no clock but its own: ports come from package port, and a lab around
// it is not its business. Configuration is compiled once, by New; after that
// the path of a packet takes no lock and allocates nothing. On that path a
// packet lies in a plain buffer with ample headroom; what the kernel's sk_buff
// would have gone through is worked out beside it by package skb, and only
// when Config.Model asks for it.
package forwarder

import (
	"hash"
	"sync"
	"sync/atomic"
	"time"

	"seg6lab/forwarder/fib"
)

// Out takes a frame to send. The frame is valid until Out returns.
type Out func(port int, frame []byte)

// Forwarder is one router. Its methods may be called by several goroutines,
// except that Input has one worker of its own: concurrent input is what Run
// and NewWorker are for.
type Forwarder struct {
	quirks Quirks
	// host is the device of the host, hostLink the host's address on it.
	host     *device
	hostLink link
	sys      sysctls
	devices  []*device
	// ports are the devices by port number.
	ports   []*device
	domains []*domain
	fib4    *fib.FIB[*dst]
	fib6    *fib.FIB[*dst]
	// byDestination: routes may be cached by destination.
	byDestination bool
	tunsrc        [16]byte
	hmac          map[uint32]*hmacKey
	own           ownAddresses
	sids          []*endpoint
	neigh         neighTable
	limit         rateLimit
	seed          uint32
	// ident numbers the IPv4 packets of the router.
	ident atomic.Uint32
	now   func() time.Time
	model *Model
	cpus  []int

	mu      sync.Mutex
	workers []*Worker
	worker  *Worker
}

// New compiles a configuration. The error joins everything that is wrong with
// it.
func New(c Config) (*Forwarder, error) {
	f, err := compile(&c)
	if err != nil {
		return nil, err
	}
	if err := checkCPUs(c.CPUs); err != nil {
		return nil, err
	}
	f.worker = f.NewWorker()
	return f, nil
}

// Input forwards one frame that arrived on a port: what has to be sent is
// handed to out before Input returns.
func (f *Forwarder) Input(port int, frame []byte, out Out) { f.worker.Input(port, frame, out) }

// Tick does what is due by now: repeating neighbour solicitations and giving
// up on them. Call it about once a second.
func (f *Forwarder) Tick(out Out) { f.worker.Tick(out) }

// NewWorker is a worker of its own: its Input may run beside that of others.
func (f *Forwarder) NewWorker() *Worker {
	w := &Worker{f: f, sids: make([]sidCounters, len(f.sids)), hashes: f.newHashes(), cache: newRouteCache()}
	w.packet.buf = make([]byte, bufferSize)
	w.packet.mac = make([]byte, 0, maxPacket)
	w.reply.buf = make([]byte, bufferSize)
	f.mu.Lock()
	f.workers = append(f.workers, w)
	f.mu.Unlock()
	return w
}

// Worker is one thread of a Forwarder: buffers and counters that no other
// thread touches.
type Worker struct {
	f      *Forwarder
	out    Out
	packet packet
	// reply is where packets of the router itself are built while packet is
	// still needed.
	reply packet
	sids  []sidCounters
	stats [reasons]atomic.Uint64
	key   fib.Key[*dst]
	cache routeCache
	// hashes by HMAC key, and where their text and result go.
	hashes map[uint32]hash.Hash
	text   []byte
	sum    [32]byte
}

// Counters are what the kernel counts for a route with "count".
type Counters struct {
	// Packets and Bytes that the behaviour took; bytes from the outer IPv6
	// header on, as they came.
	Packets, Bytes uint64
	// Errors are packets that were dropped.
	Errors uint64
}

type sidCounters struct{ packets, bytes, errors atomic.Uint64 }

// Counters of a SID, by the prefix of its route as Config.Routes has it. The
// second result is false without such a route.
func (f *Forwarder) Counters(route string) (c Counters, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, e := range f.sids {
		if e.name != route {
			continue
		}
		ok = true
		for _, w := range f.workers {
			c.Packets += w.sids[i].packets.Load()
			c.Bytes += w.sids[i].bytes.Load()
			c.Errors += w.sids[i].errors.Load()
		}
	}
	return c, ok
}

// Drops counts dropped packets by reason, leaving out reasons without any.
func (f *Forwarder) Drops() map[string]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	drops := map[string]uint64{}
	for r := range reasons {
		for _, w := range f.workers {
			if n := w.stats[r].Load(); n > 0 {
				drops[r.String()] += n
			}
		}
	}
	return drops
}
