package specs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/lab"
	"seg6lab/lab/probe"
	"seg6lab/lab/profile"
	"seg6lab/lab/topology"
	"seg6lab/lab/vm"
	"seg6lab/traffic"
)

// receiving are the functions below which the kernel works on frames that came in,
// the second on those that a TAP device is given: what the sender costs is not among
// a profile's samples.
var receiving = []string{"net_rx_action", "napi_gro_frags"}

const (
	// warmUp is how many packets go before those that are counted: they fill caches.
	warmUp = 200
	// seriesOfRuns is how often all runs of a variant are tried until they agree.
	seriesOfRuns = 4
	// samplePeriod is the mean of the instructions between samples. The kernel samples
	// at most every 10 000 ns.
	samplePeriod = 30_000
	// sampledRuns is how many runs, each of sampledPackets, are sampled: for some
	// 3000 samples, with which a share of 10 % is right within 1 %.
	sampledRuns, sampledPackets = 500, 16
)

// variants are the case in each variant of its network, by name; just the case
// where it has no costs, or no variants of them.
func (c *Case) variants() []*Case {
	if c.File.Cost == nil || len(c.File.Cost.Variants) == 0 {
		return []*Case{c}
	}
	var all []*Case
	for _, name := range slices.Sorted(maps.Keys(c.varied)) {
		all = append(all, c.varied[name])
	}
	return all
}

// runCost does the case's steps in each variant, and counts what the packets of one
// of them cost.
func runCost(ctx context.Context, c *Case, opts Options, r *Result) error {
	cost := c.File.Cost
	r.Cost = &CostResult{CPU: cost.model(opts.CPU), Packets: cost.Packets, Function: cost.Function}
	if r.Cost.Packets == 0 {
		r.Cost.Packets = defaultCostPackets
	}
	opts.Observe = true
	for _, one := range c.variants() {
		v := VariantCost{Name: one.variant}
		sub := &Result{}
		opts.after = func(l *lab.Lab) error { return v.count(ctx, l, one, r.Cost.Packets) }
		err := run(ctx, one, opts, sub)
		for i := range sub.Steps {
			sub.Steps[i].Variant = one.variant
		}
		r.Fix, r.Unobserved, r.Steps = sub.Fix, sub.Unobserved, append(r.Steps, sub.Steps...)
		if sub.Pcapng != "" {
			r.Pcapng = sub.Pcapng
		}
		if err != nil {
			if one.variant != "" {
				err = fmt.Errorf("variant %s: %w", one.variant, err)
			}
			return err
		}
		v.Measured = sub.Steps[one.counted()].Measured
		r.Cost.Variants = append(r.Cost.Variants, v)
	}
	return cost.check(r.Cost, r.Fix)
}

// model of the CPU: what the run asks for, else what the case does.
func (c *Cost) model(asked string) string { return cmp.Or(asked, c.CPU, vm.DefaultCPU) }

// counted is the index of the step whose packets are counted.
func (c *Case) counted() int {
	if c.File.Cost.Step > 0 {
		return c.File.Cost.Step - 1
	}
	return slices.IndexFunc(c.steps, func(s step) bool { return s.Send != nil })
}

// count counts the instructions of the packets of a step in a lab where nothing observes them.
func (v *VariantCost) count(ctx context.Context, l *lab.Lab, c *Case, packets int) error {
	s := c.steps[c.counted()]
	if s.shape != nil {
		undo, err := shape(l, s)
		if err != nil {
			return err
		}
		defer undo()
	}
	sender, done, err := newSender(l, s)
	if err != nil {
		return err
	}
	defer done()
	send := sender(packets)
	back, err := traffic.OneCPU()
	if err != nil {
		return err
	}
	defer back()
	once := func() (float64, error) { return counted(ctx, l, s, packets, send) }
	if _, err := counted(ctx, l, s, warmUp, sender(warmUp)); err != nil {
		return err
	}
	if function := c.File.Cost.Function; function != "" {
		calls, err := probe.TimeCalls(function)
		if err != nil {
			return err
		}
		defer calls.Close()
		once = func() (float64, error) {
			if _, err := counted(ctx, l, s, packets, send); err != nil {
				return 0, err
			}
			return medianCall(calls, function)
		}
	}
	collect := debug.SetGCPercent(-1)
	err = v.series(once, c.File.Cost.Runs)
	debug.SetGCPercent(collect)
	if err != nil {
		return err
	}
	if len(c.File.Cost.Profile) == 0 {
		return nil
	}
	all, err := profile.Collect(samplePeriod, sampledRuns, sender(sampledPackets))
	if err != nil {
		return err
	}
	return v.share(all, c.File.Cost.Profile)
}

