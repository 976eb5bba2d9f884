package specs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"seg6lab/lab"
	"seg6lab/lab/feature"
)

// Places where a case can run.
const (
	PlaceAuto  = "auto" // the host where its kernel has what the case requires, else a guest
	PlaceHost  = "host" // this machine's kernel
	PlaceGuest = "vm"   // a guest
)

// DefaultKernel is that of guests when none is named.
const DefaultKernel = "debian:6.12"

// RunOptions of RunAll.
type RunOptions struct {
	Options
	// Place is one of the places above.
	Place string
	// Kernel of the guests. Naming one means PlaceGuest.
	Kernel string
	// KernelArgs are added to the command line of the guests' kernel.
	KernelArgs string
	// Guests is how many run side by side, 1 when 0.
	Guests int
	// Fresh gives every case a guest of its own.
	Fresh bool
	// Log, if set, is told about guests.
	Log func(string)
	// Start, if set, is told before a case runs, Done after it has.
	Start func(*Case)
	Done  func(*Result)
}

// CheckPlace tells whether a place and a kernel go together.
func CheckPlace(place, kernel string) error {
	switch place {
	case PlaceAuto, PlaceGuest:
		return nil
	case PlaceHost:
		if kernel != "" && kernel != PlaceHost {
			return fmt.Errorf("place host runs on this machine's kernel: kernel %s needs --place vm", kernel)
		}
		return nil
	}
	return fmt.Errorf("there is no place %s: expected auto, host or vm", place)
}

// RunAll runs cases, each where it belongs. The results are in the order of
// the cases. The error is that of ctx, or what kept guests from running at all.
func RunAll(ctx context.Context, cases []*Case, opts RunOptions) ([]*Result, error) {
	results := make([]*Result, len(cases))
	var guest []int // indexes of cases for a guest
	why := make([]string, len(cases))
	for i, c := range cases {
		var inGuest bool
		if inGuest, why[i] = place(c.on(opts.Dataplane), opts); inGuest {
			guest = append(guest, i)
		}
	}
	var mu sync.Mutex
	done := func(i int, r *Result) {
		mu.Lock()
		defer mu.Unlock()
		r.Why = why[i]
		results[i] = r
		if opts.Done != nil {
			opts.Done(r)
		}
	}
	start := func(i int) {
		if opts.Start != nil {
			mu.Lock()
			defer mu.Unlock()
			opts.Start(cases[i])
		}
	}
	next := 0
	for i, c := range cases {
		if next < len(guest) && guest[next] == i {
			next++
			continue
		}
		start(i)
		r := Run(ctx, c, opts.Options)
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		done(i, r)
	}
	if len(guest) > 0 {
		if err := runInGuests(ctx, cases, guest, opts, start, done); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// RunMatrix runs every case with every kernel, or where it belongs when none is
// named. Where one of several kernels lacks what a case requires, that is no
// result as long as another has it.
func RunMatrix(ctx context.Context, cases []*Case, kernels []string, opts RunOptions) ([]*Result, error) {
	if len(kernels) == 0 {
		return RunAll(ctx, cases, opts)
	}
	all := make([][]*Result, len(kernels))
	ran := make([]bool, len(cases)) // with one kernel at least
	done := opts.Done
	if done == nil {
		done = func(*Result) {}
	}
	opts.Done = func(r *Result) {
		if r.Verdict != Unsupported {
			done(r)
		}
	}
	frames := opts.Frames
	for k, name := range kernels {
		opts.Kernel = name
		if frames != "" {
			// Each kernel has frames of the same cases.
			opts.Frames = filepath.Join(frames, strings.NewReplacer("/", "_", ":", "-").Replace(name))
		}
		results, err := RunAll(ctx, cases, opts)
		if err != nil {
			return nil, err
		}
		all[k] = results
		for i, r := range results {
			ran[i] = ran[i] || r.Verdict != Unsupported
		}
	}
	var results []*Result
	for k := range kernels {
		for i, r := range all[k] {
			switch {
			case r.Verdict != Unsupported:
			case !ran[i] && k == len(kernels)-1:
				done(r)
			default:
				continue
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// place decides between host and guest, and says why where it had a choice.
func place(c *Case, opts RunOptions) (guest bool, why string) {
	switch {
	case opts.Kernel == PlaceHost || opts.Place == PlaceHost:
		return false, ""
	case len(c.Topology.Ports) > 0:
		return false, "it has ports of this machine"
	case opts.Kernel != "":
		return true, "kernel " + opts.Kernel + " was asked for"
	case opts.KernelArgs != "":
		return true, "kernel arguments were asked for"
	case opts.Place == PlaceGuest:
		return true, "a guest was asked for"
	case os.Geteuid() != 0:
		return true, "this user may not create network namespaces"
	}
	err := lab.Supported(c.Requirements())
	if err == nil {
		return false, "this kernel has what the case requires"
	}
	return true, "this kernel lacks " + strings.Join(missing(err), ", ")
}

// missing names the features that are missing by an error of lab.Supported.
func missing(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var names []string
		for _, e := range joined.Unwrap() {
			names = append(names, missing(e)...)
		}
		return names
	}
	var m *feature.Missing
	if errors.As(err, &m) {
		return []string{m.Name}
	}
	return []string{err.Error()}
}
