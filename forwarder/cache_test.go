package forwarder

import "testing"

// TestRouteCache: what is found is the route that was entered, at every size;
// the cache grows for as many destinations as it may hold, and not for more.
func TestRouteCache(t *testing.T) {
	routes, blue, red := make([]dst, 1_000_000), new(domain), new(domain)
	for _, row := range []struct {
		destinations, rounds int
		sets                 int     // in the end
		found                float64 // at least, of the last round
	}{
		{500, 3, minCacheSets, 0.9},
		{maxCacheSets, 8, maxCacheSets, 0.6},
		{1_000_000, 3, minCacheSets, 0},
	} {
		c := newRouteCache()
		found := 0
		for range row.rounds {
			found = 0
			for i := range row.destinations {
				in := blue
				if i%2 == 1 {
					in = red
				}
				e, hit := c.entry(in, 0x2001_0db8<<32|uint64(i)*0x9e3779b9, uint64(i/2))
				switch {
				case !hit:
					e.dst = &routes[i]
				case e.dst != &routes[i]:
					t.Fatalf("%d destinations: the route of another one", row.destinations)
				default:
					found++
				}
			}
		}
		if share := float64(found) / float64(row.destinations); share < row.found || len(c.sets) != row.sets {
			t.Errorf("%d destinations: %.2f found in %d sets, want %.2f in %d", row.destinations, share, len(c.sets), row.found, row.sets)
		}
	}
}
