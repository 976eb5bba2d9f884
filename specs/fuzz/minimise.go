package fuzz

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"seg6lab/lab/topology"
)

// minimise makes frame and configuration of a difference smaller for as long
// as kernel and forwarder still differ.
func minimise(ctx context.Context, t *topology.Topology, o outcome, rfc bool, seed uint64, frames int) (*Difference, error) {
	whole := difference(t, o, seed, frames)
	alone, err := again(ctx, t, &o, rfc)
	if err != nil || !alone {
		return whole, err
	}
	if t, err = fewerRoutes(ctx, t, &o, rfc); err != nil {
		return nil, err
	}
	small := o
	if err = smallerFrame(ctx, t, &small, rfc); err != nil {
		return nil, err
	}
	// The router has seen many frames by now: this one must differ alone.
	if alone, err = again(ctx, t, &small, rfc); err != nil {
		return nil, err
	}
	if alone {
		o = small
	}
	d := difference(t, o, seed, frames)
	d.Case, d.Topology, err = caseFiles(t, o, d)
	return d, err
}

// again compares the frame of o with nothing before it.
func again(ctx context.Context, t *topology.Topology, o *outcome, rfc bool) (differs bool, err error) {
	p, err := open(ctx, t, rfc)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.kernel.down()) }()
	err = p.compare(o)
	return !o.equal(), err
}

// fewerRoutes leaves out routes, first many at once. The first stays: it leads
// the marker to dst.
func fewerRoutes(ctx context.Context, t *topology.Topology, o *outcome, rfc bool) (*topology.Topology, error) {
	for n := len(t.Nodes[router].Routes) / 2; n > 0; n /= 2 {
		for i := len(t.Nodes[router].Routes) - n; i > 0; i -= n {
			if i+n > len(t.Nodes[router].Routes) {
				continue
			}
			fewer, tried := without(t, i, i+n), *o
			differs, err := again(ctx, fewer, &tried, rfc)
			if err != nil {
				return nil, err
			}
			if differs {
				t, *o = fewer, tried
			}
		}
	}
	return t, nil
}

const etherLen = 14

// smallerFrame leaves out bytes of the packet, first many at once, with and
// without the length of the outer header put right, and then clears bytes.
func smallerFrame(ctx context.Context, t *topology.Topology, o *outcome, rfc bool) (err error) {
	p, err := open(ctx, t, rfc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.kernel.down()) }()
	try := func(frame []byte) (bool, error) {
		tried := outcome{port: o.port, frame: frame}
		if err := p.compare(&tried); err != nil {
			return false, err
		}
		if tried.equal() {
			return false, nil
		}
		*o = tried
		return true, ctx.Err()
	}
	for _, n := range []int{80, 56, 40, 24, 16, 8, 4, 1} {
		for at := len(o.frame) - n; at >= etherLen; at -= min(n, 8) {
			if at+n > len(o.frame) {
				continue
			}
			for _, frame := range cut(o.frame, at, n) {
				done, err := try(frame)
				if err != nil {
					return err
				}
				if done {
					break
				}
			}
		}
	}
	for at := etherLen; at < len(o.frame); at++ {
		if o.frame[at] == 0 {
			continue
		}
		frame := slices.Clone(o.frame)
		frame[at] = 0
		if _, err := try(frame); err != nil {
			return err
		}
	}
	return nil
}

// cut is the frame without n bytes at an offset: with the length of an outer
// IPv6 header put right, and as it is.
func cut(frame []byte, at, n int) (frames [][]byte) {
	shorter := slices.Delete(slices.Clone(frame), at, at+n)
	frames = append(frames, shorter)
	if len(shorter) >= etherLen+6 && binary.BigEndian.Uint16(shorter[12:]) == 0x86dd {
		length := binary.BigEndian.Uint16(shorter[18:])
		if int(length) >= n {
			right := slices.Clone(shorter)
			binary.BigEndian.PutUint16(right[18:], length-uint16(n))
			frames = slices.Insert(frames, 0, right)
		}
	}
	return frames
}
