package sweep

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
)

// GuestCommand is the subcommand of this program that a guest executes.
const GuestCommand = "sweep-in-guest"

// errAgain is wrapped by what makes a new guest measure a point again.
var errAgain = errors.New("again in a new guest")

// maxGuests bounds how many guests a sweep takes.
const maxGuests = 50

// silence is how long a guest may say nothing before it counts as dead.
const silence = time.Minute

// line is what a guest says: first Info, then Results, or why there are none.
type line struct {
	Unsupported string   `json:",omitempty"`
	Info        *Info    `json:",omitempty"`
	Results     []Result `json:",omitempty"`
}

// GuestMain is the guest's side: it reads Options and writes what Run tells, a
// line of JSON each time.
func GuestMain(ctx context.Context, r io.Reader, w io.Writer) error {
	var o Options
	if err := json.NewDecoder(r).Decode(&o); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	out := json.NewEncoder(w)
	err := Run(ctx, o,
		func(i Info) error { return out.Encode(line{Info: &i}) },
		func(r []Result) error { return out.Encode(line{Results: r}) })
	if errors.Is(err, ErrUnsupported) {
		return out.Encode(line{Unsupported: err.Error()})
	}
	return err
}

// RunInGuest is Run on the kernel of a guest. The points during which the kernel
// dies, or complains, are results as well; those after them get a new guest. A
// kernel that has written to outside of a buffer is not to be trusted with
// anything but what the model says too: whatever else it does at a point is done
// again in a new guest.
// log, if set, is told about guests.
func RunInGuest(ctx context.Context, k *kernel.Kernel, o Options, told func(Info) error, results func([]Result) error, log func(string)) error {
	o.Guest = true
	g := &guests{kernel: k, options: o, told: told, results: results, log: log}
	for range maxGuests {
		g.damaged = false
		done, err := g.run(ctx)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%d guests were not enough: the rest was not measured", maxGuests)
}

// guests is a sweep that goes on from guest to guest.
type guests struct {
	kernel  *kernel.Kernel
	options Options
	told    func(Info) error
	results func([]Result) error
	log     func(string)

	info    *Info // nil until the first guest has said it
	batches [][]Point
	damaged bool  // this guest moved a MAC header to outside of a buffer
	failed  error // of told or results
}

// run measures in one guest, what is left. Where the guest died it gives the
// batch at fault its results.
func (g *guests) run(ctx context.Context) (done bool, err error) {
	m, err := vm.Boot(ctx, vm.Config{Kernel: g.kernel})
	if err != nil {
		return false, err
	}
	defer m.Close()
	g.say(m.String())
	self, err := m.PushSelf(ctx)
	if err != nil {
		return false, err
	}
	request, err := json.Marshal(g.options)
	if err != nil {
		return false, err
	}
	alive, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watchdog := time.AfterFunc(silence, func() { stop(fmt.Errorf("the guest said nothing for %s", silence)) })
	defer watchdog.Stop()

	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := g.read(r, func() { watchdog.Reset(silence) })
		if err != nil {
			stop(err)
		}
		r.CloseWithError(err) // or the guest would wait to be read
		read <- err
	}()
	var stderr bytes.Buffer
	exit, err := m.Run(alive, vm.Cmd{Args: []string{self, GuestCommand}, Stdin: bytes.NewReader(request), Stdout: w, Stderr: &stderr})
	w.Close()
	rerr := <-read
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	switch {
	case g.failed != nil:
		return false, g.failed
	case errors.Is(rerr, errAgain):
		g.say(rerr.Error())
		return false, nil
	case err == nil && exit == 0 && rerr == nil && len(g.batches) == 0:
		return true, nil
	case err == nil && exit != 0:
		err = fmt.Errorf("guest: exit code %d: %s", exit, bytes.TrimSpace(stderr.Bytes()))
		if g.info == nil || !g.harmful() {
			return false, err
		}
	case err == nil && rerr != nil:
		err = rerr
	case err == nil:
		return false, errors.New("the guest did not measure every point")
	}
	if g.info == nil {
		return false, err
	}
	return g.blame(err)
}

