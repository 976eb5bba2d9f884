package forwarder_test

import (
	"testing"

	"seg6lab/forwarder"
	"seg6lab/forwarder/skb"
)

// VLAN devices: the receiving device takes the tag, so that an L2
// encapsulation carries the frame without it; the sending one puts it on.
func TestVLAN(t *testing.T) {
	c := baseConfig()
	c.Devices = append(c.Devices, forwarder.Device{Name: "r0.100", Link: "r0", VLAN: 100}, forwarder.Device{Name: "r1.200", Link: "r1", VLAN: 200})
	c.Addresses["r0.100"] = c.Addresses["r0"]
	c.Addresses["r1.200"] = c.Addresses["r1"]
	delete(c.Addresses, "r0")
	delete(c.Addresses, "r1")
	for i := range c.Neighbours {
		c.Neighbours[i].Dev = map[string]string{"r0": "r0.100", "r1": "r1.200"}[c.Neighbours[i].Dev]
	}
	for i := range c.Routes {
		c.Routes[i].Dev = "r1.200"
	}
	r := encapRoute("2001:db8:99::/64", "l2encap.red", "fc00:b::1")
	r.Dev = "r1.200"
	c.Routes = append(c.Routes, r)
	c.Devices = append(c.Devices, forwarder.Device{Name: "r0.101", Link: "r0", VLAN: 101, KeepTag: true})
	// 802.1Q in 802.1ad.
	c.Devices = append(c.Devices, forwarder.Device{Name: "r0.10", Link: "r0", VLAN: 10, Protocol: 0x88a8}, forwarder.Device{Name: "r0.10.20", Link: "r0.10", VLAN: 20})
	f := newRouter(t, c)
	const macs = "020000000102 020000000101 "
	for _, row := range []struct{ name, in, want string }{
		{"vid 100", macs + "8100 2064 86dd" + inner,
			"020000000202 020000000201 8100 00c8 86dd 6abcdef1 0046 8f 3f" + tunsrc + segB + etherIn + inner},
		{"a vid without a device", macs + "8100 0066 86dd" + inner, ""},
		{"another tag protocol", macs + "88a8 0064 86dd" + inner, ""},
		// reorder_hdr off: mac_len is 18 and the TCI is kept.
		{"vid 101, tag kept", macs + "8100 2065 86dd" + inner,
			"020000000202 020000000201 8100 00c8 86dd 6abcdef1 004a 8f 3f" + tunsrc + segB + macs + "8100 2065 86dd" + inner},
		{"vid 20 in 10", macs + "88a8 000a 8100 0014 86dd" + inner,
			"020000000202 020000000201 8100 00c8 86dd 6abcdef1 0046 8f 3f" + tunsrc + segB + etherIn + inner},
		{"vid 10 alone has no address, but forwards", macs + "88a8 000a 86dd" + inner,
			"020000000202 020000000201 8100 00c8 86dd 6abcdef1 0046 8f 3f" + tunsrc + segB + etherIn + inner},
		{"vid 21 in 10", macs + "88a8 000a 8100 0015 86dd" + inner, ""},
		// A priority tag is no VLAN: r0 itself has no route to tell it apart.
		{"vid 0", macs + "8100 2000 86dd" + inner,
			"020000000202 020000000201 8100 00c8 86dd 6abcdef1 0046 8f 3f" + tunsrc + segB + etherIn + inner},
	} {
		out := through(f, 0, bytesOf(t, row.in))
		if row.want == "" {
			if len(out) != 0 {
				t.Errorf("%s: sent %v", row.name, out)
			}
			continue
		}
		want := sent{Port: 1, Frame: bytesOf(t, row.want)}
		if len(out) != 1 || !out[0].Equal(want) {
			t.Errorf("%s: sent\n%v\nwant\n%v\ndrops %v", row.name, out, want, f.Drops())
		}
	}
}

// TestModel: the account of the sk_buffs beside the packets, with the counts
// that fentry gave on 6.12.117 (package skb has the whole table).
func TestModel(t *testing.T) {
	for _, row := range []struct {
		profile  string
		headroom int
		want     int
	}{
		{"", 80, 1}, {"", 206, 1}, {"l2-cow", 80, 1}, {"l2-cow", 206, 0}, {"l2-cow-maclen-only", 94, 0},
	} {
		profile, err := skb.ParseProfile(row.profile)
		if err != nil {
			t.Fatal(err)
		}
		var results []skb.Result
		c := baseConfig()
		c.Routes = append(c.Routes, encapRoute("2001:db8:99::/64", "l2encap", "fc00:b::1"))
		c.Model = &forwarder.Model{Profile: profile, Frame: skb.Frame{Headroom: row.headroom},
			Observe: func(r skb.Result) { results = append(results, r) }}
		f := newRouter(t, c)
		for range 2 {
			through(f, 0, bytesOf(t, etherIn+inner))
		}
		if len(results) != 2 {
			t.Fatalf("%q: %d packets observed, want 2", row.profile, len(results))
		}
		// The first packet finds the cache cold, the second one warm.
		if got := len(results[1].Expansions); got != row.want {
			t.Errorf("%q, headroom %d: %d expansions, want %d", row.profile, row.headroom, got, row.want)
		}
		if results[0].Needed != 92 || results[1].Needed != 94 {
			t.Errorf("%q: needed %d cold, %d warm; want 92, 94", row.profile, results[0].Needed, results[1].Needed)
		}
	}
}
