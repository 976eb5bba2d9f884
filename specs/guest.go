package specs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
)

// guestDir is where a guest keeps the frames of its cases.
const guestDir = "/run/seg6lab-frames"

// guestPatience is how much longer than on the host a step waits in a guest,
// which may run by emulation.
const guestPatience = 5

// GuestCommand is the subcommand of this program that a guest executes.
const GuestCommand = "run-in-guest"

// guestRequest is what a guest is told, as JSON.
type guestRequest struct {
	Cases   []guestCase
	Options Options
}

// guestCase names a case: a guest has the same files under the same paths.
type guestCase struct {
	Name, File string
	Shipped    bool
}

// GuestMain is the guest's side: it reads a request, runs its cases and writes
// a result a line.
func GuestMain(ctx context.Context, r io.Reader, w io.Writer) error {
	inGuest.Store(true)
	var request guestRequest
	if err := json.NewDecoder(r).Decode(&request); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	counting.Store(request.Options.Counting)
	if err := os.MkdirAll(request.Options.Frames, 0o755); err != nil {
		return err
	}
	loaded := make(map[string][]*Case)
	out := json.NewEncoder(w)
	for _, g := range request.Cases {
		if loaded[g.File] == nil {
			read := LoadFile
			if g.Shipped {
				read = func(name string) ([]*Case, error) { return load(name, shippedFiles) }
			}
			cases, err := read(g.File)
			if err != nil {
				return err
			}
			loaded[g.File] = cases
		}
		i := slices.IndexFunc(loaded[g.File], func(c *Case) bool { return c.Name == g.Name })
		if i < 0 {
			return fmt.Errorf("%s: there is no case %s", g.File, g.Name)
		}
		c, err := loaded[g.File][i].onNICs()
		if err != nil {
			return err
		}
		if err := out.Encode(Run(ctx, c, request.Options)); err != nil {
			return err
		}
	}
	return nil
}

// runInGuests runs the cases with the given indexes in guests.
func runInGuests(ctx context.Context, cases []*Case, indexes []int, opts RunOptions, start func(int), done func(int, *Result)) error {
	spec := opts.Kernel
	if spec == "" {
		spec = DefaultKernel
	}
	k, err := kernel.Resolve(ctx, spec)
	if errors.Is(err, kernel.ErrSpec) || ctx.Err() != nil {
		return err
	}
	if err != nil {
		b := &guestBatch{cases: cases, indexes: indexes, place: "vm " + spec, done: done}
		b.blameAll(Unsupported, err)
		return nil
	}
	var batches, alone [][]int
	var shared []int
	for _, i := range indexes {
		if opts.Fresh || cases[i].lonely() {
			alone = append(alone, []int{i})
		} else {
			shared = append(shared, i)
		}
	}
	if n := min(max(opts.Guests, 1), len(shared)); n > 0 {
		batches = make([][]int, n)
		for j, i := range shared {
			batches[j%n] = append(batches[j%n], i)
		}
	}
	batches = append(batches, alone...)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(opts.Guests, 1))
	for _, batch := range batches {
		g.Go(func() error {
			b := &guestBatch{cases: cases, indexes: batch, opts: opts, kernel: k, start: start, done: done}
			return b.run(ctx)
		})
	}
	return g.Wait()
}

// guestBatch is the work of one guest.
type guestBatch struct {
	cases   []*Case
	indexes []int // those that have no result yet
	opts    RunOptions
	kernel  *kernel.Kernel
	place   string
	frames  string // where captured frames go; empty as long as there are none
	// attempts counts guests that ended before the first case had a result.
	attempts int
	begun    time.Time // when the guest was given the cases
	start    func(int)
	done     func(int, *Result)
}

// run boots a guest, gives it the cases and hands their results on. A case
// during which the guest dies or its kernel complains has failed; those after
// it get a new guest.
func (b *guestBatch) run(ctx context.Context) error {
	for len(b.indexes) > 0 {
		before := len(b.indexes)
		if err := b.boot(ctx); err != nil {
			return err
		}
		if len(b.indexes) < before {
			b.attempts = 0
		} else if b.attempts++; b.attempts >= harmfulAttempts {
			return errors.New("the guest ran no case") // or this would never end
		}
	}
	return nil
}

// harmfulAttempts is how many guests a case may wreck before it has a result. A
// kernel that writes past a buffer can hit the case itself.
const harmfulAttempts = 5

// commands tells whether a case executes commands, which are the host's.
func (b *guestBatch) commands() bool {
	return slices.ContainsFunc(b.indexes, func(i int) bool {
		for _, s := range b.cases[i].steps {
			if s.Run != nil {
				return true
			}
		}
		for _, n := range b.cases[i].Topology.Nodes {
			if len(n.Run) > 0 {
				return true
			}
		}
		return false
	})
}

