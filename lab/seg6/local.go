package seg6

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Action is an endpoint behaviour, with the numbers of enum SEG6_LOCAL_ACTION_*
// in include/uapi/linux/seg6_local.h.
type Action uint32

// The actions of that enum. The kernel implements those that have a row in
// ActionParams; the others it only names.
const (
	ActionEnd         Action = 1
	ActionEndX        Action = 2
	ActionEndT        Action = 3
	ActionEndDX2      Action = 4
	ActionEndDX6      Action = 5
	ActionEndDX4      Action = 6
	ActionEndDT6      Action = 7
	ActionEndDT4      Action = 8
	ActionEndB6       Action = 9
	ActionEndB6Encaps Action = 10
	ActionEndBM       Action = 11
	ActionEndS        Action = 12
	ActionEndAS       Action = 13
	ActionEndAM       Action = 14
	ActionEndBPF      Action = 15
	ActionEndDT46     Action = 16
)

var actionNames = []string{
	ActionEnd:         "End",
	ActionEndX:        "End.X",
	ActionEndT:        "End.T",
	ActionEndDX2:      "End.DX2",
	ActionEndDX6:      "End.DX6",
	ActionEndDX4:      "End.DX4",
	ActionEndDT6:      "End.DT6",
	ActionEndDT4:      "End.DT4",
	ActionEndB6:       "End.B6",
	ActionEndB6Encaps: "End.B6.Encaps",
	ActionEndBM:       "End.BM",
	ActionEndS:        "End.S",
	ActionEndAS:       "End.AS",
	ActionEndAM:       "End.AM",
	ActionEndBPF:      "End.BPF",
	ActionEndDT46:     "End.DT46",
}

// String is iproute2's name of the action, or its number.
func (a Action) String() string {
	if a > 0 && int(a) < len(actionNames) {
		return actionNames[a]
	}
	return strconv.FormatUint(uint64(a), 10)
}

// ParseAction returns the action of that name in iproute2's words. Only actions
// that Local can express are known: those with a row in ActionParams.
func ParseAction(name string) (Action, error) {
	var known []string
	for _, row := range actionTable {
		if row.Action.String() == name {
			return row.Action, nil
		}
		known = append(known, row.Action.String())
	}
	return 0, fmt.Errorf("seg6local action %q is none of %s", name, list(known))
}

// ActionParams says which parameters an action takes, by iproute2's words.
type ActionParams struct {
	Action Action
	// Required parameters. The kernel answers EINVAL without saying which is
	// missing, so Local.Encode says it.
	Required []string
	// OneOf are parameters of which exactly one is required.
	OneOf []string
	// Optional parameters. A kernel from before a parameter was added ignores
	// it in silence, and so does every kernel up to 6.18 with iif;
	// Local.Ignored tells after the route has been read back.
	Optional []string
}

// takes reports whether the action has the parameter.
func (a ActionParams) takes(name string) bool {
	return slices.Contains(a.Required, name) || slices.Contains(a.OneOf, name) || slices.Contains(a.Optional, name)
}

// actionTable is the kernel's seg6_action_table, without End.BPF. The order is
// that of RFC 8986 section 4.
var actionTable = []ActionParams{
	{Action: ActionEnd, Optional: []string{"flavors", "iif", "count"}},
	{Action: ActionEndX, Required: []string{"nh6"}, Optional: []string{"oif", "flavors", "iif", "count"}},
	{Action: ActionEndT, Required: []string{"table"}, Optional: []string{"iif", "count"}},
	{Action: ActionEndDX6, Required: []string{"nh6"}, Optional: []string{"iif", "count"}},
	{Action: ActionEndDX4, Required: []string{"nh4"}, Optional: []string{"iif", "count"}},
	{Action: ActionEndDT6, OneOf: []string{"table", "vrftable"}, Optional: []string{"iif", "count"}},
	{Action: ActionEndDT4, Required: []string{"vrftable"}, Optional: []string{"iif", "count"}},
	{Action: ActionEndDT46, Required: []string{"vrftable"}, Optional: []string{"iif", "count"}},
	{Action: ActionEndDX2, Required: []string{"oif"}, Optional: []string{"iif", "count"}},
	{Action: ActionEndB6, Required: []string{"srh"}, Optional: []string{"iif", "count"}},
	{Action: ActionEndB6Encaps, Required: []string{"srh"}, Optional: []string{"iif", "count"}},
}

