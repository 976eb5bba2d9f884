package forwarder

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"seg6lab/forwarder/fib"
	"seg6lab/forwarder/srh"
)

// endpoint is a route with encap seg6local: one SID.
type endpoint struct {
	row *behaviour
	// name is the prefix of the route, index its place in the counters.
	name   string
	index  int
	nh6    [16]byte
	nh4    [4]byte
	hasNH6 bool
	hasNH4 bool
	oif    *device
	// tableID as configured; table is nil where no route or VRF made it.
	tableID uint32
	table   *fib.Table[*dst]
	vrf     *domain
	srh     *headend
	flavors flavor
	csid    srh.CSID
}

func (c *compiler) compileEndpoint(l *Local, to netip.Prefix, dev *device) (*endpoint, error) {
	i := slices.IndexFunc(behaviours, func(b behaviour) bool { return b.action == l.Action })
	if i < 0 {
		return nil, fmt.Errorf("encap seg6local: no action is called %q", l.Action)
	}
	e := &endpoint{row: &behaviours[i], name: to.String(), index: len(c.sids)}
	if err := c.fillEndpoint(e, l, to, dev); err != nil {
		return nil, fmt.Errorf("encap seg6local action %s: %w", l.Action, err)
	}
	c.sids = append(c.sids, e)
	return e, nil
}

func (c *compiler) fillEndpoint(e *endpoint, l *Local, to netip.Prefix, dev *device) error {
	if !to.Addr().Is6() {
		return errors.New("only for IPv6 routes")
	}
	if err := e.row.check(l); err != nil {
		return err
	}
	if l.NH6.IsValid() {
		e.nh6 = l.NH6.As16()
		e.hasNH6 = !l.NH6.IsUnspecified()
	}
	if l.NH4.IsValid() {
		e.nh4 = l.NH4.As4()
		e.hasNH4 = !l.NH4.IsUnspecified()
	}
	if l.OIF != "" {
		if e.oif = c.byName[l.OIF]; e.oif == nil {
			return fmt.Errorf("no device is called %q", l.OIF)
		}
	}
	e.tableID = l.Table
	if l.VRFTable != 0 {
		i := slices.IndexFunc(c.domains, func(d *domain) bool { return d.index != 0 && d.id == l.VRFTable })
		if i < 0 {
			return fmt.Errorf("table %d has no associated VRF device", l.VRFTable)
		}
		e.vrf = c.domains[i]
	}
	if l.SRH != nil {
		mode := "inline"
		if e.row.action == "End.B6.Encaps" {
			mode = "encap"
		}
		i := slices.IndexFunc(headends, func(r headendRow) bool { return r.mode == mode })
		var err error
		if e.srh, err = c.newHeadend(&headends[i], l.SRH, dev); err != nil {
			return err
		}
	}
	return e.setFlavors(l)
}

// resolveTables finds the tables of the behaviours once all routes are known.
func (c *compiler) resolveTables() {
	for _, e := range c.sids {
		if e.tableID != 0 && c.fib6.Has(e.tableID) {
			e.table = c.fib6.Table(e.tableID)
		}
	}
}

// inTable is the route that the behaviour's table has: without such a table a
// black hole (seg6_lookup_any_nexthop).
func (e *endpoint) inTable(to netip.Addr) *dst {
	if e.table == nil {
		return blackholeDst
	}
	d, _ := e.table.Lookup(to)
	return d
}

func (e *endpoint) setFlavors(l *Local) error {
	for _, name := range l.Flavors {
		i := slices.Index(flavorNames, name)
		if i < 0 || e.row.flavors&(1<<i) == 0 {
			return fmt.Errorf("no flavor %q", name)
		}
		e.flavors |= 1 << i
	}
	if e.flavors&nextCSID == 0 {
		if l.LBLen != 0 || l.NFLen != 0 {
			return errors.New("lblen and nflen are for the flavor next-csid")
		}
		return nil
	}
	e.csid = srh.DefaultCSID
	if l.LBLen != 0 {
		e.csid.Block = l.LBLen
	}
	if l.NFLen != 0 {
		e.csid.Function = l.NFLen
	}
	return e.csid.Validate()
}

// check compares the attributes of a route with those of the behaviour.
func (b *behaviour) check(l *Local) error {
	var have attr
	for i, set := range []bool{l.NH4.IsValid(), l.NH6.IsValid(), l.OIF != "", l.Table != 0, l.VRFTable != 0, l.SRH != nil} {
		if set {
			have |= 1 << i
		}
	}
	if missing := b.needs &^ have; missing != 0 {
		return fmt.Errorf("needs %s", missing)
	}
	if extra := have &^ (b.needs | b.takes); extra != 0 {
		return fmt.Errorf("takes no %s", extra)
	}
	if l.NH4.IsValid() && !l.NH4.Is4() || l.NH6.IsValid() && !l.NH6.Is6() {
		return errors.New("a next hop is of the wrong family")
	}
	if both := attrTable | attrVRFTable; b.takes&both == both && (have&both == both || have&both == 0) {
		return errors.New("table or vrftable must be specified")
	}
	return nil
}

func (a attr) String() string {
	var names []string
	for i, name := range attrNames {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// endpoint runs the behaviour of a SID and counts as seg6_local_input_core.
func (w *Worker) endpoint(p *packet, e *endpoint) bool {
	if !p.v6 {
		return w.drop(dropProtocol)
	}
	n, counters := uint64(p.len()), &w.sids[e.index]
	if !e.row.run(w, p, e) {
		counters.errors.Add(1)
		return false
	}
	counters.packets.Add(1)
	counters.bytes.Add(n)
	return true
}

// refuse drops a packet that a behaviour does not take, telling the sender as
// the RFC asks unless the quirk says that Linux does not.
func (w *Worker) refuse(p *packet, code byte, pointer int) bool {
	if !w.f.quirks.NoICMP {
		w.icmp6Error(p, icmp6ParameterProblem, code, uint32(pointer))
	}
	return w.drop(dropSegmentRouting)
}