// read takes in what a guest says.
func (g *guests) read(r io.Reader, alive func()) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		alive()
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("result of the guest: %w", err)
		}
		if l.Unsupported != "" {
			g.failed = unsupported(l.Unsupported)
			return g.failed
		}
		if l.Info != nil && g.info == nil {
			if g.failed = g.begin(l.Info); g.failed != nil {
				return g.failed
			}
		}
		if len(l.Results) == 0 {
			continue
		}
		if err := g.take(l.Results); err != nil {
			return err
		}
	}
	return lines.Err()
}

// unsupported is an ErrUnsupported in the words of a guest.
type unsupported string

func (u unsupported) Error() string { return string(u) }
func (u unsupported) Unwrap() error { return ErrUnsupported }

// begin notes what the first guest has found out; later ones are told.
func (g *guests) begin(info *Info) (err error) {
	info.Place = "vm " + g.kernel.Spec
	g.info = info
	// One of the trials is harmful where there are VLAN devices.
	g.damaged = info.Tried && len(info.Withheld) == 0
	g.options.Profile = &info.Profile
	if _, g.batches, err = g.options.schedule(*info); err != nil {
		return err
	}
	return g.told(*info)
}

// take passes results on and strikes them off the plan.
func (g *guests) take(results []Result) error {
	if results[0].Verdict != Unsupported {
		if len(g.batches) == 0 || g.batches[0][0] != results[0].Point || len(g.batches[0]) != len(results) {
			return fmt.Errorf("the guest measured %s, which was not next", results[0].Point)
		}
		for _, r := range results {
			if r.Verdict != Agrees && g.damaged {
				return fmt.Errorf("%w: %s: %s", errAgain, r.Point, r.Why)
			}
		}
		g.damaged = g.damaged || g.harmful()
		g.batches = g.batches[1:]
		g.options.Skip += len(results)
	}
	g.failed = g.results(results)
	return g.failed
}

// harmful tells whether the next batch is one that a kernel may not survive.
func (g *guests) harmful() bool {
	if len(g.batches) == 0 {
		return false
	}
	want, err := predict(g.batches[0][0], g.info.Profile)
	return err == nil && want.Outside()
}

// blame gives the batch that was being measured the guest's end as its result.
func (g *guests) blame(cause error) (done bool, err error) {
	if len(g.batches) == 0 {
		return true, g.afterwards(cause)
	}
	if g.damaged {
		g.say(fmt.Sprintf("%v: %s: %s", errAgain, g.batches[0][0], reason(cause)))
		return false, nil
	}
	why := reason(cause)
	if n := len(g.batches[0]); n > 1 {
		why = fmt.Sprintf("at this or another of %d points sent together: %s", n, why)
	}
	var out []Result
	for _, p := range g.batches[0] {
		want, err := predict(p, g.info.Profile)
		if err != nil {
			return false, err
		}
		out = append(out, Result{Point: p, Verdict: Died, Want: want, Why: why})
	}
	return len(g.batches) == 1, g.take(out)
}

// afterwards judges the end of a guest that had measured every point. After a
// point that moved a MAC header to outside of the buffer anything can happen, and
// that the kernel does so is in the results.
func (g *guests) afterwards(cause error) error {
	if !g.damaged {
		return fmt.Errorf("after the last point: %w", cause)
	}
	g.say("the guest did not survive what it wrote to outside of the buffers: " + reason(cause))
	return nil
}

func (g *guests) say(s string) {
	if g.log != nil {
		g.log(s)
	}
}

// reason is the line of the guest's console that says why it ended.
func reason(cause error) string {
	if report := (*vm.Report)(nil); errors.As(cause, &report) {
		return fmt.Sprintf("%s: %s", report.Kind, report.Line)
	}
	return cause.Error()
}
