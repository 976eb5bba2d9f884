package forwarder_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"seg6lab/forwarder"
)

// Neighbour discovery in bytes (RFC 4861 sections 4.3 and 4.4): r0 has
// 2001:db8:1::2 and the link-local address of its MAC address.
const (
	routerAddr = "20010db8000100000000000000000002 "
	// toRouterGroup is the solicited-node group of that address.
	toRouterGroup = "3333ff000002 020000000101 86dd "
	routerGroup   = "ff0200000000000000000001ff000002 "
	// nsToRouter solicits it from 2001:db8:1::1, with its checksum.
	nsToRouter = toRouterGroup + "60000000 0020 3a ff" + host + routerGroup + "8700 1b25 00000000" + routerAddr + "0101 020000000101"
)

// TestNeighboursAgree runs address resolution in both directions through the
// kernel and the forwarder.
func TestNeighboursAgree(t *testing.T) {
	c := baseConfig()
	// The marker goes to a neighbour of its own, the only one that is known.
	c.Neighbours = []forwarder.Neighbour{{To: addr("2001:db8:2::9"), Dev: "r1", LLAddr: [6]byte{2, 0, 0, 0, 2, 2}}}
	c.Routes = append(c.Routes, forwarder.Route{To: prefix("fc00::ff:ffff/128"), Via: addr("2001:db8:2::9"), Dev: "r1"})
	c.Sysctls["net.ipv6.conf.all.addr_gen_mode"] = "0"
	k, f := newKernelRouter(t, c), newRouter(t, c)
	for _, step := range []struct {
		name  string
		port  int
		frame string
		sends int
	}{
		{"solicitation to the group", 0, nsToRouter, 1},
		{"solicitation to the address", 0, etherIn + "60000000 0020 3a ff" + host + routerAddr + "8700 eb6f 00000000" + routerAddr + "0101 020000000101", 1},
		{"hop limit 254", 0, toRouterGroup + "60000000 0020 3a fe" + host + routerGroup + "8700 1b25 00000000" + routerAddr + "0101 020000000101", 0},
		{"detection of duplicates", 0, toRouterGroup + "60000000 0018 3a ff" + "00000000000000000000000000000000" + routerGroup + "8700 4cea 00000000" + routerAddr, 1},
		{"not ours", 0, toRouterGroup + "60000000 0020 3a ff" + host + routerGroup + "8700 1b24 00000000" + "20010db8000100000000000000000003" + "0101 020000000101", 0},
		{"option of length 0", 0, toRouterGroup + "60000000 0020 3a ff" + host + routerGroup + "8700 1b26 00000000" + routerAddr + "0100 020000000101", 0},
		{"ARP request", 0, "ffffffffffff 020000000101 0806 0001 0800 06 04 0001 020000000101 0a000101 000000000000 0a000102", 1},
		{"ARP probe", 0, "ffffffffffff 020000000101 0806 0001 0800 06 04 0001 020000000101 00000000 000000000000 0a000102", 1},
		{"ARP for another", 0, "ffffffffffff 020000000101 0806 0001 0800 06 04 0001 020000000101 0a000101 000000000000 0a000109", 0},
		{"first packet to the core", 0, etherIn + inner, 1},
		{"second packet", 0, etherIn + inner, 0},
		{"the core answers", 1, "020000000201 020000000202 86dd 60000000 0020 3a ff" + "20010db8000200000000000000000002 fe80000000000000000000fffe000201" +
			"8800 b6a5 60000000 20010db8000200000000000000000002 0201 020000000202", 2},
		{"third packet", 0, etherIn + inner, 1},
		{"IPv4 to the core", 0, etherIn4 + inner4, 1},
		{"the core answers ARP", 1, "020000000201 020000000202 0806 0001 0800 06 04 0002 020000000202 0a000202 020000000201 0a000201", 1},
		{"IPv4 once more", 0, etherIn4 + inner4, 1},
	} {
		frame := bytesOf(t, step.frame)
		want, got := byPort(k.through(step.port, frame)), byPort(through(f, step.port, frame))
		if !slices.EqualFunc(want, got, sent.Equal) {
			t.Errorf("%s: kernel\n%v\nforwarder\n%v\ndrops %v", step.name, want, got, f.Drops())
		}
		if len(want) != step.sends {
			t.Errorf("%s: the kernel sent %d frames, want %d", step.name, len(want), step.sends)
		}
	}
}

func byPort(s []sent) []sent {
	slices.SortStableFunc(s, func(a, b sent) int { return a.Port - b.Port })
	return s
}

