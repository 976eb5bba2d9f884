// Package seg6 says to the kernel, and reads back from it, what the netlink
// library lacks of SRv6: the seg6 and seg6local encapsulations of routes in all
// their modes, actions and parameters, and the namespace's tunnel source and
// HMAC keys.
//
// Encap and Local implement netlink.Encap, so that netlink.RouteAdd takes them.
// Routes must be read with Conn.Routes: the library's own decoder fails on HMAC
// and drops flavors and counters in silence.
//
// The package knows nothing of topologies and creates no namespace.
package seg6

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// Mode is a headend behaviour, with the numbers of enum SEG6_IPTUN_MODE_* in
// include/uapi/linux/seg6_iptunnel.h.
type Mode uint32

// The modes of seg6 encapsulation.
const (
	ModeInline     Mode = 0 // insert the SRH into the packet (draft-filsfils-spring-srv6-net-pgm-insertion)
	ModeEncap      Mode = 1 // H.Encaps, RFC 8986 section 5.1
	ModeL2Encap    Mode = 2 // H.Encaps.L2, RFC 8986 section 5.3
	ModeEncapRed   Mode = 3 // H.Encaps.Red, RFC 8986 section 5.2
	ModeL2EncapRed Mode = 4 // H.Encaps.L2.Red, RFC 8986 section 5.4
)

var modeNames = []string{
	ModeInline:     "inline",
	ModeEncap:      "encap",
	ModeL2Encap:    "l2encap",
	ModeEncapRed:   "encap.red",
	ModeL2EncapRed: "l2encap.red",
}

// Modes returns every mode, in the order of their numbers.
func Modes() []Mode {
	out := make([]Mode, len(modeNames))
	for i := range out {
		out[i] = Mode(i)
	}
	return out
}

// ParseMode returns the mode of that name in iproute2's words.
func ParseMode(name string) (Mode, error) {
	for i, n := range modeNames {
		if n == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("seg6 mode %q is none of %s", name, list(modeNames))
}

// String is iproute2's name of the mode, or its number.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return strconv.FormatUint(uint64(m), 10)
}

// Encap is a seg6 encapsulation of a route (ip route ... encap seg6).
type Encap struct {
	Mode Mode
	// Segs are the segments in the order of travel.
	Segs []netip.Addr
	// HMACKeyID is the id of the key that signs the SRH, 0 for none.
	HMACKeyID uint32
}

var _ netlink.Encap = (*Encap)(nil)

// attrIPTunnelSRH is SEG6_IPTUNNEL_SRH: struct seg6_iptunnel_encap.
const attrIPTunnelSRH = 1

// Type is LWTUNNEL_ENCAP_SEG6.
func (e *Encap) Type() int { return nl.LWTUNNEL_ENCAP_SEG6 }

// Encode returns the payload of RTA_ENCAP. It fails when a segment is not an
// IPv6 address, when there is none, and when they do not fit into an SRH.
func (e *Encap) Encode() ([]byte, error) {
	srh, err := e.srh().encode(e.Mode == ModeInline)
	if err != nil {
		return nil, fmt.Errorf("encap seg6 mode %s: %w", e.Mode, err)
	}
	return appendAttr(nil, attrIPTunnelSRH, append(u32(uint32(e.Mode)), srh...)), nil
}

// Decode reads the payload of RTA_ENCAP.
func (e *Encap) Decode(b []byte) error {
	attrs, err := parseAttrs(b)
	if err != nil {
		return fmt.Errorf("encap seg6: %w", err)
	}
	for _, a := range attrs {
		if a.kind != attrIPTunnelSRH {
			continue
		}
		if len(a.data) < 4 {
			return fmt.Errorf("encap seg6: mode of %d bytes", len(a.data))
		}
		mode := Mode(binary.NativeEndian.Uint32(a.data))
		var srh SRH
		if err := srh.decode(a.data[4:], mode == ModeInline); err != nil {
			return fmt.Errorf("encap seg6 mode %s: %w", mode, err)
		}
		*e = Encap{Mode: mode, Segs: srh.Segs, HMACKeyID: srh.HMACKeyID}
		return nil
	}
	return fmt.Errorf("encap seg6: no SRH attribute")
}

// String is what `ip route show` prints after the word encap, but for the HMAC
// key id: iproute2 prints it in hexadecimal without the 0x that it wants when
// it reads it.
func (e *Encap) String() string {
	return fmt.Sprintf("seg6 mode %s %s", e.Mode, e.srh().text(e.Mode == ModeInline))
}

// Equal reports whether x encapsulates as e does.
func (e *Encap) Equal(x netlink.Encap) bool {
	o, ok := x.(*Encap)
	if !ok || e == nil || o == nil {
		return ok && e == o
	}
	return e.Mode == o.Mode && e.srh().equal(o.srh())
}

func (e *Encap) srh() *SRH { return &SRH{Segs: e.Segs, HMACKeyID: e.HMACKeyID} }
