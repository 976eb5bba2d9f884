// Package fuzz compares the kernel with the forwarder: the same drawn
// configuration, the same drawn frames, and every byte that either sends. What
// differs is made small and becomes a case.
//
// The kernel's part is a lab of namespaces like any other; the forwarder takes
// its frames from memory. What the kernel does to sk_buffs is not looked at:
// package sweep does.
package fuzz

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"seg6lab/forwarder"
	"seg6lab/lab"
	"seg6lab/lab/feature"
	"seg6lab/lab/topology"
	"seg6lab/specs/dataplane"
	"seg6lab/traffic"
)

// RoundFrames is how many frames meet one configuration.
const RoundFrames = 2000

// maxDifferences ends a run: after so many, more say little.
const maxDifferences = 5

// Options of a run.
type Options struct {
	// Count is the number of frames.
	Count int
	// Seed of the first round; the next has the next number. A round is the
	// same whatever came before it.
	Seed uint64
	// RFC lets the forwarder follow the RFCs where Linux departs from them.
	RFC bool
}

// Report sums up what was compared.
type Report struct {
	Frames, Rounds int
	// Sent is how many frames the kernel sent, Answers how many of them went
	// back to src, mostly ICMP errors.
	Sent, Answers int
	// Drops of the forwarder by reason.
	Drops map[string]uint64
	// Lacks are features without which configurations were drawn.
	Lacks []string `json:",omitempty"`
}

// A Difference is a frame of which kernel and forwarder make something else.
type Difference struct {
	// Seed and Frames replay it: so many frames from that seed on.
	Seed   uint64
	Frames int
	// At is the end that sent Packet, in hexadecimal, which is as small as it
	// got.
	At     string
	Packet string
	// Kernel and Forwarder are what they sent.
	Kernel, Forwarder []string
	// Routes of the router that it takes.
	Routes int
	// Case and Topology are files that show it; empty where the frame alone
	// does not, but only with those before it.
	Case, Topology string `json:",omitempty"`
}

func (d *Difference) String() string {
	list := func(s []string) string {
		if len(s) == 0 {
			return "  nothing"
		}
		return "  " + strings.ReplaceAll(strings.Join(s, "\n"), "\n", "\n  ")
	}
	return fmt.Sprintf("difference: --seed %d --count %d\n%s sends %s\nthe kernel:\n%s\nthe forwarder:\n%s",
		d.Seed, d.Frames, d.At, d.Packet, list(d.Kernel), list(d.Forwarder))
}

// Run compares until the frames are through or too much has differed. found is
// told of each difference, progress after each round.
func Run(ctx context.Context, o Options, found func(*Difference) error, progress func(Report)) (*Report, error) {
	r := &Report{Drops: make(map[string]uint64)}
	n, err := probe(r)
	if err != nil {
		return nil, err
	}
	// The kernel takes its frames in the order in which they are sent.
	back, err := traffic.OneCPU()
	if err != nil {
		return nil, err
	}
	defer back()
	differences := 0
	for r.Frames < o.Count && differences < maxDifferences {
		d, err := round(ctx, o, n, r)
		if err != nil {
			return nil, fmt.Errorf("--seed %d: %w", o.Seed+uint64(r.Rounds), err)
		}
		r.Rounds++
		if d != nil {
			differences++
			if err := found(d); err != nil {
				return nil, err
			}
		}
		progress(*r)
	}
	return r, nil
}

// probe finds out what configurations the kernel takes.
func probe(r *Report) (n needs, err error) {
	if err := lab.Supported([]string{"veth", "seg6.encap.red", "seg6.l2encap.red", "seg6.hmac", "seg6.counters"}); err != nil {
		return n, err
	}
	for _, f := range []struct {
		has   *bool
		names []string
	}{
		{&n.vrf, []string{"vrf", "seg6.dt46"}}, {&n.vlan, []string{"vlan"}},
		{&n.csid, []string{"seg6.next-csid", "seg6.next-csid.x"}}, {&n.psp, []string{"seg6.psp"}},
	} {
		var missing *feature.Missing
		err := lab.Supported(f.names)
		switch {
		case err == nil:
			*f.has = true
		case errors.As(err, &missing):
			r.Lacks = append(r.Lacks, f.names[0])
		default:
			return n, err
		}
	}
	return n, nil
}