// TestNeighbourGivesUp: a solicitation a second, three in all, then the sender
// is told that the address is unreachable (RFC 4861 section 7.2.2).
func TestNeighbourGivesUp(t *testing.T) {
	now := time.Unix(1000, 0)
	c := baseConfig()
	c.Neighbours = c.Neighbours[:1] // Only 2001:db8:1::1, the sender.
	c.Sysctls["net.ipv6.conf.all.addr_gen_mode"] = "0"
	c.Now = func() time.Time { return now }
	f := newRouter(t, c)
	// From fe80::ff:fe00:201 to ff02::1:ff00:2 for 2001:db8:2::2.
	solicitation := sent{Port: 1, Frame: bytesOf(t, "3333ff000002 020000000201 86dd 60000000 0020 3a ff fe80000000000000000000fffe000201",
		routerGroup, "8700 485d 00000000 20010db8000200000000000000000002 0101 020000000201")}
	one := func(what string, out []sent, want sent) {
		t.Helper()
		if len(out) != 1 || !out[0].Equal(want) {
			t.Errorf("%s: sent\n%v\nwant\n%v", what, out, want)
		}
	}
	tick := func() (out []sent) {
		f.Tick(func(port int, frame []byte) { out = append(out, sent{Port: port, Frame: bytes.Clone(frame)}) })
		return out
	}
	one("packet", through(f, 0, bytesOf(t, etherIn+inner)), solicitation)
	if out := tick(); len(out) != 0 {
		t.Errorf("at once: sent %v", out)
	}
	for range 2 {
		now = now.Add(time.Second)
		one("a second later", tick(), solicitation)
	}
	now = now.Add(time.Second)
	one("after three", tick(), sent{Port: 0, Frame: bytesOf(t, "020000000101 020000000102 86dd 60000000 0040 3a 40", routerAddr, host,
		"0103 d700 00000000 6abcdef1 0010 11 3f", host, far, udp)})
	if out := tick(); len(out) != 0 {
		t.Errorf("after giving up: sent %v", out)
	}
	one("the next packet asks again", through(f, 0, bytesOf(t, etherIn+inner)), solicitation)
}

// TestNeighbourTableIsBounded: addresses that nobody has fill the table only
// until they are given up.
func TestNeighbourTableIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	c := baseConfig()
	c.Sysctls["net.ipv6.conf.all.addr_gen_mode"] = "0"
	c.Now = func() time.Time { return now }
	f := newRouter(t, c)
	scan := func() (asked int) {
		frame := bytesOf(t, etherIn, "60000000 0010 11 40", host, "20010db8000200000000000000000000", udp)
		for i := range 2000 {
			frame[14+24+14], frame[14+24+15] = byte(i>>8)|0x80, byte(i)
			asked += len(through(f, 0, frame))
		}
		return asked
	}
	// 1024 entries less the permanent ones.
	if n := scan(); n != 1024-4 {
		t.Errorf("%d of 2000 addresses were asked for, want 1020", n)
	}
	for range 4 {
		now = now.Add(time.Second)
		f.Tick(func(int, []byte) {})
	}
	if n := scan(); n != 1024-4 {
		t.Errorf("after giving up: %d, want 1020", n)
	}
}

// TestRateLimits: six errors at once to one destination, then one each second
// shifted down for a prefix of 64 (icmpv6_xrlim_allow: 1000 ms >> 2).
func TestRateLimits(t *testing.T) {
	now := time.Unix(1000, 0)
	c := baseConfig()
	c.Sysctls["net.ipv6.icmp.ratelimit"] = "1000"
	c.Now = func() time.Time { return now }
	f := newRouter(t, c)
	expired := bytesOf(t, etherIn, "60000000 0010 11 01", host, far, udp)
	count := func(n int) (answered int) {
		for range n {
			answered += len(through(f, 0, expired))
		}
		return answered
	}
	if n := count(20); n != 6 {
		t.Errorf("%d errors at once, want 6", n)
	}
	now = now.Add(249 * time.Millisecond)
	if n := count(5); n != 0 {
		t.Errorf("%d errors after 249 ms, want 0", n)
	}
	now = now.Add(time.Millisecond)
	if n := count(5); n != 1 {
		t.Errorf("%d errors after 250 ms, want 1", n)
	}
	c.Sysctls["net.ipv6.icmp.ratelimit"] = "0"
	c.Sysctls["net.ipv4.icmp_msgs_per_sec"], c.Sysctls["net.ipv4.icmp_msgs_burst"] = "1000", "50"
	f = newRouter(t, c)
	if n := count(200); n != 50 {
		t.Errorf("%d errors at once in all, want 50", n)
	}
}
