package forwarder

import (
	"net/netip"
	"sync"
	"time"
)

// rateLimit bounds the ICMP errors of the router as the kernel does: all of
// them together (icmp_global_allow) and those to one destination
// (inet_peer_xrlim_allow).
type rateLimit struct {
	mu sync.Mutex
	// credit of all errors, last topped up at stamp.
	credit float64
	stamp  time.Time
	peers  map[netip.Addr]peerLimit
}

type peerLimit struct {
	tokens int
	last   time.Time
}

const (
	// globalBurst is icmp_msgs_burst, peerBurst XRLIM_BURST_FACTOR.
	globalBurst = 50
	peerBurst   = 6
	// peersMax is how many destinations are remembered.
	peersMax = 65536
)

func (l *rateLimit) init(now func() time.Time) {
	l.credit, l.stamp, l.peers = globalBurst, now(), map[netip.Addr]peerLimit{}
}

// globalAllows takes one of the errors that are allowed per second.
func (l *rateLimit) globalAllows(now time.Time, perSecond int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.credit = min(globalBurst, l.credit+now.Sub(l.stamp).Seconds()*float64(perSecond))
	l.stamp = now
	if l.credit < 1 {
		return false
	}
	l.credit--
	return true
}

// peerAllows takes a token of interval milliseconds from the destination's.
func (l *rateLimit) peerAllows(now time.Time, to netip.Addr, interval int) bool {
	if interval == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, known := l.peers[to]
	if known {
		p.tokens += int(now.Sub(p.last).Milliseconds())
	}
	if full := peerBurst * interval; !known || p.tokens > full {
		p.tokens = full
	}
	p.last = now
	allowed := p.tokens >= interval
	if allowed {
		p.tokens -= interval
	}
	if !known && len(l.peers) >= peersMax {
		clear(l.peers)
	}
	l.peers[to] = p
	return allowed
}
