package feature

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/seg6"
)

const (
	configLWT  = "CONFIG_IPV6_SEG6_LWTUNNEL"
	configHMAC = "CONFIG_IPV6_SEG6_HMAC"
	configVRF  = configLWT + " and CONFIG_NET_VRF"
)

// seg6Features are the encapsulations of routes, each with its parameters.
var seg6Features = []Feature{
	{"seg6", "SRv6", "4.10", configLWT, "", func() error {
		return withConn(func(c *seg6.Conn) error { _, err := c.TunSrc(); return err })
	}},
	{"seg6.inline", "seg6 mode inline", "4.10", configLWT, "", mode(seg6.ModeInline)},
	{"seg6.encap", "seg6 mode encap", "4.10", configLWT, "", mode(seg6.ModeEncap)},
	{"seg6.encap.red", "seg6 mode encap.red", "6.0", configLWT, "", mode(seg6.ModeEncapRed)},
	{"seg6.l2encap", "seg6 mode l2encap", "4.14", configLWT, "", mode(seg6.ModeL2Encap)},
	{"seg6.l2encap.red", "seg6 mode l2encap.red", "6.0", configLWT, "", mode(seg6.ModeL2EncapRed)},
	{"seg6.hmac", "keys that sign the SRH", "4.10", configHMAC, "", func() error {
		return withConn(func(c *seg6.Conn) error {
			return c.SetHMACKey(seg6.HMACKey{ID: 1, Algorithm: seg6.HMACSHA256, Secret: []byte("probe")})
		})
	}},
	{"seg6.end", "seg6local action End", "4.14", configLWT, "", local(seg6.Local{Action: seg6.ActionEnd})},
	{"seg6.end.x", "seg6local action End.X", "4.14", configLWT, "", local(seg6.Local{Action: seg6.ActionEndX, NH6: nh6})},
	{"seg6.end.x.oif", "seg6local action End.X with oif", "6.17", configLWT, "",
		local(seg6.Local{Action: seg6.ActionEndX, NH6: nh6, OIF: loopback})},
	{"seg6.end.t", "seg6local action End.T", "4.14", configLWT, "", local(seg6.Local{Action: seg6.ActionEndT, Table: vrfTable})},
	{"seg6.dx2", "seg6local action End.DX2", "4.14", configLWT, "", local(seg6.Local{Action: seg6.ActionEndDX2, OIF: loopback})},
	{"seg6.dx4", "seg6local action End.DX4", "4.14", configLWT, "",
		local(seg6.Local{Action: seg6.ActionEndDX4, NH4: netip.MustParseAddr("192.0.2.1")})},
	{"seg6.dx6", "seg6local action End.DX6", "4.14", configLWT, "", local(seg6.Local{Action: seg6.ActionEndDX6, NH6: nh6})},
	{"seg6.dt4", "seg6local action End.DT4", "5.11", configVRF, "vrf",
		withVRF(seg6.Local{Action: seg6.ActionEndDT4, VRFTable: vrfTable})},
	{"seg6.dt6", "seg6local action End.DT6 with table", "4.14", configLWT, "",
		local(seg6.Local{Action: seg6.ActionEndDT6, Table: vrfTable})},
	{"seg6.dt6.vrftable", "seg6local action End.DT6 with vrftable", "5.11", configVRF, "vrf",
		withVRF(seg6.Local{Action: seg6.ActionEndDT6, VRFTable: vrfTable})},
	{"seg6.dt46", "seg6local action End.DT46", "5.14", configVRF, "vrf",
		withVRF(seg6.Local{Action: seg6.ActionEndDT46, VRFTable: vrfTable})},
	{"seg6.b6", "seg6local action End.B6", "4.14", configLWT, "",
		local(seg6.Local{Action: seg6.ActionEndB6, SRH: &seg6.SRH{Segs: segs}})},
	{"seg6.b6.encaps", "seg6local action End.B6.Encaps", "4.14", configLWT, "",
		local(seg6.Local{Action: seg6.ActionEndB6Encaps, SRH: &seg6.SRH{Segs: segs}})},
	{"seg6.counters", "counters of seg6local actions", "5.13", configLWT, "",
		local(seg6.Local{Action: seg6.ActionEnd, Count: true})},
	{"seg6.psp", "flavor psp of End", "6.3", configLWT, "", local(seg6.Local{Action: seg6.ActionEnd, Flavors: seg6.FlavorPSP})},
	{"seg6.next-csid", "flavor next-csid of End", "6.1", configLWT, "",
		local(seg6.Local{Action: seg6.ActionEnd, Flavors: seg6.FlavorNextCSID})},
	{"seg6.next-csid.x", "flavor next-csid of End.X", "6.6", configLWT, "",
		local(seg6.Local{Action: seg6.ActionEndX, NH6: nh6, Flavors: seg6.FlavorNextCSID})},
	{Name: "seg6.iif", About: "parameter iif of seg6local actions", Probe: local(seg6.Local{Action: seg6.ActionEnd, IIF: loopback})},
}

