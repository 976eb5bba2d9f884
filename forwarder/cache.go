package forwarder

// routeCache remembers the routes of the latest destinations of a worker, so
// that the packets of a flow find theirs without a walk through the tables.
// Routes never change, so nothing in it grows old. It begins small, grows while
// it forgets what is asked for again, and shrinks when that does not help.
type routeCache struct {
	// sets has a power of two of sets, and capacity for as many as it ever had.
	sets []cacheSet
	// lookups and losses since the last review.
	lookups, losses int
	// pause is how many reviews it does not grow for.
	pause int
}

// cacheSet is a line of the processor's cache: two destinations of one hash,
// the latest first.
type cacheSet [2]cached

type cached struct {
	domain *domain
	hi, lo uint64
	dst    *dst
}

const (
	minCacheSets = 1 << 10
	maxCacheSets = 1 << 16 // 4 MB
	// cachePause in reviews, of at least minCacheSets lookups each.
	cachePause = 1 << 12
)

// allOnes is the upper half under which IPv4 destinations are kept. As an IPv6
// address it is multicast, which is never looked up.
const allOnes = ^uint64(0)

func newRouteCache() routeCache { return routeCache{sets: make([]cacheSet, minCacheSets)} }

// entry is the place of a destination, and whether its route is there. If not,
// the place is emptied.
func (c *routeCache) entry(in *domain, hi, lo uint64) (e *cached, hit bool) {
	hash := (hi*0x9e3779b97f4a7c15 ^ lo) * 0xff51afd7ed558ccd
	s := &c.sets[hash>>32&uint64(len(c.sets)-1)]
	c.lookups++
	for i := range s {
		if s[i].domain == in && s[i].hi == hi && s[i].lo == lo {
			return &s[i], true
		}
	}
	if s[1].domain != nil {
		c.losses++
	}
	if c.lookups >= len(c.sets) {
		s = c.review(hash)
	}
	s[0], s[1] = cached{domain: in, hi: hi, lo: lo}, s[0]
	return &s[0], false
}

// review changes the size of the cache when many of the latest lookups found
// their place taken. What it holds stays valid: a set's index in a smaller cache
// is the lower part of that in a larger one. It returns the set of a hash.
func (c *routeCache) review(hash uint64) *cacheSet {
	n := len(c.sets)
	switch {
	case c.pause > 0:
		c.pause--
	case n < maxCacheSets && c.losses > c.lookups/8:
		if n *= 4; n > cap(c.sets) {
			c.sets = make([]cacheSet, n)
		}
	case n == maxCacheSets && c.losses > c.lookups/4*3:
		n, c.pause = minCacheSets, cachePause
	}
	c.sets = c.sets[:n]
	c.lookups, c.losses = 0, 0
	return &c.sets[hash>>32&uint64(n-1)]
}
