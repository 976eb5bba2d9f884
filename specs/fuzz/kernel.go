package fuzz

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"seg6lab/forwarder"
	"seg6lab/lab"
	"seg6lab/lab/seg6"
	"seg6lab/lab/topology"
	"seg6lab/traffic"
)

// kernelRouter is a lab whose router is the kernel.
type kernelRouter struct {
	lab      *lab.Lab
	exchange *traffic.Exchange
}

var labs atomic.Uint64

func upKernel(ctx context.Context, t *topology.Topology) (_ *kernelRouter, err error) {
	mark := append(ethernet(0, "", "86dd"), unhex("60000000 000c 3b 40", hostAddr)...)
	mark = append(append(mark, markerDst.AsSlice()...), "marker: 0000"...)
	k := &kernelRouter{exchange: traffic.NewExchange(mark)}
	k.lab, err = lab.Up(ctx, t, lab.Options{Name: fmt.Sprintf("fuzz-%d-%d", os.Getpid(), labs.Add(1)), Owned: true})
	if err != nil {
		return nil, err
	}
	for _, at := range ends {
		node, err := k.lab.Node(at.Node)
		if err == nil {
			err = node.Do(func() error { return k.exchange.Add(at.Dev) })
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", at, err), k.down())
		}
	}
	return k, nil
}

func (k *kernelRouter) down() error { return errors.Join(k.exchange.Close(), k.lab.Down()) }

// normal leaves out what the routers send in their own time, and hides what the
// kernel draws at random.
func normal(s []traffic.Arrival) []traffic.Arrival {
	return traffic.Comparable(s, topology.LinkMAC(0, 1), topology.LinkMAC(1, 0))
}

// counters are what the kernel counted for each SID.
func (k *kernelRouter) counters() (map[netip.Prefix]forwarder.Counters, error) {
	node, err := k.lab.Node(router)
	if err != nil {
		return nil, err
	}
	conn, err := node.Seg6()
	if err != nil {
		return nil, err
	}
	routes, err := conn.Routes(unix.AF_INET6)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	all := make(map[netip.Prefix]forwarder.Counters)
	for _, r := range routes {
		if l, ok := r.Encap.(*seg6.Local); ok && l.Counters != nil {
			all[r.Dst] = forwarder.Counters{Packets: l.Counters.Packets, Bytes: l.Counters.Bytes, Errors: l.Counters.Errors}
		}
	}
	return all, nil
}
