package specs_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"seg6lab/lab/probe"
	"seg6lab/lab/vm"
	"seg6lab/specs"
)

// TestMain is the guest's side of the tests with guests, too.
func TestMain(m *testing.M) {
	vm.Prepared = []string{specs.GuestCommand}
	vm.Main()
	if slices.Contains(os.Args, specs.GuestCommand) {
		if err := specs.GuestMain(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func needGuest(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots guests")
	}
	if _, err := vm.Version(t.Context()); err != nil {
		t.Skip(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// One kernel with and without the zeroing of what it allocates: the same frames
// and reallocations, and in one of both not a byte zeroed.
func TestCompareKernelArgs(t *testing.T) {
	needGuest(t)
	cases, err := specs.Find([]string{"demo"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := specs.Compare(ctx, cases, specs.CompareOptions{
		Kernels: []string{specs.DefaultKernel},
		Args:    []string{"init_on_alloc=0", "init_on_alloc=1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := specs.Summarize(c.Results()); s.Held != 2 {
		t.Fatalf("%s: %s%s", s, c.Rows[0].Results[0].Failure, c.Rows[1].Results[0].Failure)
	}
	without, with := c.Rows[0].Results[0].Steps, c.Rows[1].Results[0].Steps
	for i := range without {
		a, b := without[i].Measured[0].Within(probe.Seg6), with[i].Measured[0].Within(probe.Seg6)
		if a.Calls == 0 || a.Calls != b.Calls || a.Copied != b.Copied || a.Zeroed != 0 || b.Zeroed <= 0 {
			t.Errorf("step %d: %+v without zeroing, %+v with", i+1, a, b)
		}
		if !slices.Equal(without[i].Frames, with[i].Frames) || len(with[i].Frames) != 1 {
			t.Errorf("step %d: frames %v without zeroing, %v with", i+1, without[i].Frames, with[i].Frames)
		}
	}
}