func (b *guestBatch) boot(ctx context.Context) error {
	b.place = strings.TrimSpace("vm " + b.kernel.Spec + " " + b.opts.KernelArgs)
	first := b.cases[b.indexes[0]]
	cfg := vm.Config{Kernel: b.kernel, HostFiles: b.commands(), Append: b.opts.KernelArgs, NICs: first.vmNICs()}
	if cost := first.File.Cost; cost != nil {
		cfg.CountInstructions, cfg.CPU = true, cost.model(b.opts.CPU)
	}
	m, err := vm.Boot(ctx, cfg)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, vm.ErrNoQEMU) || errors.Is(err, vm.ErrNoNIC) || errors.Is(err, vm.ErrNoCPU) {
		b.blameAll(Unsupported, err)
		return nil
	}
	if err != nil {
		b.blameAll(Broken, err)
		return nil
	}
	defer m.Close()
	how := "booted"
	if m.Restored {
		how = "restored"
	}
	b.log(fmt.Sprintf("guest with %s %s in %s, executed by %s", b.kernel, how, m.ReadyAfter.Round(10*time.Millisecond), m.Accel))
	self, err := m.PushSelf(ctx)
	if err != nil {
		return err
	}
	request := guestRequest{Options: b.opts.Options}
	request.Options.Place = b.place
	request.Options.Frames = guestDir
	request.Options.Patience = guestPatience
	request.Options.Counting = cfg.CountInstructions
	pushed := make(map[string]bool)
	for _, i := range b.indexes {
		c := b.cases[i]
		path := c.path
		if !c.shipped {
			if path, err = filepath.Abs(path); err != nil {
				return err
			}
		}
		request.Cases = append(request.Cases, guestCase{c.Name, path, c.shipped})
		for _, name := range c.files {
			if name, err = filepath.Abs(name); err != nil {
				return err
			}
			if pushed[name] {
				continue
			}
			pushed[name] = true
			if err := m.Push(ctx, name, name); err != nil {
				return err
			}
		}
	}
	stdin, err := json.Marshal(request)
	if err != nil {
		return err
	}
	last := b.cases[b.indexes[len(b.indexes)-1]]
	b.begun = time.Now()
	b.start(b.indexes[0])
	results, lines := io.Pipe()
	collected := make(chan error, 1)
	go func() { collected <- b.collect(results) }()
	var stderr bytes.Buffer
	exit, err := m.Run(ctx, vm.Cmd{
		Args:   []string{self, GuestCommand},
		Stdin:  bytes.NewReader(stdin),
		Stdout: lines,
		Stderr: &stderr,
	})
	lines.Close()
	if cerr := <-collected; err == nil {
		err = cerr
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil && exit != 0 {
		return fmt.Errorf("guest: exit code %d: %s", exit, bytes.TrimSpace(stderr.Bytes()))
	}
	if err != nil {
		b.blame(err)
		return nil
	}
	if err := b.pull(ctx, m); err != nil {
		return err
	}
	// The kernel may have complained about the last case after its end.
	var report *vm.Report
	if err := m.Err(); errors.As(err, &report) && (!last.harmful() || last.File.Complaint != "") {
		return err
	}
	return nil
}

func (b *guestBatch) log(line string) {
	if b.opts.Log != nil {
		b.opts.Log(line)
	}
}

// collect reads results as they come.
func (b *guestBatch) collect(r *io.PipeReader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		result := new(Result)
		if err := json.Unmarshal(lines.Bytes(), result); err != nil {
			err = fmt.Errorf("result of the guest: %w", err)
			r.CloseWithError(err)
			return err
		}
		if result.Pcapng != "" {
			dir, err := b.opts.framesDir()
			if err != nil {
				r.CloseWithError(err)
				return err
			}
			result.Pcapng = filepath.Join(dir, filepath.Base(result.Pcapng))
			b.frames = dir
		}
		if len(b.indexes) == 0 {
			return errors.New("the guest gave more results than it had cases")
		}
		i := b.indexes[0]
		b.indexes = b.indexes[1:]
		result.File = b.cases[i].path
		b.done(i, result)
		if len(b.indexes) > 0 {
			b.start(b.indexes[0])
		}
	}
	return lines.Err()
}

// blame gives the case that was running the guest's end for a result.
func (b *guestBatch) blame(err error) {
	verdict := Broken
	if report := (*vm.Report)(nil); errors.As(err, &report) {
		verdict = Failed // the kernel's complaint is a finding
		if len(b.indexes) > 0 && b.cases[b.indexes[0]].expects(report) {
			b.complained(report)
			return
		}
		if len(b.indexes) > 0 && b.cases[b.indexes[0]].harmful() && b.attempts < harmfulAttempts-1 {
			b.log("the case wrecked its guest, as it may: once more")
			return
		}
	}
	b.blameOne(verdict, err)
}

// expects tells whether a complaint of the kernel is the one that the case is
// about.
func (c *Case) expects(report *vm.Report) bool {
	return c.File.Complaint != "" && regexp.MustCompile(c.File.Complaint).MatchString(report.Line)
}

// complained gives the case its result: the kernel has said what one without the
// fix must say.
func (b *guestBatch) complained(report *vm.Report) {
	i := b.indexes[0]
	b.indexes = b.indexes[1:]
	c := b.cases[i]
	r := &Result{Case: c.Name, File: c.path, Verdict: Held, Place: b.place, Fix: Unfixed, Seconds: seconds(b.begun)}
	r.Steps = []StepResult{{About: "the kernel complains, as one without the fix must", Did: report.Line}}
	if claim, ok := b.opts.Claims[c.File.Fix]; ok && claim != Unfixed {
		r.Verdict, r.Failure = Failed, fmt.Sprintf("the kernel is said to be %s of %s, but complains: %v", claim, c.File.Fix, report)
	}
	b.done(i, r)
}

func (b *guestBatch) blameAll(verdict Verdict, err error) {
	for len(b.indexes) > 0 {
		b.blameOne(verdict, err)
	}
}

func (b *guestBatch) blameOne(verdict Verdict, err error) {
	if len(b.indexes) == 0 {
		return
	}
	i := b.indexes[0]
	b.indexes = b.indexes[1:]
	b.done(i, &Result{Case: b.cases[i].Name, File: b.cases[i].path, Verdict: verdict, Place: b.place, Failure: err.Error()})
}

// pull fetches the captured frames, if any were kept.
func (b *guestBatch) pull(ctx context.Context, m *vm.Machine) error {
	if b.frames == "" {
		return nil
	}
	return m.Pull(ctx, guestDir, b.frames)
}
