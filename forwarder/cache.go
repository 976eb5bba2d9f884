package forwarder

// routeCache remembers the routes of the latest destinations of a worker, so
// that the packets of a flow find theirs without a walk through the tables.
// Routes never change, so nothing in it grows old.
type routeCache [1 << cacheBits]cached

const cacheBits = 12

// allOnes is the upper half under which IPv4 destinations are kept. As an IPv6
// address it is multicast, which is never looked up.
const allOnes = ^uint64(0)

type cached struct {
	domain *domain
	hi, lo uint64
	dst    *dst
	hit    bool
}

// entry is the place of a destination, emptied if another one was there.
func (c *routeCache) entry(in *domain, hi, lo uint64) *cached {
	hash := (hi*0x9e3779b97f4a7c15 ^ lo) * 0xff51afd7ed558ccd
	e := &c[hash>>(64-cacheBits)]
	if e.domain != in || e.hi != hi || e.lo != lo {
		*e = cached{domain: in, hi: hi, lo: lo}
	}
	return e
}