// round compares one configuration, until the first difference.
func round(ctx context.Context, o Options, n needs, r *Report) (_ *Difference, err error) {
	seed := o.Seed + uint64(r.Rounds)
	d := newDraw(seed)
	t := d.topology(n)
	p, err := open(ctx, t, o.RFC)
	if err != nil {
		return nil, err
	}
	defer func() {
		for reason, count := range p.forwarder.Drops() {
			r.Drops[reason] += count
		}
		err = errors.Join(err, p.kernel.down())
	}()
	frames := min(RoundFrames, o.Count-r.Frames)
	for i := range frames {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		port, frame := d.frame()
		o := outcome{port: port, frame: frame}
		if err := p.compare(&o); err != nil {
			return nil, fmt.Errorf("frame %d, %x: %w", i+1, frame, err)
		}
		r.Frames++
		r.Sent += len(o.kernel)
		for _, s := range o.kernel {
			if s.Port == 0 {
				r.Answers++
			}
		}
		if !o.equal() {
			return minimise(ctx, t, o, p.rfc, seed, i+1)
		}
	}
	if kernel, _, err := p.counters(t); err != nil || kernel == "" {
		return nil, err
	}
	return miscounted(ctx, t, n, o.RFC, seed, frames)
}

// miscounted repeats a round and looks at the counters after every frame.
func miscounted(ctx context.Context, t *topology.Topology, n needs, rfc bool, seed uint64, frames int) (_ *Difference, err error) {
	p, err := open(ctx, t, rfc)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.kernel.down()) }()
	d := newDraw(seed)
	d.topology(n) // draws what the round has drawn
	for i := range frames {
		var o outcome
		o.port, o.frame = d.frame()
		if err := p.compare(&o); err != nil {
			return nil, err
		}
		kernel, forwarder, err := p.counters(t)
		if err != nil {
			return nil, err
		}
		if kernel != "" {
			diff := difference(t, o, seed, i+1)
			diff.Kernel, diff.Forwarder = append(diff.Kernel, kernel), append(diff.Forwarder, forwarder)
			return diff, nil
		}
	}
	return nil, errors.New("the counters differed, but not again")
}

// pair is the kernel and the forwarder with one configuration.
type pair struct {
	kernel    *kernelRouter
	forwarder *forwarder.Forwarder
	rfc       bool
}

func open(ctx context.Context, t *topology.Topology, rfc bool) (*pair, error) {
	c, err := dataplane.Config(t, router)
	if err != nil {
		return nil, err
	}
	if rfc {
		c.Quirks = &forwarder.Quirks{}
	}
	f, err := forwarder.New(c)
	if err != nil {
		return nil, err
	}
	k, err := upKernel(ctx, t)
	if err != nil {
		return nil, err
	}
	return &pair{k, f, rfc}, nil
}

// outcome is what became of a frame.
type outcome struct {
	port              int
	frame             []byte
	kernel, forwarder []traffic.Arrival
}

func (o *outcome) equal() bool { return slices.EqualFunc(o.kernel, o.forwarder, traffic.Arrival.Equal) }

// compare sends the frame of the outcome through both.
func (p *pair) compare(o *outcome) (err error) {
	if o.kernel, err = p.kernel.exchange.Through(o.port, o.frame); err != nil {
		return err
	}
	o.kernel = normal(o.kernel)
	o.forwarder = normal(input(p.forwarder, o.port, o.frame))
	return nil
}

// input is what a forwarder sends for a frame.
func input(f *forwarder.Forwarder, port int, frame []byte) (out []traffic.Arrival) {
	f.Input(port, frame, func(port int, frame []byte) {
		out = append(out, traffic.Arrival{Port: port, Frame: slices.Clone(frame)})
	})
	return out
}

// counters compares what both counted for the SIDs. The words are those of the
// first difference, empty without one.
func (p *pair) counters(t *topology.Topology) (kernel, forwarder string, err error) {
	all, err := p.kernel.counters()
	if err != nil || p.rfc {
		return "", "", err
	}
	for _, r := range t.Nodes[router].Routes {
		if r.Encap == nil || r.Encap.Seg6Local == nil {
			continue
		}
		want, ok := all[r.To.Prefix]
		if got, _ := p.forwarder.Counters(r.To.String()); !ok || got != want {
			return fmt.Sprintf("%s counts %+v", r.To, want), fmt.Sprintf("%s counts %+v", r.To, got), nil
		}
	}
	return "", "", nil
}

// difference puts an outcome into words.
func difference(t *topology.Topology, o outcome, seed uint64, frames int) *Difference {
	words := func(list []traffic.Arrival) (s []string) {
		for _, x := range list {
			s = append(s, fmt.Sprintf("%s gets %s\n  %x", ends[x.Port], traffic.Dissect(x.Frame), x.Frame))
		}
		return s
	}
	return &Difference{
		Seed: seed, Frames: frames, At: ends[o.port].String(), Packet: hex.EncodeToString(o.frame),
		Kernel: words(o.kernel), Forwarder: words(o.forwarder), Routes: len(t.Nodes[router].Routes),
	}
}

// MaxSeed leaves room for the rounds of any run.
const MaxSeed = math.MaxUint64 >> 1
