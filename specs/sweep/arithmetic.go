package sweep

import (
	"fmt"
	"io"
	"strings"

	"seg6lab/forwarder/skb"
)

// Devices by the name that Arithmetic takes, with their LL_RESERVED_SPACE in
// bytes: hard_header_len rounded down to a multiple of 16, and 16 more.
var devices = []struct {
	name     string
	reserved int
}{
	{"ethernet", 16}, // 14
	{"vlan", 32},     // 18: a VLAN device on one that cannot insert tags
	{"tun", 16},      // 0
}

// Devices names the kinds of outgoing devices.
func Devices() []string {
	var names []string
	for _, d := range devices {
		names = append(names, d.name)
	}
	return names
}

// Reserved is LL_RESERVED_SPACE of a kind of device in bytes.
func Reserved(device string) (int, error) {
	for _, d := range devices {
		if d.name == device {
			return d.reserved, nil
		}
	}
	return 0, fmt.Errorf("device %q: expected one of %s", device, strings.Join(Devices(), ", "))
}

// A Part is a share of the headroom that an encapsulation needs, in bytes.
type Part struct {
	Bytes int
	For   string
}

// Arithmetic is the account of one encapsulation.
type Arithmetic struct {
	Parts        []Part
	Needed, Left int
	// Kernels are what kernels without and with the fixes do.
	Kernels []Kernel
}

// A Kernel is what one with the given fixes does to the packet.
type Kernel struct {
	Profile skb.Profile
	State   State
}

// accounted are the kernels that an account tells of, and roomy the one that it
// adds where the MAC header does not fit.
var (
	accounted = []skb.Profile{{}, {skb.L2CowMacLenOnly}, {skb.L2Cow}}
	roomy     = skb.Profile{skb.L2Cow, skb.MacHeaderRoom}
)

// Account works out an encapsulation by the model, on kernels before and after
// the fixes of the L2 modes.
func Account(e skb.Encapsulation) (*Arithmetic, error) {
	a := &Arithmetic{}
	add := func(profile skb.Profile) (*skb.Result, error) {
		r, err := e.Run(profile, false)
		if err == nil {
			a.Kernels = append(a.Kernels, Kernel{profile, stateOf(r)})
		}
		return r, err
	}
	for _, profile := range accounted {
		r, err := add(profile)
		if err != nil {
			return nil, err
		}
		a.Needed, a.Left = r.Needed, r.Left
	}
	if a.Kernels[0].State.Outside() {
		if _, err := add(roomy); err != nil {
			return nil, err
		}
	}
	a.Parts = parts(e, a.Needed)
	return a, nil
}

// parts divides what is needed; the link layer has the rest.
func parts(e skb.Encapsulation, needed int) []Part {
	var all []Part
	add := func(n int, format string, args ...any) {
		if n > 0 {
			all = append(all, Part{n, fmt.Sprintf(format, args...)})
			needed -= n
		}
	}
	entries := e.Segments
	switch e.Mode {
	case skb.Inline:
		entries++ // the original destination
	case skb.EncapRed, skb.L2EncapRed:
		if e.Segments > 1 || !e.HMAC {
			entries-- // the first is in the destination alone
		}
	}
	overhead := e.Mode.Overhead(e.Segments, e.HMAC)
	if e.Mode.L2() {
		add(e.MacLen, "MAC header, which becomes payload")
	}
	if e.Mode != skb.Inline {
		add(40, "outer IPv6 header")
		overhead -= 40
	}
	switch {
	case e.HMAC:
		add(overhead, "SRH: 8, 16 for each of %d entries, and 40 for the HMAC TLV", entries)
	case entries == 1:
		add(overhead, "SRH: 8, and 16 for its one entry")
	default:
		add(overhead, "SRH: 8, and 16 for each of %d entries", entries)
	}
	if e.Cold {
		add(needed, "room for a link layer: mac_len, while the dst cache is cold")
	} else {
		add(needed, "room for the outgoing link layer (LL_RESERVED_SPACE)")
	}
	return all
}

// Write writes the account in words.
func (a *Arithmetic) Write(out io.Writer) error {
	var b strings.Builder
	for _, p := range a.Parts {
		fmt.Fprintf(&b, "%6d  %s\n", p.Bytes, p.For)
	}
	fmt.Fprintf(&b, "%6d  needed\n%6d  left in front of the packet", a.Needed, a.Left)
	if spare := a.Left - a.Needed; spare >= 0 {
		fmt.Fprintf(&b, ": enough, with %d to spare\n", spare)
	} else {
		fmt.Fprintf(&b, ": %d too few\n", -spare)
	}
	b.WriteString("\nReallocations of the head (pskb_expand_head), per packet:\n")
	for _, k := range a.Kernels {
		name := "kernel without fixes"
		if len(k.Profile) > 0 {
			name = "with " + fixes(k.Profile)
		}
		fmt.Fprintf(&b, "%6d  %s", len(k.State.Calls), name)
		for i, c := range k.State.Calls {
			sep := "; "
			if i == 0 {
				sep = ": "
			}
			fmt.Fprintf(&b, "%s%s", sep, callWords(c))
		}
		b.WriteByte('\n')
		if k.State.Outside() {
			b.WriteString("        and the MAC header, longer than the room kept for it, is written to outside of the buffer\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// callWords says who asked for how much.
func callWords(c Call) string {
	who := map[skb.Site]string{
		skb.SiteL2:        "for the MAC header",
		skb.SiteHeader:    "for the outer headers",
		skb.SiteLinkLayer: "for the link layer",
	}[c.By]
	if c.NHead == 0 {
		return who + ", only because the head is shared"
	}
	return fmt.Sprintf("%s, %d bytes more", who, c.NHead)
}
