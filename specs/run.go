package specs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"seg6lab/lab"
	"seg6lab/lab/feature"
	"seg6lab/lab/headroom"
	"seg6lab/lab/port"
	"seg6lab/lab/probe"
	"seg6lab/lab/topology"
	"seg6lab/specs/dataplane"
	"seg6lab/traffic"
)

// How long a step waits where the case does not say.
const (
	defaultWithin  = 2 * time.Second        // for what is expected
	defaultNothing = 200 * time.Millisecond // for nothing to arrive
	settle         = 5 * time.Millisecond   // for more than was expected
)

// Options of Run.
type Options struct {
	// Frames is a directory for captured frames, that for temporary files when
	// empty.
	Frames string
	// KeepAll keeps the frames of every case, not only of those that fail.
	KeepAll bool
	// Place is what Result.Place says, "host" when empty.
	Place string
	// Claims say what the kernel has of fixes, by name; a wrong claim fails the
	// cases that speak of the fix.
	Claims map[string]FixState
	// Patience multiplies how long a step waits where the case does not say; 0
	// is 1.
	Patience int

	// CPU is the model of guests that count instructions, in place of what cases
	// say; QEMU's name for it.
	CPU string
	// Dataplane is one of the dataplanes that a run can ask for.
	Dataplane string
	// Force, LinkTimeout, Queues and PlaceInterrupts are those of lab.Options, for
	// cases on real ports.
	Force           bool
	LinkTimeout     time.Duration
	Queues          int
	PlaceInterrupts bool

	// Observe has every node's sk_buffs observed, not only those that a case
	// speaks of, and keeps the frames that arrive in the result.
	Observe bool

	// Counting says that the clock of this machine counts instructions.
	Counting bool

	discard bool                 // keep no frames
	after   func(*lab.Lab) error // what to do when all steps held and nothing observes any more
}

// framesDir makes the directory for captured frames.
func (o Options) framesDir() (string, error) {
	if o.Frames == "" {
		return temporaryFrames()
	}
	return o.Frames, os.MkdirAll(o.Frames, 0o755)
}

// temporaryFrames is one new directory for the life of the process, which
// nobody else writes to.
var temporaryFrames = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "seg6lab-frames-") })

// Run runs a case on this machine's kernel: it builds the lab, does the steps
// and takes the lab down, whatever happens. This is the one runner of cases:
// of the command, of the specs and of a guest.
func Run(ctx context.Context, c *Case, opts Options) *Result {
	start := time.Now()
	r := &Result{Case: c.Name, File: c.path, Place: opts.Place, Kernel: release()}
	if r.Place == "" {
		r.Place = "host"
	}
	do := run
	if c.File.Cost != nil {
		do = runCost
	}
	err := do(ctx, c, opts, r)
	r.Seconds = seconds(start)
	var (
		notMet   *notMetError
		missing  *feature.Missing
		unsuited *unsuitedError
		noPort   *port.NotFoundError
		refused  *port.RefusedError
		inUse    *port.InUseError
	)
	switch {
	case err == nil:
		r.Verdict = Held
		return r
	case errors.As(err, &notMet):
		r.Verdict = Failed
	case errors.As(err, &missing), errors.As(err, &unsuited), errors.Is(err, lab.ErrNotRoot),
		errors.As(err, &noPort), errors.As(err, &refused), errors.As(err, &inUse), errors.Is(err, probe.ErrUnsupported):
		r.Verdict = Unsupported
	default:
		r.Verdict = Broken
	}
	r.Failure = err.Error()
	return r
}

// notMetError is an expectation that was not met.
type notMetError struct{ msg string }

func (e *notMetError) Error() string { return e.msg }

func notMet(format string, args ...any) error { return &notMetError{fmt.Sprintf(format, args...)} }

func run(ctx context.Context, c *Case, opts Options, r *Result) (err error) {
	c = c.on(opts.Dataplane)
	if err := c.suits(); err != nil {
		return err
	}
	if err := lab.Supported(c.Requirements()); err != nil {
		return err
	}
	l, err := lab.Up(ctx, c.Topology, lab.Options{
		Name: labName(c.Topology.Name), Owned: true, Force: opts.Force, LinkTimeout: opts.LinkTimeout,
		Queues: opts.Queues, PlaceInterrupts: opts.PlaceInterrupts,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down()) }()

	forwarders, err := dataplane.Start(l, c.Topology)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forwarders.Stop()) }()
	ends, err := openEnds(l, c)
	if err != nil {
		return err
	}
	defer ends.close()
	dir, remove, err := c.layOut()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	ends.dir = dir
	watch, err := openWatch(ctx, l, c, opts)
	if err != nil {
		return err
	}
	r.Unobserved, r.Fix = watch.blind, watch.fix
	defer watch.close()

	for i, s := range c.steps {
		s.expect = watch.expectations(s.expect)
		result, err := ends.do(ctx, l, s, opts)
		if failed := (*notMetError)(nil); err == nil || errors.As(err, &failed) {
			var seen error
			if result.Measured, seen = watch.check(ctx, s); err == nil {
				err = seen
			}
		}
		if err == nil {
			err = checkCounters(ctx, l, forwarders, s)
		}
		r.Steps = append(r.Steps, result)
		if err != nil {
			err = stepError(i, s, err)
			return errors.Join(err, keepFrames(ends, c, opts, r, err))
		}
	}
	if c.File.Complaint != "" && opts.Claims[c.File.Fix] == Unfixed {
		return notMet("the kernel is said to be unfixed of %s, but has not complained", c.File.Fix)
	}
	// A capture that lost frames proves nothing.
	if err := ends.capture.Close(); err != nil {
		return err
	}
	if opts.after != nil {
		watch.close()
		if err := opts.after(l); err != nil {
			return err
		}
	}
	return keepFrames(ends, c, opts, r, nil)
}