// Actions returns the parameters of every action that Local can express.
func Actions() []ActionParams { return slices.Clone(actionTable) }

// Flavors is a set of flavors (RFC 8986 section 4.16, RFC 9800), a mask with
// the bits of enum SEG6_LOCAL_FLV_OP_*.
type Flavors uint32

// The flavors.
const (
	FlavorPSP      Flavors = 1 << 1 // penultimate segment pop
	FlavorUSP      Flavors = 1 << 2 // ultimate segment pop
	FlavorUSD      Flavors = 1 << 3 // ultimate segment decapsulation
	FlavorNextCSID Flavors = 1 << 4 // compressed segments, RFC 9800 section 4.1
)

var flavorNames = []string{1: "psp", 2: "usp", 3: "usd", 4: "next-csid"}

// ParseFlavor returns the flavor of that name in iproute2's words.
func ParseFlavor(name string) (Flavors, error) {
	for i, n := range flavorNames {
		if n == name && n != "" {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("flavor %q is none of %s", name, list(flavorNames))
}

// String is iproute2's list of the flavors; a bit without a name is printed as
// its number.
func (f Flavors) String() string {
	var names []string
	for i := range 32 {
		switch {
		case f&(1<<i) == 0:
		case i < len(flavorNames) && flavorNames[i] != "":
			names = append(names, flavorNames[i])
		default:
			names = append(names, strconv.Itoa(i))
		}
	}
	return strings.Join(names, ",")
}

// The kernel's SEG6_LOCAL_LCBLOCK_DBITS and SEG6_LOCAL_LCNODE_FN_DBITS, in bits:
// what next-csid means when no length is given.
const (
	DefaultLBLen = 32
	DefaultNFLen = 16
)

// Counters are those of an action with count, summed over the CPUs by the
// kernel.
type Counters struct {
	Packets uint64 // processed
	Bytes   uint64 // of those packets, from the IPv6 header on
	Errors  uint64 // packets that the action dropped
}

// Local is a seg6local encapsulation of a route (ip route ... encap seg6local).
type Local struct {
	Action Action
	// SRH to insert or push (End.B6, End.B6.Encaps).
	SRH *SRH
	// Table to look up in, 0 when not given (End.T, End.DT6).
	Table uint32
	// VRFTable is the table of the VRF to decapsulate into, 0 when not given.
	VRFTable uint32
	NH4      netip.Addr
	NH6      netip.Addr
	// IIF and OIF are interface indices, 0 when not given.
	IIF, OIF uint32
	Flavors  Flavors
	// LBLen and NFLen are the lengths of Locator-Block and Locator-Node
	// Function in bits; 0 is the kernel's default. They mean something with
	// FlavorNextCSID only.
	LBLen, NFLen uint8
	// Count asks for counters.
	Count bool
	// Counters as read back; ignored by Encode and Equal.
	Counters *Counters
	// BPF is the program's name of an End.BPF that was read back; Encode
	// refuses it.
	BPF string
}

var _ netlink.Encap = (*Local)(nil)

// Attributes of seg6local, enum SEG6_LOCAL_*.
const (
	attrLocalAction   = 1
	attrLocalSRH      = 2
	attrLocalTable    = 3
	attrLocalNH4      = 4
	attrLocalNH6      = 5
	attrLocalIIF      = 6
	attrLocalOIF      = 7
	attrLocalBPF      = 8
	attrLocalVRFTable = 9
	attrLocalCounters = 10
	attrLocalFlavors  = 11
)

// param is one parameter of an action: how it is told from one that is not
// given, and how it is written, read, printed and compared.
type param struct {
	name string
	attr uint16
	set  func(*Local) bool
	put  func(*Local) ([]byte, error)
	get  func(*Local, []byte) error
	text func(*Local, func(uint32) string) string
	same func(a, b *Local) bool
}

// params are in the order in which iproute2 prints them.
var params = []param{
	{
		name: "srh", attr: attrLocalSRH,
		set:  func(l *Local) bool { return l.SRH != nil },
		put:  func(l *Local) ([]byte, error) { return l.SRH.encode(l.inline()) },
		get:  func(l *Local, b []byte) error { l.SRH = new(SRH); return l.SRH.decode(b, l.inline()) },
		text: func(l *Local, _ func(uint32) string) string { return l.SRH.text(l.inline()) },
		same: func(a, b *Local) bool { return a.SRH.equal(b.SRH) },
	},
	number("table", attrLocalTable, func(l *Local) *uint32 { return &l.Table }, tableName),
	number("vrftable", attrLocalVRFTable, func(l *Local) *uint32 { return &l.VRFTable }, tableName),
	address("nh4", attrLocalNH4, func(l *Local) *netip.Addr { return &l.NH4 }, "IPv4", netip.Addr.Is4, 4),
	address("nh6", attrLocalNH6, func(l *Local) *netip.Addr { return &l.NH6 }, "IPv6", netip.Addr.Is6, 16),
	number("iif", attrLocalIIF, func(l *Local) *uint32 { return &l.IIF }, nil),
	number("oif", attrLocalOIF, func(l *Local) *uint32 { return &l.OIF }, nil),
	{
		name: "endpoint", attr: attrLocalBPF,
		set: func(l *Local) bool { return l.BPF != "" },
		put: func(*Local) ([]byte, error) {
			return nil, fmt.Errorf("BPF programs cannot be attached here: use ip route")
		},
		get: func(l *Local, b []byte) error {
			const progName = 2 // SEG6_LOCAL_BPF_PROG_NAME
			return eachAttr(b, func(a attr) error {
				if a.kind == progName {
					l.BPF = unix.ByteSliceToString(a.data)
				}
				return nil
			})
		},
		text: func(l *Local, _ func(uint32) string) string { return "endpoint " + l.BPF },
		same: func(a, b *Local) bool { return a.BPF == b.BPF },
	},
	{
		name: "count", attr: attrLocalCounters,
		set: func(l *Local) bool { return l.Count },
		put: func(*Local) ([]byte, error) {
			var b []byte
			for _, kind := range []uint16{counterPackets, counterBytes, counterErrors} {
				b = appendAttr(b, kind, make([]byte, 8))
			}
			return b, nil
		},
		get: getCounters,
		text: func(l *Local, _ func(uint32) string) string {
			if l.Counters == nil {
				return "count"
			}
			return fmt.Sprintf("packets %d bytes %d errors %d", l.Counters.Packets, l.Counters.Bytes, l.Counters.Errors)
		},
		same: func(a, b *Local) bool { return a.Count == b.Count },
	},
	{
		name: "flavors", attr: attrLocalFlavors,
		set:  func(l *Local) bool { return l.Flavors != 0 || l.LBLen != 0 || l.NFLen != 0 },
		put:  putFlavors,
		get:  getFlavors,
		text: flavorText,
		same: func(a, b *Local) bool {
			return a.Flavors == b.Flavors &&
				(a.Flavors&FlavorNextCSID == 0 || a.lengths() == b.lengths())
		},
	},
}

// nested are the attributes that carry NLA_F_NESTED.
const nested = 1<<attrLocalCounters | 1<<attrLocalFlavors

// number is a parameter of 32 bits that is not given when it is 0. Without a
// name function it is an interface index.
func number(name string, kind uint16, field func(*Local) *uint32, named func(uint32) string) param {
	return param{
		name: name, attr: kind,
		set: func(l *Local) bool { return *field(l) != 0 },
		put: func(l *Local) ([]byte, error) { return u32(*field(l)), nil },
		get: func(l *Local, b []byte) (err error) { *field(l), err = getU32(b); return err },
		text: func(l *Local, ifname func(uint32) string) string {
			if named == nil {
				return name + " " + ifname(*field(l))
			}
			return name + " " + named(*field(l))
		},
		same: func(a, b *Local) bool { return *field(a) == *field(b) },
	}
}

// address is a parameter that is an IP address of one family.
func address(name string, kind uint16, field func(*Local) *netip.Addr, family string, is func(netip.Addr) bool, size int) param {
	return param{
		name: name, attr: kind,
		set: func(l *Local) bool { return field(l).IsValid() },
		put: func(l *Local) ([]byte, error) {
			if !is(*field(l)) || field(l).Zone() != "" {
				return nil, fmt.Errorf("%s is not a plain %s address", field(l), family)
			}
			return field(l).AsSlice(), nil
		},
		get: func(l *Local, b []byte) error {
			b, err := need(b, size)
			if err == nil {
				*field(l), _ = netip.AddrFromSlice(b)
			}
			return err
		},
		text: func(l *Local, _ func(uint32) string) string { return name + " " + field(l).String() },
		same: func(a, b *Local) bool { return *field(a) == *field(b) },
	}
}

// Attributes inside SEG6_LOCAL_COUNTERS, enum SEG6_LOCAL_CNT_*.
const (
	counterPackets = 2
	counterBytes   = 3
	counterErrors  = 4
)

func getCounters(l *Local, b []byte) error {
	l.Count, l.Counters = true, new(Counters)
	fields := map[uint16]*uint64{
		counterPackets: &l.Counters.Packets,
		counterBytes:   &l.Counters.Bytes,
		counterErrors:  &l.Counters.Errors,
	}
	return eachAttr(b, func(a attr) error {
		field := fields[a.kind]
		if field == nil {
			return nil
		}
		v, err := need(a.data, 8)
		if err == nil {
			*field = binary.NativeEndian.Uint64(v)
		}
		return err
	})
}

// Attributes inside SEG6_LOCAL_FLAVORS, enum SEG6_LOCAL_FLV_*.
const (
	flavorOperation = 1
	flavorLBLen     = 2
	flavorNFLen     = 3
)

func putFlavors(l *Local) ([]byte, error) {
	if l.Flavors&FlavorNextCSID == 0 && (l.LBLen != 0 || l.NFLen != 0) {
		return nil, fmt.Errorf("lblen and nflen need the flavor next-csid")
	}
	b := appendAttr(nil, flavorOperation, u32(uint32(l.Flavors)))
	if l.LBLen != 0 {
		b = appendAttr(b, flavorLBLen, []byte{l.LBLen})
	}
	if l.NFLen != 0 {
		b = appendAttr(b, flavorNFLen, []byte{l.NFLen})
	}
	return b, nil
}

func getFlavors(l *Local, b []byte) error {
	return eachAttr(b, func(a attr) (err error) {
		switch a.kind {
		case flavorOperation:
			var v uint32
			v, err = getU32(a.data)
			l.Flavors = Flavors(v)
		case flavorLBLen, flavorNFLen:
			var v []byte
			if v, err = need(a.data, 1); err != nil {
				return err
			}
			if a.kind == flavorLBLen {
				l.LBLen = v[0]
			} else {
				l.NFLen = v[0]
			}
		}
		return err
	})
}

func flavorText(l *Local, _ func(uint32) string) string {
	s := "flavors " + l.Flavors.String()
	if l.LBLen != 0 {
		s += fmt.Sprintf(" lblen %d", l.LBLen)
	}
	if l.NFLen != 0 {
		s += fmt.Sprintf(" nflen %d", l.NFLen)
	}
	return s
}

// lengths are LBLen and NFLen with the kernel's defaults filled in.
func (l *Local) lengths() [2]uint8 {
	out := [2]uint8{l.LBLen, l.NFLen}
	if out[0] == 0 {
		out[0] = DefaultLBLen
	}
	if out[1] == 0 {
		out[1] = DefaultNFLen
	}
	return out
}

// inline reports whether the SRH has the entry that the kernel fills in
// (input_action_end_b6).
func (l *Local) inline() bool { return l.Action == ActionEndB6 }

// Type is LWTUNNEL_ENCAP_SEG6_LOCAL.
func (l *Local) Type() int { return nl.LWTUNNEL_ENCAP_SEG6_LOCAL }

// Encode returns the payload of RTA_ENCAP with every parameter that is set. It
// fails when a required parameter is missing, which the kernel would answer
// with a bare EINVAL, when the action does not take a parameter, which the
// kernel would ignore, and when an address is of the wrong family.
func (l *Local) Encode() ([]byte, error) {
	fail := func(err error) error { return fmt.Errorf("encap seg6local action %s: %w", l.Action, err) }
	if err := l.complete(); err != nil {
		return nil, fail(err)
	}
	b := appendAttr(nil, attrLocalAction, u32(uint32(l.Action)))
	for _, p := range params {
		if !p.set(l) {
			continue
		}
		data, err := p.put(l)
		if err != nil {
			return nil, fail(fmt.Errorf("%s: %w", p.name, err))
		}
		kind := p.attr
		if nested&(1<<kind) != 0 {
			kind |= unix.NLA_F_NESTED
		}
		b = appendAttr(b, kind, data)
	}
	return b, nil
}

// complete checks that the parameters which the action needs are there, and no
// others.
func (l *Local) complete() error {
	i := slices.IndexFunc(actionTable, func(r ActionParams) bool { return r.Action == l.Action })
	if i < 0 {
		return fmt.Errorf("not an action that can be set here")
	}
	row := actionTable[i]
	given := make(map[string]bool)
	for _, p := range params {
		if !p.set(l) {
			continue
		}
		if !row.takes(p.name) {
			return fmt.Errorf("takes no %s", p.name)
		}
		given[p.name] = true
	}
	for _, name := range row.Required {
		if !given[name] {
			return fmt.Errorf("%s is missing", name)
		}
	}
	n := 0
	for _, name := range row.OneOf {
		if given[name] {
			n++
		}
	}
	if n != 1 && row.OneOf != nil {
		return fmt.Errorf("needs exactly one of %s", list(row.OneOf))
	}
	return nil
}

// Decode reads the payload of RTA_ENCAP. Attributes that are not known are left
// out, as iproute2 leaves them out.
func (l *Local) Decode(b []byte) error {
	attrs, err := parseAttrs(b)
	if err != nil {
		return fmt.Errorf("encap seg6local: %w", err)
	}
	i := slices.IndexFunc(attrs, func(a attr) bool { return a.kind == attrLocalAction })
	if i < 0 {
		return fmt.Errorf("encap seg6local: no action attribute")
	}
	action, err := getU32(attrs[i].data)
	if err != nil {
		return fmt.Errorf("encap seg6local: action: %w", err)
	}
	// The action first: the layout of the SRH depends on it.
	*l = Local{Action: Action(action)}
	for _, a := range attrs {
		for _, p := range params {
			if p.attr != a.kind {
				continue
			}
			if err := p.get(l, a.data); err != nil {
				return fmt.Errorf("encap seg6local action %s: %s: %w", l.Action, p.name, err)
			}
		}
	}
	return nil
}

// String is Text with interfaces as iproute2 prints those it cannot find: if3.
func (l *Local) String() string { return l.Text(nil) }

// Text is what `ip -s route show` prints after the word encap. ifname names an
// interface by its index in the namespace of the route and may be nil.
// Counters that have not been read back are printed as "count", the word that
// asks for them.
func (l *Local) Text(ifname func(index uint32) string) string {
	if ifname == nil {
		ifname = unknownIf
	}
	words := []string{"seg6local action " + l.Action.String()}
	for _, p := range params {
		if p.set(l) {
			words = append(words, p.text(l, ifname))
		}
	}
	return strings.Join(words, " ")
}

// Equal reports whether x acts as l does. Counters are not compared, and a
// length of 0 is the kernel's default.
func (l *Local) Equal(x netlink.Encap) bool {
	o, ok := x.(*Local)
	if !ok || l == nil || o == nil {
		return ok && l == o
	}
	return l.Action == o.Action && !slices.ContainsFunc(params, func(p param) bool { return !p.same(l, o) })
}

// Ignored returns the parameters, in iproute2's words, that l sets and that got,
// the same route as the kernel reads it back, does not have: seg6local takes
// parameters that an action does not know without an error.
func (l *Local) Ignored(got *Local) []string {
	var names []string
	for _, p := range params {
		if p.set(l) && !p.set(got) {
			names = append(names, p.name)
		}
	}
	return names
}

func eachAttr(b []byte, do func(attr) error) error {
	attrs, err := parseAttrs(b)
	if err != nil {
		return err
	}
	for _, a := range attrs {
		if err := do(a); err != nil {
			return err
		}
	}
	return nil
}