// share tells what functions have of the samples. Without any, a share of none
// would be no finding.
func (v *VariantCost) share(all profile.Stacks, functions []string) error {
	v.Stacks = all.Below(receiving...)
	total := v.Stacks.Total()
	if total == 0 {
		return fmt.Errorf("of %d samples none is below %s: what frames cost that came in was not seen", all.Total(), strings.Join(receiving, " or "))
	}
	v.Shares = make(map[string]float64)
	for _, f := range functions {
		v.Shares[f] = float64(v.Stacks.Inclusive(f)) / float64(total)
	}
	return nil
}

// series repeats the runs until they agree.
func (v *VariantCost) series(once func() (float64, error), runs int) error {
	if runs == 0 {
		runs = defaultCostRuns
	}
	for range seriesOfRuns {
		v.Runs = nil
		for range runs {
			n, err := once()
			if err != nil {
				return err
			}
			v.Runs = append(v.Runs, n)
		}
		if v.Spread() <= MaxSpread {
			return nil
		}
	}
	return fmt.Errorf("the instructions a packet of %d runs are %.1f %% apart, at most %.1f %% are allowed: send more packets a run: %.0f", runs, 100*v.Spread(), 100*MaxSpread, v.Runs)
}

// arrival is how long packets are waited for that a NIC brings; others have come when
// the last is sent.
const arrival = 10 * time.Second

// counted is the instructions a packet of one run. All packets must come to where
// the step expects them.
func counted(ctx context.Context, l *lab.Lab, s step, packets int, send func() error) (float64, error) {
	at := s.expect[slices.IndexFunc(s.expect, func(e expect) bool { return e.packet != nil })]
	before, err := received(l, at.End)
	if err != nil {
		return 0, err
	}
	var from, to unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &from); err != nil {
		return 0, err
	}
	err = send()
	if terr := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &to); err == nil {
		err = terr
	}
	if err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(arrival); ; {
		after, err := received(l, at.End)
		if err != nil {
			return 0, err
		}
		got := int(after - before)
		if got >= packets {
			return float64(to.Nano()-from.Nano()) / float64(packets), nil
		}
		if time.Now().After(deadline) {
			return 0, notMet("of %d packets %d came to %s", packets, got, at.End)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// medianCall is of the calls since it was last asked.
func medianCall(calls *probe.Calls, function string) (float64, error) {
	ns, err := calls.Take()
	if err != nil {
		return 0, err
	}
	if len(ns) == 0 {
		return 0, notMet("all packets came, and %s was never called", function)
	}
	all := make([]float64, len(ns))
	for i, n := range ns {
		all[i] = float64(n)
	}
	return median(all), nil
}

// received is the number of frames that a device has taken in.
func received(l *lab.Lab, at topology.End) (uint64, error) {
	node, err := l.Node(at.Node)
	if err != nil {
		return 0, err
	}
	var n uint64
	err = node.Do(func() error {
		h := &netlink.Handle{}
		link, err := h.LinkByName(at.Dev)
		if err == nil {
			n = link.Attrs().Statistics.RxPackets
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", at, err)
	}
	return n, nil
}

// newSender prepares to send the step's first frame in as few system calls as can
// be, any number of times.
func newSender(l *lab.Lab, s step) (sender func(packets int) (send func() error), done func(), err error) {
	if s.Send.TAP != nil {
		tap, err := openTAP(l, s.Send)
		if err != nil {
			return nil, nil, err
		}
		iovecs := pieces(s)
		sender = func(packets int) func() error {
			return func() error { return writeFrames(tap, iovecs, packets) }
		}
		done = func() { tap.Close() }
	} else {
		node, err := l.Node(s.Send.From.Node)
		if err != nil {
			return nil, nil, err
		}
		var socket *traffic.Socket
		if err := node.Do(func() error {
			socket, err = traffic.Open(s.Send.From.Dev)
			return err
		}); err != nil {
			return nil, nil, err
		}
		sender = func(packets int) func() error { return socket.NewBatch(s.frames[:1], packets).Send }
		done = func() { socket.Close() }
	}
	return sender, done, nil
}

// pieces are the vectors in which a TAP device is given the step's first frame.
func pieces(s step) []unix.Iovec {
	frame := s.frames[0]
	parts := [][]byte{frame}
	if n := s.Send.TAP.First; n > 0 && n < len(frame) {
		parts = [][]byte{frame[:n], frame[n:]}
	}
	var iovecs []unix.Iovec
	for _, p := range parts {
		v := unix.Iovec{Base: unsafe.SliceData(p)}
		v.SetLen(len(p))
		iovecs = append(iovecs, v)
	}
	return iovecs
}

// writeFrames writes a frame a number of times. A TAP device takes one a system
// call; the Go scheduler does not learn of them.
func writeFrames(tap *os.File, iovecs []unix.Iovec, times int) error {
	fd := tap.Fd()
	for range times {
		for {
			_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&iovecs[0])), uintptr(len(iovecs)))
			if errno == 0 {
				break
			}
			if !errors.Is(errno, unix.EINTR) {
				return fmt.Errorf("write to the TAP device: %w", errno)
			}
		}
	}
	return nil
}
