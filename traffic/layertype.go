package traffic

import (
	"fmt"
	"net/netip"
	"slices"
)

// layerType is one layer of the table below.
type layerType struct {
	name    string
	aliases []string
	group   string // "" for a layer of a packet; else the lists that it may stand in
	fields  []field

	like       []string            // layers that this one stands for when the layers around it are bound
	groups     map[string][]string // a name for several adjacent bits
	positional bool                // Raw(b"x"): the first field needs no name
	last       bool                // nothing may follow

	pad   func(f *filled, given bool, header []byte) []byte // appends what rounds the header up; given: its length field was given
	inner func(f *filled) int                               // bytes of payload that the header says; the rest is Padding
	next  func(f *filled, payload []byte) string            // the layer that follows, when the bindings do not say
	lift  map[string]value                                  // what this layer sets in an IPv6 layer below it

	generic bool   // in a group: takes the types that have no layer of their own
	align   [2]int // of an option: it begins at a multiple of the first plus the second

	index     map[string]int
	rewritten bool // has a list of options, of which not every encoding can be said
}

// binding says that the field of the layer under has the value when the layer
// over follows.
type binding struct {
	under, field string
	value        uint64
	over         string
	only         direction
}

type direction int

const (
	both    direction = iota
	reading           // used to dissect only
	writing           // used to build only
)

var (
	zeroMAC      = uint64(0)
	broadcastMAC = uint64(0xffffffffffff)
	loopback6    = netip.IPv6Loopback()
	unspecified6 = netip.IPv6Unspecified()
)

func num(name string, bits int, def uint64) field {
	return field{name: name, kind: decimal, bits: bits, def: def}
}

func xnum(name string, bits int, def uint64) field {
	return field{name: name, kind: hexdec, bits: bits, def: def}
}

func auto(name string, bits int, f func(*scope) uint64) field {
	return field{name: name, kind: decimal, bits: bits, auto: f}
}

func checksumField(name string, f func(*scope) uint64) field {
	return field{name: name, kind: hexdec, bits: 16, auto: f, sum: true}
}

func macField(name string, def uint64) field {
	return field{name: name, kind: mac, bits: 48, def: def}
}

func ip4Field(name string, def uint64) field {
	return field{name: name, kind: ipv4, bits: 32, def: def}
}

func ip6Field(name string, def netip.Addr) field {
	return field{name: name, kind: ipv6, def: def, size: fixed(16)}
}

func bytesField(name, def string, size sizeFunc) field {
	return field{name: name, kind: octets, def: def, size: size}
}

func (f field) onlyIf(when func(*filled) bool) field { f.when = when; return f }

func (f field) named(names map[string]uint64) field { f.names = names; return f }

func fixed(n int) sizeFunc { return func(*filled, int, int) int { return n } }

func everything(_ *filled, _, rest int) int { return rest }

// until is the size of the field that ends a header of plus + unit*length bytes.
func until(length string, unit, plus int) sizeFunc {
	return func(f *filled, at, _ int) int { return plus + unit*int(f.number(length)) - at }
}

func flagField(name string, bits int, def uint64, flags ...string) field {
	return field{name: name, kind: bitflags, bits: bits, def: def, flags: flags}
}

// optionsField holds layers of a group; at is the offset of the field in its header.
func optionsField(name, group string, at int) field {
	return field{name: name, kind: optionList(group, at), def: []*Layer{}, size: until("len", 8, 8)}
}

// layersByName and layerNames are filled from the table.
var (
	layersByName = map[string]*layerType{}
	layerNames   []string
)

func init() {
	for i := range table {
		t := &table[i]
		t.index = map[string]int{}
		for j, f := range t.fields {
			t.index[f.name] = j
			_, list := f.def.([]*Layer)
			t.rewritten = t.rewritten || list
		}
		if slices.Contains(t.like, "IPv6") && t.next == nil {
			t.next = afterIPv6
		}
		for _, name := range append([]string{t.name}, t.aliases...) {
			layersByName[name] = t
			layerNames = append(layerNames, name)
		}
	}
}

// find returns the index of a field, or an error with the nearest right word.
func (t *layerType) find(name string) (int, error) {
	if i, ok := t.index[name]; ok {
		return i, nil
	}
	words := make([]string, 0, len(t.fields))
	for _, f := range t.fields {
		words = append(words, f.name)
	}
	for g := range t.groups {
		words = append(words, g)
	}
	return 0, fmt.Errorf("%s has no field %.40q%s", t.name, name, didYouMean(name, words))
}

// namesOf lists the layers of a group.
func namesOf(group string) []string {
	return slices.DeleteFunc(slices.Clone(layerNames), func(name string) bool { return layersByName[name].group != group })
}

func keys(m map[string]uint64) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
