package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"seg6lab/lab/seg6"
	"seg6lab/lab/topology"
)

// seg6 sets the namespace's tunnel source and HMAC keys.
func (c *configurator) seg6() error {
	t := c.topology.Seg6
	if t == nil {
		return nil
	}
	conn, err := c.node.Seg6()
	if err != nil {
		return err
	}
	if t.TunSrc.IsValid() {
		if err := conn.SetTunSrc(t.TunSrc); err != nil {
			return fmt.Errorf("tunsrc %s: %w", t.TunSrc, err)
		}
	}
	for _, k := range t.HMAC {
		algorithm, err := seg6.ParseHMACAlgorithm(k.Algorithm)
		if err == nil {
			err = conn.SetHMACKey(seg6.HMACKey{ID: k.ID, Algorithm: algorithm, Secret: []byte(k.Secret)})
		}
		if err != nil {
			return fmt.Errorf("hmac key %d: %w", k.ID, err)
		}
	}
	return nil
}

// encap is an encapsulation of the topology as the netlink library takes it.
func (c *configurator) encap(e *topology.Encap) (netlink.Encap, error) {
	if e.Seg6 != nil {
		mode, err := seg6.ParseMode(e.Seg6.Mode)
		return &seg6.Encap{Mode: mode, Segs: e.Seg6.Segs, HMACKeyID: e.Seg6.HMAC}, err
	}
	t := e.Seg6Local
	action, err := seg6.ParseAction(t.Action)
	if err != nil {
		return nil, err
	}
	local := &seg6.Local{
		Action:   action,
		Table:    uint32(t.Table),
		VRFTable: uint32(t.VRFTable),
		NH4:      t.NH4,
		NH6:      t.NH6,
		LBLen:    t.LBLen,
		NFLen:    t.NFLen,
		Count:    t.Count,
	}
	if t.SRH != nil {
		local.SRH = &seg6.SRH{Segs: t.SRH.Segs, HMACKeyID: t.SRH.HMAC}
	}
	for _, name := range t.Flavors {
		flavor, err := seg6.ParseFlavor(name)
		if err != nil {
			return nil, err
		}
		local.Flavors |= flavor
	}
	for _, d := range []struct {
		name string
		to   *uint32
	}{{t.IIF, &local.IIF}, {t.OIF, &local.OIF}} {
		if d.name == "" {
			continue
		}
		index, err := c.dev(d.name)
		if err != nil {
			return nil, err
		}
		*d.to = uint32(index)
	}
	return local, nil
}
