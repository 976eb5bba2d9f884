package probe_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seg6lab/lab/probe"
)

// TestTimeCalls times a system call that sleeps, and that nobody else makes: as many
// calls as were made, each at least as long as it slept and no longer than was waited
// for all.
func TestTimeCalls(t *testing.T) {
	c, err := probe.TimeCalls("common_nsleep")
	if errors.Is(err, probe.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const calls, sleep = 5, 2 * time.Millisecond
	start := time.Now()
	for range calls {
		request := unix.NsecToTimespec(int64(sleep))
		if err := unix.ClockNanosleep(unix.CLOCK_REALTIME, 0, &request, nil); err != nil {
			t.Fatal(err)
		}
	}
	all := time.Since(start)
	ns, err := c.Take()
	if err != nil {
		t.Fatal(err)
	}
	if len(ns) != calls {
		t.Fatalf("%d calls, want %d: %v", len(ns), calls, ns)
	}
	for _, n := range ns {
		if d := time.Duration(n); d < sleep || d > all {
			t.Errorf("a call of %s, slept for %s, of %s in all", d, sleep, all)
		}
	}
	if ns, err := c.Take(); err != nil || len(ns) != 0 {
		t.Errorf("taken again: %v, %v", ns, err)
	}
}
