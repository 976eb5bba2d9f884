package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/feature"
	"seg6lab/lab/probe"
	"seg6lab/traffic"
)

// Options of a sweep.
type Options struct {
	Grid Grid
	// Profile is the kernel that the model is to be; nil stands for that which
	// the kernel turns out to be at a few points.
	Profile *skb.Profile
	// Skip is how many points of the plan are done already.
	Skip int
	// Guest says that the kernel may come to harm: without it no frame is sent
	// whose MAC header a kernel could move to outside of the buffer.
	Guest bool
}

// Info is what a sweep is made with.
type Info struct {
	Place    string // "host", or "vm" with the kernel
	Kernel   string // uname -r
	Backend  string // of the probe
	Profile  skb.Profile
	Tried    bool           // Profile was found out, not told
	Withheld map[int]string // why points with this mac_len cannot be measured
}

// ErrUnsupported is wrapped by every error that means that the kernel lacks what
// it takes to measure anything.
var ErrUnsupported = errors.New("a sweep is not possible on this kernel")

// Run measures on this machine's kernel. It tells info once, before the first
// results, and results batch by batch. Points that cannot be measured come first.
func Run(ctx context.Context, o Options, told func(Info) error, results func([]Result) error) (err error) {
	info := Info{Place: "host", Withheld: map[int]string{}}
	if info.Kernel, err = release(); err != nil {
		return err
	}
	// The dst cache of a route is per CPU.
	undo, err := traffic.OneCPU()
	if err != nil {
		return err
	}
	defer undo()
	b, err := o.open(ctx, &info)
	if missing := (*feature.Missing)(nil); errors.As(err, &missing) || errors.Is(err, probe.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.warm(ctx); err != nil {
		return err
	}
	info.Backend = string(b.probe.Backend())
	if o.Profile != nil {
		info.Profile = *o.Profile
	} else {
		info.Tried = true
		if info.Profile, err = b.try(ctx); err != nil {
			return err
		}
	}
	if err := told(info); err != nil {
		return err
	}
	withheld, batches, err := o.schedule(info)
	if err != nil {
		return err
	}
	skip := o.Skip
	if len(withheld) > 0 && skip == 0 {
		if err := results(withheld); err != nil {
			return err
		}
	}
	for _, batch := range batches {
		if skip >= len(batch) {
			skip -= len(batch)
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		out, err := b.compare(ctx, batch, info.Profile)
		if err != nil {
			return err
		}
		if err := results(out); err != nil {
			return err
		}
	}
	return nil
}

// schedule divides the grid into what cannot be measured and the plan.
func (o Options) schedule(info Info) (withheld []Result, batches [][]Point, err error) {
	var points []Point
	for _, p := range o.Grid.Points() {
		why, held := info.Withheld[p.MacLen]
		if !held {
			points = append(points, p)
			continue
		}
		want, err := predict(p, info.Profile)
		if err != nil {
			return nil, nil, err
		}
		withheld = append(withheld, Result{Point: p, Verdict: Unsupported, Want: want, Why: why})
	}
	batches, err = plan(points, info.Profile)
	return withheld, batches, err
}

// open builds the bench, with VLAN devices where the grid wants and the kernel
// has them.
func (o Options) open(ctx context.Context, info *Info) (*bench, error) {
	tagged := slices.ContainsFunc(o.Grid.MacLens, func(n int) bool { return n > 14 })
	why := "only in a guest: a kernel may write a MAC header of more than 16 bytes to outside of the buffer"
	if tagged && o.Guest {
		b, err := newBench(ctx, true)
		missing := (*feature.Missing)(nil)
		if !errors.As(err, &missing) || missing.Name != "vlan" {
			return b, err
		}
		why = missing.Error()
	}
	for _, n := range o.Grid.MacLens {
		if n > 14 {
			info.Withheld[n] = why
		}
	}
	return newBench(ctx, false)
}

// try finds out what the kernel is.
func (b *bench) try(ctx context.Context) (skb.Profile, error) {
	found := map[Point]State{}
	for _, p := range trials {
		if p.MacLen > 14 && !b.tagged {
			continue
		}
		s, err := b.measure(ctx, []Point{p})
		if err != nil {
			return nil, err
		}
		if !s[0].withState {
			return nil, fmt.Errorf("find out what the kernel does: %s: %s", p, s[0].why)
		}
		found[p] = s[0].state
	}
	return recognise(found)
}

// compare measures a batch and sets the model beside it.
func (b *bench) compare(ctx context.Context, batch []Point, profile skb.Profile) ([]Result, error) {
	all, err := b.measure(ctx, batch)
	if err != nil {
		return nil, err
	}
	out := make([]Result, len(batch))
	for i, p := range batch {
		r := Result{Point: p, Verdict: Agrees}
		if r.Want, err = predict(p, profile); err != nil {
			return nil, err
		}
		if s := all[i]; s.withState {
			r.Got = &s.state
			if r.Why = differences(r.Want, s.state); r.Why != "" {
				r.Verdict = Differs
			}
		} else {
			r.Verdict, r.Why = s.verdict, s.why
		}
		out[i] = r
	}
	return out, nil
}

func release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}
