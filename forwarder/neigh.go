package forwarder

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Times and limits of neighbour entries, the kernel's defaults.
const (
	neighRetransmit = time.Second
	neighProbes     = 3
	neighReachable  = 30 * time.Second
	neighQueue      = 101
	neighMax        = 1024
)

// link is a link-layer address in the lower 48 bits and, above them, whether
// it is valid.
type link uint64

const linkValid link = 1 << 48

func linkOf(mac [6]byte) link {
	l := linkValid
	for i, b := range mac {
		l |= link(b) << (40 - 8*i)
	}
	return l
}

func (l link) mac() (mac [6]byte) {
	for i := range mac {
		mac[i] = byte(l >> (40 - 8*i))
	}
	return mac
}

type neighKey struct {
	dev  int
	addr netip.Addr
}

// neighbour is one entry. Its address is read without a lock; all else is
// under mu.
type neighbour struct {
	key  neighKey
	addr atomic.Uint64
	// pinned entries are those of the configuration, which routes refer to.
	pinned bool

	mu        sync.Mutex
	permanent bool
	// queue holds packets that wait for the address.
	queue []waiting
	// probes were sent without an answer, the last at asked.
	probes    int
	asked     time.Time
	confirmed time.Time
}

// waiting is a packet that waits for a neighbour, with room for a MAC header
// in front.
type waiting struct {
	frame  []byte
	v6     bool
	own    bool
	in     *device
	domain *domain
}

func (n *neighbour) link() link { return link(n.addr.Load()) }

func (n *neighbour) setPermanent(mac [6]byte) {
	n.permanent, n.pinned = true, true
	n.addr.Store(uint64(linkOf(mac)))
}

// neighTable is read without a lock; entries are added to a copy.
type neighTable struct {
	entries atomic.Pointer[map[neighKey]*neighbour]
	mu      sync.Mutex
}

func (t *neighTable) init() { t.entries.Store(&map[neighKey]*neighbour{}) }

func (t *neighTable) find(k neighKey) *neighbour { return (*t.entries.Load())[k] }

// get finds an entry or makes one.
func (t *neighTable) get(k neighKey) *neighbour {
	if n := t.find(k); n != nil {
		return n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.find(k); n != nil {
		return n
	}
	copied := maps.Clone(*t.entries.Load())
	n := &neighbour{key: k}
	copied[k] = n
	t.entries.Store(&copied)
	return n
}

// remove takes an entry out.
func (t *neighTable) remove(k neighKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	copied := maps.Clone(*t.entries.Load())
	delete(copied, k)
	t.entries.Store(&copied)
}

// full: no entry may be added for a packet (gc_thresh3).
func (t *neighTable) full() bool { return len(*t.entries.Load()) >= neighMax }

// transmit sends the packet to a neighbour, or keeps it until the neighbour
// has answered. The entry may be nil: then it is looked up by address.
func (w *Worker) transmit(p *packet, d *device, n *neighbour, to netip.Addr) bool {
	if n == nil {
		k := neighKey{d.index, to}
		if n = w.f.neigh.find(k); n == nil {
			if w.f.neigh.full() {
				return w.drop(dropNeighbour)
			}
			n = w.f.neigh.get(k)
		}
	}
	if l := n.link(); l&linkValid != 0 {
		w.sendTo(p, d, l)
		return true
	}
	return w.await(p, d, n)
}

// await queues the packet and asks for the neighbour.
func (w *Worker) await(p *packet, d *device, n *neighbour) bool {
	n.mu.Lock()
	if l := n.link(); l&linkValid != 0 {
		n.mu.Unlock()
		w.sendTo(p, d, l)
		return true
	}
	if len(n.queue) < neighQueue {
		frame := make([]byte, linkLen+p.len())
		copy(frame[linkLen:], p.bytes())
		n.queue = append(n.queue, waiting{frame, p.v6, p.own, p.in, p.domain})
	} else {
		w.drop(dropNeighbour)
	}
	ask := n.probes == 0
	if ask {
		n.probes, n.asked = 1, w.f.now()
	}
	n.mu.Unlock()
	if ask {
		w.solicit(d, n.key.addr, 0, p)
	}
	return true
}

// learn takes the link-layer address of a neighbour and sends what waited for
// it. Entries are made when create is set.
func (w *Worker) learn(d *device, addr netip.Addr, mac [6]byte, create bool) {
	k := neighKey{d.index, addr}
	n := w.f.neigh.find(k)
	if n == nil {
		if !create || w.f.neigh.full() {
			return
		}
		n = w.f.neigh.get(k)
	}
	n.mu.Lock()
	if n.permanent {
		n.mu.Unlock()
		return
	}
	n.addr.Store(uint64(linkOf(mac)))
	n.confirmed, n.probes = w.f.now(), 0
	queue := n.queue
	n.queue = nil
	n.mu.Unlock()
	for i := range queue {
		q := packet{buf: queue[i].frame, net: linkLen, end: len(queue[i].frame), v6: queue[i].v6}
		w.sendTo(&q, d, linkOf(mac))
	}
}

// Tick is Forwarder.Tick on a worker of its own.
func (w *Worker) Tick(out Out) {
	w.out = out
	now := w.f.now()
	for _, n := range *w.f.neigh.entries.Load() {
		w.age(n, now)
	}
}

func (w *Worker) age(n *neighbour, now time.Time) {
	d := w.f.devices[n.key.dev-1]
	n.mu.Lock()
	known := n.link()
	due := n.probes > 0 && now.Sub(n.asked) >= neighRetransmit ||
		n.probes == 0 && known&linkValid != 0 && now.Sub(n.confirmed) >= neighReachable
	if n.permanent || !due {
		n.mu.Unlock()
		return
	}
	if n.probes < neighProbes {
		n.probes++
		n.asked = now
		n.mu.Unlock()
		w.solicit(d, n.key.addr, known, nil)
		return
	}
	queue := n.queue
	n.queue, n.probes = nil, 0
	n.addr.Store(0)
	n.mu.Unlock()
	if !n.pinned {
		w.f.neigh.remove(n.key)
	}
	for i := range queue {
		w.giveUp(&queue[i])
	}
}

// giveUp tells the sender that the neighbour did not answer.
func (w *Worker) giveUp(q *waiting) {
	w.drop(dropNeighbour)
	if q.own || q.in == nil {
		return
	}
	p := &w.packet
	p.net = headroom
	p.end = headroom + copy(p.buf[headroom:], q.frame[linkLen:])
	p.v6, p.in, p.domain, p.host, p.own = q.v6, q.in, q.domain, true, false
	w.unreachable(p, noNeighbour)
}

// solicit asks for a neighbour: everybody, or only the link-layer address that
// it had; for the sake of p, if not nil.
func (w *Worker) solicit(d *device, addr netip.Addr, known link, p *packet) {
	if addr.Is4() {
		w.solicitARP(d, addr, known)
		return
	}
	w.solicitND(d, addr, known, p)
}
