package specs

import (
	"errors"
	"strings"
	"testing"
)

// TestByDriver: the number is that of the driver at hand, and one that the case
// does not know is no silent pass.
func TestByDriver(t *testing.T) {
	number := func(n int) *Quantity { return &Quantity{Exactly: &n} }
	q := &Quantity{ByDriver: map[string]*Quantity{"veth": number(16), "ixgbe": number(206)}}
	for _, c := range []struct {
		driver string
		err    error
		got    int
		want   string // in the failure; none when empty
	}{
		{driver: "veth", got: 16},
		{driver: "ixgbe", got: 206},
		{driver: "ixgbe", got: 16, want: "headroom with the driver ixgbe: 16, expected 206"},
		{driver: "igb", got: 206, want: "the driver igb of in, of which nothing is expected: only of ixgbe, veth"},
		{err: errors.New("no such device"), got: 16, want: "no such device"},
	} {
		k := skbChecker{expected: &SKB{Node: "r"}, in: "in", driver: func(string) (string, error) { return c.driver, c.err }}
		k.quantity("headroom", q, c.got)
		failures := strings.Join(k.failures, "\n")
		if !strings.Contains(failures, c.want) || (c.want == "") != (failures == "") {
			t.Errorf("%s, %d: %q, want %q", c.driver, c.got, failures, c.want)
		}
	}
}
