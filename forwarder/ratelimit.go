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
	mu               sync.Mutex
	perSecond, burst float64
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
	// peerBurst is XRLIM_BURST_FACTOR.
	peerBurst = 6
	// noRouteInterval and noRouteBurst are error_cost and error_burst of IPv4
	// routing (ip_error): without a route only so many packets are answered.
	noRouteInterval = 1000
	noRouteBurst    = 5
	// peersMax is how many destinations are remembered.
	peersMax = 65536
)

func (l *rateLimit) init(now func() time.Time, s *sysctls) {
	l.perSecond, l.burst = float64(s.perSecond), float64(s.burst)
	l.credit, l.stamp, l.peers = l.burst, now(), map[netip.Addr]peerLimit{}
}

// globalAllows takes one of the errors that are allowed per second.
func (l *rateLimit) globalAllows(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.credit = min(l.burst, l.credit+now.Sub(l.stamp).Seconds()*l.perSecond)
	l.stamp = now
	if l.credit < 1 {
		return false
	}
	l.credit--
	return true
}

// peerAllows takes a token of interval milliseconds from the destination's, of
// which it has burst at most. An interval of 0 allows all, and takes away what
// others counted, as inet_peer_xrlim_allow does.
func (l *rateLimit) peerAllows(now time.Time, to netip.Addr, interval, burst int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, known := l.peers[to]
	if known {
		p.tokens += int(now.Sub(p.last).Milliseconds())
	}
	if full := burst * interval; !known || p.tokens > full {
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
