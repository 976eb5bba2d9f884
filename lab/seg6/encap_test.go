package seg6

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The expected bytes are written out from include/uapi/linux/seg6.h,
// seg6_iptunnel.h, seg6_hmac.h and seg6_local.h for a little-endian machine.
func wire(t testing.TB, parts ...string) []byte {
	t.Helper()
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Fatal("the expected bytes are little-endian, this machine is not")
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func addrs(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

const (
	seg1 = "fc000000000000000000000000000001"
	seg2 = "fc000000000000000000000000000002"
	none = "00000000000000000000000000000000"
	zero = "0000000000000000000000000000000000000000000000000000000000000000"
)

var wireCases = []struct {
	name  string
	encap netlink.Encap
	wire  []string
	text  string
}{
	{
		// nlattr len 4+4+8+32 = 48, type 1; mode 1; SRH: next header 0, hdr
		// ext len 4, type 4, segments left 1, last entry 1, flags 0, tag 0.
		"encap of two segments", &Encap{Mode: ModeEncap, Segs: addrs("fc00::1", "fc00::2")},
		[]string{"3000 0100 01000000", "00 04 04 01 01 00 0000", seg2, seg1},
		"seg6 mode encap segs 2 [ fc00::1 fc00::2 ]",
	},
	{
		"inline has an entry for the destination", &Encap{Mode: ModeInline, Segs: addrs("fc00::1")},
		[]string{"3000 0100 00000000", "00 04 04 01 01 00 0000", none, seg1},
		"seg6 mode inline segs 2 [ fc00::1 :: ]",
	},
	{
		"l2encap", &Encap{Mode: ModeL2Encap, Segs: addrs("fc00::1")},
		[]string{"2000 0100 02000000", "00 02 04 00 00 00 0000", seg1},
		"seg6 mode l2encap segs 1 [ fc00::1 ]",
	},
	{
		// The reduced modes take the whole list; the kernel leaves the first
		// segment out of the packet.
		"encap.red", &Encap{Mode: ModeEncapRed, Segs: addrs("fc00::1", "fc00::2")},
		[]string{"3000 0100 03000000", "00 04 04 01 01 00 0000", seg2, seg1},
		"seg6 mode encap.red segs 2 [ fc00::1 fc00::2 ]",
	},
	{
		"l2encap.red", &Encap{Mode: ModeL2EncapRed, Segs: addrs("fc00::1")},
		[]string{"2000 0100 04000000", "00 02 04 00 00 00 0000", seg1},
		"seg6 mode l2encap.red segs 1 [ fc00::1 ]",
	},
	{
		// 4+4+8+16+40 = 72; hdr ext len (8+16+40)/8-1 = 7; flag 0x08; TLV type
		// 5, length 38, reserved 0, key id in network byte order.
		"hmac", &Encap{Mode: ModeEncap, Segs: addrs("fc00::1"), HMACKeyID: 0x11},
		[]string{"4800 0100 01000000", "00 07 04 00 00 08 0000", seg1, "05 26 0000 00000011", zero},
		"seg6 mode encap segs 1 [ fc00::1 ] hmac 0x11",
	},
	{"End", &Local{Action: ActionEnd}, []string{"0800 0100 01000000"}, "seg6local action End"},
	{
		// Attribute 10, nested (0x8000): packets, bytes, errors of 8 bytes.
		"End count", &Local{Action: ActionEnd, Count: true},
		[]string{"0800 0100 01000000", "2800 0a80",
			"0c00 0200 0000000000000000", "0c00 0300 0000000000000000", "0c00 0400 0000000000000000"},
		"seg6local action End count",
	},
	{
		"End psp", &Local{Action: ActionEnd, Flavors: FlavorPSP},
		[]string{"0800 0100 01000000", "0c00 0b80", "0800 0100 02000000"},
		"seg6local action End flavors psp",
	},
	{
		// Mask of psp (1<<1) and next-csid (1<<4); lengths of one byte, padded.
		"End next-csid", &Local{Action: ActionEnd, Flavors: FlavorPSP | FlavorNextCSID, LBLen: 48, NFLen: 24},
		[]string{"0800 0100 01000000", "1c00 0b80", "0800 0100 12000000", "0500 0200 30000000", "0500 0300 18000000"},
		"seg6local action End flavors psp,next-csid lblen 48 nflen 24",
	},
	{
		"End.X", &Local{Action: ActionEndX, NH6: netip.MustParseAddr("fc00::1"), OIF: 3},
		[]string{"0800 0100 02000000", "1400 0500", seg1, "0800 0700 03000000"},
		"seg6local action End.X nh6 fc00::1 oif if3",
	},
	{
		"End.T", &Local{Action: ActionEndT, Table: 100},
		[]string{"0800 0100 03000000", "0800 0300 64000000"},
		"seg6local action End.T table 100",
	},
	{
		"End.DX2", &Local{Action: ActionEndDX2, OIF: 3},
		[]string{"0800 0100 04000000", "0800 0700 03000000"},
		"seg6local action End.DX2 oif if3",
	},
	{
		"End.DX6", &Local{Action: ActionEndDX6, NH6: netip.MustParseAddr("fc00::1"), IIF: 2},
		[]string{"0800 0100 05000000", "1400 0500", seg1, "0800 0600 02000000"},
		"seg6local action End.DX6 nh6 fc00::1 iif if2",
	},
	{
		"End.DX4", &Local{Action: ActionEndDX4, NH4: netip.MustParseAddr("10.0.0.1")},
		[]string{"0800 0100 06000000", "0800 0400 0a000001"},
		"seg6local action End.DX4 nh4 10.0.0.1",
	},
	{
		"End.DT6 table", &Local{Action: ActionEndDT6, Table: 254},
		[]string{"0800 0100 07000000", "0800 0300 fe000000"},
		"seg6local action End.DT6 table main",
	},
	{
		"End.DT6 vrftable", &Local{Action: ActionEndDT6, VRFTable: 100},
		[]string{"0800 0100 07000000", "0800 0900 64000000"},
		"seg6local action End.DT6 vrftable 100",
	},
	{
		"End.DT4", &Local{Action: ActionEndDT4, VRFTable: 100},
		[]string{"0800 0100 08000000", "0800 0900 64000000"},
		"seg6local action End.DT4 vrftable 100",
	},
	{
		"End.DT46", &Local{Action: ActionEndDT46, VRFTable: 100},
		[]string{"0800 0100 10000000", "0800 0900 64000000"},
		"seg6local action End.DT46 vrftable 100",
	},
	{
		"End.B6", &Local{Action: ActionEndB6, SRH: &SRH{Segs: addrs("fc00::1")}},
		[]string{"0800 0100 09000000", "2c00 0200", "00 04 04 01 01 00 0000", none, seg1},
		"seg6local action End.B6 segs 2 [ fc00::1 :: ]",
	},
	{
		"End.B6.Encaps", &Local{Action: ActionEndB6Encaps, SRH: &SRH{Segs: addrs("fc00::1"), HMACKeyID: 5}},
		[]string{"0800 0100 0a000000", "4400 0200", "00 07 04 00 00 08 0000", seg1, "05 26 0000 00000005", zero},
		"seg6local action End.B6.Encaps segs 1 [ fc00::1 ] hmac 0x5",
	},
}

func TestWire(t *testing.T) {
	for _, c := range wireCases {
		t.Run(c.name, func(t *testing.T) {
			want := wire(t, c.wire...)
			got, err := c.encap.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("encoded\n %x, want\n %x", got, want)
			}
			if got := c.encap.String(); got != c.text {
				t.Errorf("String() = %q, want %q", got, c.text)
			}
			back := reflect.New(reflect.TypeOf(c.encap).Elem()).Interface().(netlink.Encap)
			if err := back.Decode(want); err != nil {
				t.Fatal(err)
			}
			if l, ok := back.(*Local); ok && l.Count {
				if l.Counters == nil || *l.Counters != (Counters{}) {
					t.Errorf("counters %+v, want zeros", l.Counters)
				}
				l.Counters = nil
			}
			if !reflect.DeepEqual(back, c.encap) {
				t.Errorf("decoded %+v, want %+v", back, c.encap)
			}
		})
	}
}

// TestEqual: every case is equal to itself alone.
func TestEqual(t *testing.T) {
	for i, a := range wireCases {
		for j, b := range wireCases {
			if got := a.encap.Equal(b.encap); got != (i == j) {
				t.Errorf("%s.Equal(%s) = %t", a.name, b.name, got)
			}
		}
	}
	asked := &Local{Action: ActionEnd, Flavors: FlavorNextCSID}
	kernel := &Local{Action: ActionEnd, Flavors: FlavorNextCSID, LBLen: 32, NFLen: 16}
	if !asked.Equal(kernel) {
		t.Error("next-csid without lengths differs from 32 and 16 bits")
	}
	kernel.NFLen = 24
	if asked.Equal(kernel) {
		t.Error("nflen 24 equals the default of 16")
	}
}

func TestEncodeErrors(t *testing.T) {
	v4 := netip.MustParseAddr("192.0.2.1")
	many := func(n int) []netip.Addr {
		out := make([]netip.Addr, n)
		for i := range out {
			out[i] = netip.MustParseAddr("fc00::1")
		}
		return out
	}
	for _, c := range []struct {
		name  string
		encap netlink.Encap
		want  string
	}{
		{"no segment", &Encap{Mode: ModeEncap}, "no segments"},
		{"IPv4 segment", &Encap{Mode: ModeEncap, Segs: []netip.Addr{v4}}, "segment 192.0.2.1 is not a plain IPv6 address"},
		{"zone", &Encap{Mode: ModeEncap, Segs: addrs("fe80::1%eth0")}, "segment fe80::1%eth0 is not a plain IPv6 address"},
		{"no address", &Encap{Mode: ModeEncap, Segs: make([]netip.Addr, 1)}, "segment 1 is missing"},
		{"128 segments", &Encap{Mode: ModeEncap, Segs: many(128)}, "128 segments do not fit"},
		{"127 segments inline", &Encap{Mode: ModeInline, Segs: many(127)}, "127 segments do not fit"},
		{"126 segments and HMAC", &Encap{Mode: ModeEncap, Segs: many(126), HMACKeyID: 1}, "126 segments do not fit"},
		{"End.X without nh6", &Local{Action: ActionEndX}, "encap seg6local action End.X: nh6 is missing"},
		{"End.DT6 without table", &Local{Action: ActionEndDT6}, "needs exactly one of table, vrftable"},
		{"End.DT6 with both", &Local{Action: ActionEndDT6, Table: 1, VRFTable: 2}, "needs exactly one of table, vrftable"},
		{"nh6 of IPv4", &Local{Action: ActionEndX, NH6: v4}, "nh6: 192.0.2.1 is not a plain IPv6 address"},
		{"nh4 of IPv6", &Local{Action: ActionEndDX4, NH4: netip.MustParseAddr("fc00::1")}, "nh4: fc00::1 is not a plain IPv4 address"},
		{"End with nh6", &Local{Action: ActionEnd, NH6: netip.MustParseAddr("fc00::1")}, "action End: takes no nh6"},
		{"End.T with flavors", &Local{Action: ActionEndT, Table: 1, Flavors: FlavorPSP}, "action End.T: takes no flavors"},
		{"lblen alone", &Local{Action: ActionEnd, LBLen: 32}, "lblen and nflen need the flavor next-csid"},
		{"IPv4 segment of End.B6", &Local{Action: ActionEndB6, SRH: &SRH{Segs: []netip.Addr{v4}}}, "srh: segment 192.0.2.1"},
		{"End.BPF", &Local{Action: ActionEndBPF, BPF: "prog"}, "not an action that can be set here"},
		{"no action", &Local{}, "not an action that can be set here"},
	} {
		b, err := c.encap.Encode()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: encoded %x, error %v, want %q", c.name, b, err, c.want)
		}
	}
	for _, c := range []netlink.Encap{
		&Encap{Mode: ModeEncap, Segs: many(127)},
		&Encap{Mode: ModeInline, Segs: many(126)},
		&Encap{Mode: ModeEncap, Segs: many(125), HMACKeyID: 1},
	} {
		if _, err := c.Encode(); err != nil {
			t.Error(err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		into netlink.Encap
		wire string
		want string
	}{
		{"nothing", &Encap{}, "", "no SRH attribute"},
		{"attribute shorter than its header", &Encap{}, "0300 0100", "attribute of 3 bytes"},
		{"attribute past the end", &Encap{}, "0900 0100 01000000", "attribute of 9 bytes"},
		{"no mode", &Encap{}, "0600 0100 01000000", "mode of 2 bytes"},
		{"no SRH", &Encap{}, "0800 0100 01000000", "SRH of 0 bytes"},
		{"other routing type", &Encap{}, "1000 0100 01000000 00 00 03 00 00 00 0000", "routing type 3"},
		{"last entry past the SRH", &Encap{}, "1000 0100 01000000 00 00 04 00 00 00 0000", "SRH of 8 bytes with 1 entries"},
		{"SRH past the attribute", &Encap{}, "2000 0100 01000000 00 04 04 00 00 00 0000" + seg1, "SRH of 40 bytes"},
		{"HMAC flag alone", &Encap{}, "2000 0100 01000000 00 02 04 00 00 08 0000" + seg1, "without room"},
		{"no action", &Local{}, "0800 0300 64000000", "no action attribute"},
		{"short action", &Local{}, "0600 0100 01000000", "action: 2 bytes instead of 4"},
		{"short nh6", &Local{}, "0800 0100 02000000 0800 0500 00000000", "action End.X: nh6: 4 bytes instead of 16"},
	} {
		err := c.into.Decode(wire(t, c.wire))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestDecodeForeign: what others have set is read back without failing.
func TestDecodeForeign(t *testing.T) {
	for _, c := range []struct {
		name, wire, text string
	}{
		// SEG6_LOCAL_BPF: nested program id 7 and name "prog".
		{"End.BPF", "0800 0100 0f000000 1800 0800 0800 0100 07000000 0900 0200 70726f67 00000000", "seg6local action End.BPF endpoint prog"},
		{"action of a later kernel", "0800 0100 63000000", "seg6local action 99"},
		{"attribute of a later kernel", "0800 0100 01000000 0800 2000 00000000", "seg6local action End"},
		{"flavor of a later kernel", "0800 0100 01000000 0c00 0b80 0800 0100 22000000", "seg6local action End flavors psp,5"},
		// SEG6_LOCAL_CNT_PAD (1) comes before each counter.
		{"counters", "0800 0100 01000000 3400 0a80 0400 0100 0c00 0200 0300000000000000" +
			"0400 0100 0c00 0300 3801000000000000 0400 0100 0c00 0400 0100000000000000",
			"seg6local action End packets 3 bytes 312 errors 1"},
	} {
		var l Local
		if err := l.Decode(wire(t, c.wire)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if l.String() != c.text {
			t.Errorf("%s: %q, want %q", c.name, l.String(), c.text)
		}
	}
}

func TestNames(t *testing.T) {
	for _, m := range Modes() {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
	}
	for _, row := range Actions() {
		if got, err := ParseAction(row.Action.String()); err != nil || got != row.Action {
			t.Errorf("ParseAction(%q) = %v, %v", row.Action, got, err)
		}
	}
	for _, f := range []Flavors{FlavorPSP, FlavorUSP, FlavorUSD, FlavorNextCSID} {
		if got, err := ParseFlavor(f.String()); err != nil || got != f {
			t.Errorf("ParseFlavor(%q) = %v, %v", f, got, err)
		}
	}
	for _, f := range []func(string) error{
		func(s string) error { _, err := ParseMode(s); return err },
		func(s string) error { _, err := ParseAction(s); return err },
		func(s string) error { _, err := ParseFlavor(s); return err },
	} {
		for _, s := range []string{"", "nonsense", "End.BPF"} {
			if f(s) == nil {
				t.Errorf("%q was parsed", s)
			}
		}
	}
}

func TestIgnored(t *testing.T) {
	asked := &Local{Action: ActionEndX, NH6: netip.MustParseAddr("fc00::1"), OIF: 3, Count: true}
	got := &Local{Action: ActionEndX, NH6: netip.MustParseAddr("fc00::1"), Count: true}
	if ignored := asked.Ignored(got); !reflect.DeepEqual(ignored, []string{"oif"}) {
		t.Errorf("ignored %q, want oif", ignored)
	}
	if ignored := asked.Ignored(asked); ignored != nil {
		t.Errorf("ignored %q of itself", ignored)
	}
}

// FuzzDecode: no bytes make Decode, String or Encode panic, and what decodes and
// encodes again decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, c := range wireCases {
		f.Add(wire(f, c.wire...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, pair := range [][2]netlink.Encap{{&Encap{}, &Encap{}}, {&Local{}, &Local{}}} {
			if pair[0].Decode(b) != nil {
				continue
			}
			_ = pair[0].String()
			again, err := pair[0].Encode()
			if err != nil {
				continue
			}
			if err := pair[1].Decode(again); err != nil {
				t.Fatalf("%s: %v", pair[0], err)
			}
			if !pair[0].Equal(pair[1]) {
				t.Fatalf("%s became %s", pair[0], pair[1])
			}
		}
	})
}

// FuzzParseRoute: no message makes it panic, nor printing what it gives.
func FuzzParseRoute(f *testing.F) {
	// struct rtmsg: IPv6, /64, table main, proto boot, unicast; then RTA_DST (1),
	// RTA_ENCAP_TYPE (21) seg6local and RTA_ENCAP (22) with End.
	f.Add(wire(f, "0a400000 fe030001 00000000", "1400 0100", seg1, "0600 1500 0700 0000", "0c00 1680 0800 0100 01000000"))
	// RTA_MULTIPATH (9): two struct rtnexthop, the first with RTA_GATEWAY (5).
	f.Add(wire(f, "0a400000 fe030001 00000000", "2800 0900", "1c00 0000 02000000 1400 0500", seg1, "0800 0001 03000000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			if r, ok, err := parseRoute(b, family); ok && err == nil {
				_ = r.String()
			}
		}
	})
}
