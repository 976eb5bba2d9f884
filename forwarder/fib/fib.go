// Package fib finds routes: longest-prefix tables by number, and the policy
// rules that say which table is asked in which order. It knows addresses and
// device numbers only; what a route does is the caller's, who stores a value
// of any type with it.
//
// Tables and rules are filled first and only read afterwards: lookups take no
// lock and allocate nothing.
package fib

import (
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
)

// Table is one routing table. The zero value of V throws: a lookup that ends
// there goes on with the next rule, as after a route of type throw.
type Table[V comparable] struct {
	prefixes bart.Table[V]
}

// Insert adds or replaces the route to a prefix.
func (t *Table[V]) Insert(p netip.Prefix, v V) { t.prefixes.Insert(p, v) }

// Get is the route to exactly this prefix.
func (t *Table[V]) Get(p netip.Prefix) (V, bool) { return t.prefixes.Get(p) }

// Len is the number of prefixes.
func (t *Table[V]) Len() int { return t.prefixes.Size() }

// Lookup is the route with the longest prefix that holds the address.
func (t *Table[V]) Lookup(dst netip.Addr) (v V, ok bool) {
	v, ok = t.prefixes.Lookup(dst)
	var throw V
	return v, ok && v != throw
}

// LookupPrefix is Lookup, with the length of the prefix.
func (t *Table[V]) LookupPrefix(dst netip.Addr) (bits int, v V, ok bool) {
	p, v, ok := t.prefixes.LookupPrefixLPM(netip.PrefixFrom(dst, dst.BitLen()))
	var throw V
	return p.Bits(), v, ok && v != throw
}

// Rule is one policy routing rule. Fields left at their zero value match
// everything.
type Rule struct {
	// Priority: rules are asked in ascending order.
	Priority uint32
	From, To netip.Prefix
	// IIF is the number of the device that received the packet; 0 for any.
	IIF int
	// Table is asked for the route, unless L3Domain is set: then it is the
	// table of the VRF that the packet is in, and a packet in none is passed on.
	Table    uint32
	L3Domain bool
}

// Key is what a lookup is about.
type Key[V comparable] struct {
	Dst, Src netip.Addr
	// IIF is the number of the receiving device, 0 for the node itself.
	IIF int
	// L3Domain is the table of the VRF that the packet is in, or nil.
	L3Domain *Table[V]
}

type rule[V comparable] struct {
	Rule
	table *Table[V]
	plain bool
}

// FIB is the tables and rules of one address family.
type FIB[V comparable] struct {
	tables map[uint32]*Table[V]
	rules  []rule[V]
}

// New is an empty FIB without rules: nothing is found until one is added.
func New[V comparable]() *FIB[V] { return &FIB[V]{tables: map[uint32]*Table[V]{}} }

// Table is the table of that number, made on first use.
func (f *FIB[V]) Table(id uint32) *Table[V] {
	t := f.tables[id]
	if t == nil {
		t = &Table[V]{}
		f.tables[id] = t
	}
	return t
}

// Has reports whether the table was made.
func (f *FIB[V]) Has(id uint32) bool { return f.tables[id] != nil }

// AddRule adds a rule behind those of the same priority.
func (f *FIB[V]) AddRule(r Rule) {
	n := rule[V]{Rule: r, plain: !r.From.IsValid() && !r.To.IsValid() && r.IIF == 0}
	if !r.L3Domain {
		n.table = f.Table(r.Table)
	}
	at, _ := slices.BinarySearchFunc(f.rules, r.Priority+1, func(have rule[V], priority uint32) int {
		return int(int64(have.Priority) - int64(priority))
	})
	f.rules = slices.Insert(f.rules, at, n)
}

// ByDestination reports whether the route depends on nothing but destination
// and VRF: no rule asks for more.
func (f *FIB[V]) ByDestination() bool {
	for i := range f.rules {
		if r := &f.rules[i]; r.From.IsValid() || r.IIF != 0 {
			return false
		}
	}
	return true
}

// Lookup asks the rules in order and returns the first route that one of them
// finds.
func (f *FIB[V]) Lookup(k *Key[V]) (v V, ok bool) {
	for i := range f.rules {
		if t := f.rules[i].selects(k); t != nil {
			if v, ok = t.Lookup(k.Dst); ok {
				return v, true
			}
		}
	}
	return v, false
}

// LookupPrefix is Lookup, with the length of the prefix that was found.
func (f *FIB[V]) LookupPrefix(k *Key[V]) (bits int, v V, ok bool) {
	for i := range f.rules {
		if t := f.rules[i].selects(k); t != nil {
			if bits, v, ok = t.LookupPrefix(k.Dst); ok {
				return bits, v, true
			}
		}
	}
	return 0, v, false
}

// selects is the table that the rule sends the lookup to, nil for none.
func (r *rule[V]) selects(k *Key[V]) *Table[V] {
	if !r.plain && (r.IIF != 0 && r.IIF != k.IIF ||
		r.From.IsValid() && !r.From.Contains(k.Src) ||
		r.To.IsValid() && !r.To.Contains(k.Dst)) {
		return nil
	}
	if r.L3Domain {
		return k.L3Domain
	}
	return r.table
}
