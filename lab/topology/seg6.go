package topology

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"seg6lab/lab/topology/strictyaml"
)

// MaxSecret is the length of an HMAC secret in bytes (SEG6_HMAC_SECRET_LEN).
const MaxSecret = 64

// MaxSegments is the number of segments that a segment list may have. Hdr Ext
// Len counts units of 8 bytes in 8 bits (RFC 8754 section 2): 2 for every
// entry of the SRH and 5 for an HMAC TLV, 255 in all. That is 127 entries, or
// 125 with an HMAC; Last Entry, 126 at most, is never the limit. An inserted
// SRH (inline, End.B6) has an entry more than segments, for the original
// destination. The kernel builds encap.red from the full list, so the limit is
// that of encap.
func MaxSegments(inserted, hmac bool) int {
	units := 255
	if hmac {
		units -= 5
	}
	entries := units / 2
	if inserted {
		entries--
	}
	return entries
}

// behaviour is what an action of seg6local takes.
type behaviour struct {
	// required parameters: without one the kernel answers EINVAL.
	required []string
	// optional parameters.
	optional []string
	// flavors that the kernel knows for the action (seg6_flv_supp_ops_by_action)
	// and, besides, those that the forwarder knows.
	flavors, forwarder []string
}

// behaviours is the kernel's seg6_action_table. The kernel ignores what an
// action does not take, except that End.DT6 wants exactly one table; here
// it is an error. Every action takes count and iif: count since Linux 5.14,
// and iif, which iproute2 sends, is ignored by all kernels so far. oif of
// End.X is ignored by kernels that do not know it yet.
var behaviours = map[string]behaviour{
	"End":           {nil, []string{"flavors"}, []string{"psp", "next-csid"}, []string{"usp", "usd"}},
	"End.X":         {[]string{"nh6"}, []string{"oif", "flavors"}, []string{"next-csid"}, []string{"psp", "usp", "usd"}},
	"End.T":         {[]string{"table"}, []string{"flavors"}, nil, []string{"psp", "usp", "usd", "next-csid"}},
	"End.DX2":       {[]string{"oif"}, nil, nil, nil},
	"End.DX4":       {[]string{"nh4"}, nil, nil, nil},
	"End.DX6":       {[]string{"nh6"}, nil, nil, nil},
	"End.DT4":       {[]string{"vrftable"}, nil, nil, nil},
	"End.DT6":       {nil, []string{"table", "vrftable"}, nil, nil},
	"End.DT46":      {[]string{"vrftable"}, nil, nil, nil},
	"End.B6":        {[]string{"srh"}, nil, nil, nil},
	"End.B6.Encaps": {[]string{"srh"}, nil, nil, nil},
}

// The defaults of NEXT-CSID in bits (SEG6_LOCAL_LCBLOCK_DBITS and
// SEG6_LOCAL_LCNODE_FN_DBITS).
const (
	DefaultLBLen = 32
	DefaultNFLen = 16
)

func (n *node) encap(e *Encap, path, family string) {
	switch {
	case e.Seg6 == nil && e.Seg6Local == nil:
		n.fail(e.Pos(), path, "is empty: expected seg6 or seg6local")
	case e.Seg6 != nil && e.Seg6Local != nil:
		n.fail(e.KeyAt("seg6local"), path, "a route has one encapsulation: expected seg6 or seg6local, not both")
	}
	if s := e.Seg6; s != nil {
		path := path + ".seg6"
		if s.Mode == "inline" && family == Inet {
			n.fail(s.ValueAt("mode"), path+".mode", "inline puts an SRH into an IPv6 packet: an IPv4 route takes encap, encap.red, l2encap or l2encap.red")
		}
		n.segments(&s.At, path, s.Segs, s.HMAC, s.Mode == "inline")
	}
	if s := e.Seg6Local; s != nil {
		if family == Inet {
			n.fail(e.KeyAt("seg6local"), path, "a segment is an IPv6 address: an IPv4 route takes no seg6local")
		}
		n.seg6local(s, path+".seg6local")
	}
}

func (n *node) segments(at *strictyaml.At, path string, segs []netip.Addr, hmac uint32, inserted bool) {
	most := MaxSegments(inserted, hmac != 0)
	switch {
	case len(segs) == 0:
		n.fail(at.ValueAt("segs"), path+".segs", "has no segment: expected 1 to %d", most)
	case len(segs) > most:
		n.fail(at.ValueAt("segs"), path+".segs", "%d segments: at most %d fit into this SRH, whose length field counts to 255 units of 8 bytes", len(segs), most)
	}
	for i, seg := range segs {
		p := strictyaml.Item("segs", i)
		if !isIPv6(seg) {
			n.fail(at.ValueAt(p), path+"."+p, "%s is an IPv4 address: a segment is an IPv6 address", seg)
		}
	}
	if hmac == 0 {
		return
	}
	var ids []string
	if n.Seg6 != nil {
		for _, key := range n.Seg6.HMAC {
			if key.ID == hmac {
				return
			}
			ids = append(ids, strconv.FormatUint(uint64(key.ID), 10))
		}
	}
	known := "the node has none"
	if len(ids) > 0 {
		known = "the node has " + strings.Join(ids, ", ")
	}
	n.fail(at.ValueAt("hmac"), path+".hmac", "there is no HMAC key %d in %s.seg6.hmac; %s", hmac, n.path, known)
}