func stepError(i int, s step, err error) error {
	what := fmt.Sprintf("step %d", i+1)
	if s.About != "" {
		what += " (" + s.About + ")"
	}
	return fmt.Errorf("%s: %w", what, err)
}

// release is the running kernel's.
func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// runs counts the labs of this process, so that each has its own name.
var runs atomic.Uint64

// labName is a name that no other run has.
func labName(topology string) string {
	suffix := fmt.Sprintf("-%d-%d", os.Getpid(), runs.Add(1))
	topology = strings.TrimRight(topology[:min(len(topology), 32-len(suffix))], "-")
	return topology + suffix
}

// ends are the sockets of a running case: one for each end that frames are sent
// from, and the capture of those where something is expected.
type ends struct {
	senders map[topology.End]*traffic.Socket
	capture *traffic.Capture
	names   map[string]topology.End
	seen    int    // captured frames that have been looked at
	dir     string // with the case's files, for its commands
}

func openEnds(l *lab.Lab, c *Case) (_ *ends, err error) {
	e := &ends{
		senders: make(map[topology.End]*traffic.Socket),
		capture: traffic.NewCapture(),
		names:   make(map[string]topology.End),
	}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	inside := func(at topology.End, f func() error) error {
		node, err := l.Node(at.Node)
		if err != nil {
			return err
		}
		if err := node.Do(f); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return nil
	}
	for _, s := range c.steps {
		if s.Send != nil && s.Send.TAP == nil && e.senders[s.Send.From] == nil {
			from := s.Send.From
			err := inside(from, func() error {
				socket, err := traffic.Open(from.Dev)
				if err == nil {
					e.senders[from] = socket
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		for _, x := range s.expect {
			if _, ok := e.names[x.End.String()]; ok {
				continue
			}
			e.names[x.End.String()] = x.End
			// Outgoing frames are of no interest, and looking at one clones it,
			// which changes what happens to it on the way.
			err := inside(x.End, func() error { return e.capture.Add(x.End.String(), x.End.Dev, traffic.Incoming) })
			if err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

// close lets go of the sockets; the capture may be closed already.
func (e *ends) close() {
	for _, s := range e.senders {
		s.Close()
	}
	e.capture.Close()
}

// do does a step and waits for what it expects.
func (e *ends) do(ctx context.Context, l *lab.Lab, s step, opts Options) (StepResult, error) {
	result := StepResult{About: s.About, Shape: s.Send.describe()}
	var err error
	if s.shape != nil {
		undo, err := shape(l, s)
		if err != nil {
			return result, err
		}
		defer undo()
	}
	switch {
	case s.Send != nil && s.Send.TAP != nil:
		tap, err := openTAP(l, s.Send)
		if err != nil {
			return result, err
		}
		defer tap.Close()
		if result.Did, err = sendTAP(tap, s); err != nil {
			return result, err
		}
	case s.Send != nil:
		result.Did, err = e.send(s)
	default:
		result.Did, err = command(ctx, l, e.dir, s.Run)
	}
	if err != nil {
		return result, err
	}
	m := newMatcher(s)
	if opts.Observe {
		m.keep = result.keep
	}
	if err := e.wait(ctx, m, max(opts.Patience, 1)); err != nil {
		return result, err
	}
	for i, x := range s.expect {
		if m.met[i] > 0 {
			result.Arrived = append(result.Arrived, fmt.Sprintf("%s %s", x.End, m.arrived[i]))
		}
	}
	if msg := m.failure(); msg != "" {
		return result, notMet("%s\n%s", result.Did, msg)
	}
	return result, nil
}

// shape makes the frames of a step arrive as it asks for, until undo.
func shape(l *lab.Lab, s step) (undo func(), err error) {
	var ends [2]headroom.End
	for i, at := range []topology.End{s.Send.From, s.to} {
		node, err := l.Node(at.Node)
		if err != nil {
			return nil, err
		}
		ends[i] = headroom.End{NetNS: int(node.Handle()), Device: at.Dev}
	}
	applied, err := headroom.Apply(ends[0], ends[1], *s.shape)
	if err != nil {
		return nil, err
	}
	return func() { applied.Close() }, nil
}

func (e *ends) send(s step) (string, error) {
	did := fmt.Sprintf("%s sends %s", s.Send.From, s.Send.Packet)
	if s.Send.Count > 1 {
		did = fmt.Sprintf("%s sends %d times %s", s.Send.From, s.Send.Count, s.Send.Packet)
	}
	// All frames of a case meet the same of the kernel's caches.
	back, err := traffic.OneCPU()
	if err != nil {
		return did, err
	}
	defer back()
	socket := e.senders[s.Send.From]
	if s.Send.paged() {
		return did, socket.SendPages(s.frames)
	}
	for _, f := range s.frames {
		if err := socket.Send(f); err != nil {
			return did, fmt.Errorf("%s: %w", s.Send.From, err)
		}
	}
	return did, nil
}

func openTAP(l *lab.Lab, s *Send) (*os.File, error) {
	node, err := l.Node(s.From.Node)
	if err != nil {
		return nil, err
	}
	return node.TAP(s.From.Dev, s.TAP.GRO == nil || *s.TAP.GRO)
}

func sendTAP(tap *os.File, s step) (string, error) {
	did := fmt.Sprintf("%s, a TAP device, delivers %s", s.Send.From, s.Send.Packet)
	back, err := traffic.OneCPU()
	if err != nil {
		return did, err
	}
	defer back()
	for _, f := range s.frames {
		pieces := [][]byte{f}
		if n := s.Send.TAP.First; n > 0 && n < len(f) {
			pieces = [][]byte{f[:n], f[n:]}
		}
		if _, err := unix.Writev(int(tap.Fd()), pieces); err != nil {
			return did, fmt.Errorf("%s: write a frame of %d bytes: %w", s.Send.From, len(f), err)
		}
	}
	return did, nil
}

// command executes a Run and checks how it ends.
func command(ctx context.Context, l *lab.Lab, dir string, r *Command) (string, error) {
	did := fmt.Sprintf("%s runs %s", r.Node, r.Command)
	node, err := l.Node(r.Node)
	if err != nil {
		return did, err
	}
	out, err := node.Shell(ctx, inDir(dir, r.Command))
	if cause := context.Cause(ctx); cause != nil {
		return did, cause // it did not end on its own
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return did, err
	}
	switch text := strings.TrimSpace(out); {
	case r.Fails == "" && err != nil:
		return did, notMet("%s: %v", r.Node, err)
	case r.Fails != "" && err == nil:
		return did, notMet("%s: the command succeeds, expected it to fail with %q", did, r.Fails)
	case !strings.Contains(out, r.Fails):
		return did, notMet("%s: expected it to fail with %q, got:\n%s", did, r.Fails, indent(text))
	case !strings.Contains(out, r.Output):
		return did, notMet("%s: expected output with %q, got:\n%s", did, r.Output, indent(text))
	}
	return did, nil
}

// wait feeds captured frames to the matcher until it is complete and nothing
// more comes, or until the step's time is over.
func (e *ends) wait(ctx context.Context, m *matcher, patience int) error {
	if len(m.step.expect) == 0 {
		return nil
	}
	within := time.Duration(m.step.Within)
	if within == 0 {
		within = defaultWithin * time.Duration(patience)
	}
	look := func(frames []traffic.Frame) bool {
		for _, f := range frames {
			m.add(e.names[f.End], f.Data)
		}
		e.seen += len(frames)
		return m.complete()
	}
	if err := e.waitFor(ctx, within, look); err != nil || !m.complete() {
		return err
	}
	// What must not come can still come.
	quiet := settle
	if m.expectsNothing() {
		// What the kernel does with a frame it does at once: a slow machine
		// needs little more time.
		if quiet = defaultNothing; patience > 1 {
			quiet *= 2
		}
		if m.step.Within != 0 {
			quiet = within
		}
	}
	return e.waitFor(ctx, quiet, func(frames []traffic.Frame) bool { look(frames); return false })
}

// waitFor hands captured frames to look until it is content or the time is
// over, which is no error.
func (e *ends) waitFor(ctx context.Context, limit time.Duration, look func([]traffic.Frame) bool) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := e.capture.Wait(limited, e.seen, look)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// keepFrames writes the captured frames of a case that failed, or of every one.
func keepFrames(e *ends, c *Case, opts Options, r *Result, failure error) error {
	var failed *notMetError
	if opts.discard || !opts.KeepAll && !errors.As(failure, &failed) || len(e.names) == 0 {
		return nil
	}
	dir, err := opts.framesDir()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, strings.ReplaceAll(c.Name, "/", "_")+".pcapng")
	if err := writeFile(path, func(w io.Writer) error { return e.capture.WritePcapng(w) }); err != nil {
		return err
	}
	r.Pcapng = path
	return nil
}