// actionFeatures are the features of the actions by themselves.
var actionFeatures = map[seg6.Action]string{
	seg6.ActionEnd:         "seg6.end",
	seg6.ActionEndX:        "seg6.end.x",
	seg6.ActionEndT:        "seg6.end.t",
	seg6.ActionEndDX2:      "seg6.dx2",
	seg6.ActionEndDX4:      "seg6.dx4",
	seg6.ActionEndDX6:      "seg6.dx6",
	seg6.ActionEndDT4:      "seg6.dt4",
	seg6.ActionEndDT6:      "seg6.dt6",
	seg6.ActionEndDT46:     "seg6.dt46",
	seg6.ActionEndB6:       "seg6.b6",
	seg6.ActionEndB6Encaps: "seg6.b6.encaps",
}

// Needs returns the names of the features that a route with the encapsulation e
// needs. Flavors that no kernel has, usp and usd, have no feature: the kernel
// refuses such a route itself.
func Needs(e netlink.Encap) []string {
	var names []string
	switch e := e.(type) {
	case *seg6.Encap:
		names = append(names, "seg6."+e.Mode.String())
		if e.HMACKeyID != 0 {
			names = append(names, "seg6.hmac")
		}
	case *seg6.Local:
		name := actionFeatures[e.Action]
		if name == "seg6.dt6" && e.VRFTable != 0 {
			name = "seg6.dt6.vrftable"
		}
		if name != "" {
			names = append(names, name)
		}
		x := e.Action == seg6.ActionEndX
		for _, need := range []struct {
			asked bool
			name  string
		}{
			{x && e.OIF != 0, "seg6.end.x.oif"},
			{e.IIF != 0, "seg6.iif"},
			{e.SRH != nil && e.SRH.HMACKeyID != 0, "seg6.hmac"},
			{e.Count, "seg6.counters"},
			{e.Flavors&seg6.FlavorPSP != 0, "seg6.psp"},
			{!x && e.Flavors&seg6.FlavorNextCSID != 0, "seg6.next-csid"},
			{x && e.Flavors&seg6.FlavorNextCSID != 0, "seg6.next-csid.x"},
		} {
			if need.asked {
				names = append(names, need.name)
			}
		}
	}
	return names
}

var (
	nh6  = netip.MustParseAddr("2001:db8::1")
	segs = []netip.Addr{nh6}
	dst  = netip.MustParsePrefix("2001:db8:1::/64")
)

const loopback = 1 // interface index of lo in every namespace

func withConn(f func(*seg6.Conn) error) error {
	c, err := seg6.Open(netns.None())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f(c); errors.Is(err, errors.ErrUnsupported) {
		return Absent(err)
	} else {
		return err
	}
}

func mode(m seg6.Mode) func() error {
	return func() error { return install(&seg6.Encap{Mode: m, Segs: segs}) }
}

func local(l seg6.Local) func() error { return func() error { return install(&l) } }

// withVRF installs the action where a VRF has vrfTable and strict mode is on.
func withVRF(l seg6.Local) func() error {
	return func() error {
		if err := addVRF(); err != nil {
			return err
		}
		// A file of the namespace of the thread that opens it.
		const strict = "/proc/sys/net/vrf/strict_mode"
		if err := os.WriteFile(strict, []byte("1"), 0); err != nil {
			return fmt.Errorf("turn VRF strict mode on: %w", absentIf(err, unix.ENOENT))
		}
		return install(&l)
	}
}

// install adds a route with the encapsulation and reads it back: seg6local
// ignores a parameter that it does not know.
func install(e netlink.Encap) error {
	err := here.RouteAdd(&netlink.Route{
		Dst:       &net.IPNet{IP: dst.Addr().AsSlice(), Mask: net.CIDRMask(dst.Bits(), 128)},
		LinkIndex: loopback,
		Encap:     e,
	})
	if err != nil {
		return fmt.Errorf("add a route with encap %s: %w", e, absentIf(err, unix.EINVAL, unix.EOPNOTSUPP))
	}
	return withConn(func(c *seg6.Conn) error {
		routes, err := c.Routes(unix.AF_INET6)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.Dst != dst {
				continue
			}
			if e.Equal(r.Encap) {
				return nil
			}
			asked, ok := e.(*seg6.Local)
			got, ok2 := r.Encap.(*seg6.Local)
			if ok && ok2 {
				if names := asked.Ignored(got); len(names) > 0 {
					return Absent(fmt.Errorf("%s was accepted and ignored", strings.Join(names, ", ")))
				}
			}
			return fmt.Errorf("a route with encap %s reads back as %s", e, r)
		}
		return fmt.Errorf("a route with encap %s is not there after it was added", e)
	})
}