func (n *node) seg6local(s *Seg6Local, path string) {
	b, ok := behaviours[s.Action]
	if !ok {
		n.fail(s.ValueAt("action"), path+".action", "%q is not known%s", s.Action, strictyaml.Suggest(s.Action, sortedKeys(behaviours)))
		return
	}
	given := map[string]bool{
		"nh4": s.NH4.IsValid(), "nh6": s.NH6.IsValid(), "oif": s.OIF != "", "table": s.Table != 0,
		"vrftable": s.VRFTable != 0, "srh": s.SRH != nil, "flavors": len(s.Flavors) > 0,
	}
	for _, p := range b.required {
		if !given[p] {
			n.fail(s.Pos(), path, "%s needs %s", s.Action, p)
		}
	}
	for _, p := range sortedKeys(given) {
		if given[p] && !slices.Contains(b.required, p) && !slices.Contains(b.optional, p) {
			n.fail(s.KeyAt(p), path+"."+p, "%s takes no %s; it takes %s", s.Action, p,
				strictyaml.OneOf(slices.Concat(b.required, b.optional, []string{"count", "iif"})))
		}
	}
	if s.Action == "End.DT6" && given["table"] == given["vrftable"] {
		n.fail(s.Pos(), path, "End.DT6 needs table or vrftable, and only one of them")
	}
	if s.NH4.IsValid() && !s.NH4.Is4() {
		n.fail(s.ValueAt("nh4"), path+".nh4", "%s is no IPv4 address", s.NH4)
	}
	if s.NH6.IsValid() && !isIPv6(s.NH6) {
		n.fail(s.ValueAt("nh6"), path+".nh6", "%s is no IPv6 address", s.NH6)
	}
	if s.OIF != "" {
		n.needs(s.ValueAt("oif"), path+".oif", s.OIF)
	}
	if s.IIF != "" {
		n.needs(s.ValueAt("iif"), path+".iif", s.IIF)
	}
	if s.SRH != nil {
		n.segments(&s.SRH.At, path+".srh", s.SRH.Segs, s.SRH.HMAC, s.Action == "End.B6")
	}
	if given["flavors"] && slices.Contains(b.optional, "flavors") {
		n.flavors(s, b, path)
	}
	n.csid(s, path)
}

func (n *node) flavors(s *Seg6Local, b behaviour, path string) {
	for i, f := range s.Flavors {
		p := strictyaml.Item("flavors", i)
		switch {
		case slices.Contains(s.Flavors[:i], f):
			n.fail(s.ValueAt(p), path+"."+p, "%s is given twice", f)
		case slices.Contains(b.flavors, f), n.Dataplane == "forwarder" && slices.Contains(b.forwarder, f):
		case slices.Contains(b.forwarder, f):
			n.fail(s.ValueAt(p), path+"."+p, "the kernel has no %s for %s (EOPNOTSUPP): only a node with dataplane: forwarder takes it", f, s.Action)
		default:
			n.fail(s.ValueAt(p), path+"."+p, "%s takes no flavor %q; expected %s", s.Action, f, strictyaml.OneOf(b.flavors))
		}
	}
}

// csid checks the lengths of NEXT-CSID (seg6_chk_next_csid_cfg).
func (n *node) csid(s *Seg6Local, path string) {
	csid := slices.Contains(s.Flavors, "next-csid")
	lengths := []struct {
		key  string
		bits *uint8
		def  uint8
	}{{"lblen", &s.LBLen, DefaultLBLen}, {"nflen", &s.NFLen, DefaultNFLen}}
	sum := 0
	for _, l := range lengths {
		bits := *l.bits
		if bits == 0 {
			sum += int(l.def)
			continue
		}
		sum += int(bits)
		if !csid {
			n.fail(s.KeyAt(l.key), path+"."+l.key, "belongs to the flavor next-csid, which is not there")
		} else if bits%8 != 0 {
			n.fail(s.ValueAt(l.key), path+"."+l.key, "%d is no multiple of 8 bits", bits)
		}
	}
	if csid && sum > 128 {
		n.fail(s.ValueAt("flavors"), path, "lblen and nflen are %d bits together: at most 128, the length of an address", sum)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
