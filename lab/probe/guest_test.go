package probe_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
)

// TestMain lets the test binary be the guest's PID 1.
func TestMain(m *testing.M) {
	vm.Main()
	os.Exit(m.Run())
}

// On Debian's 6.12 every test runs, and none is skipped: it has both backends
// and VLAN devices.
func TestOnDebian612(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a guest")
	}
	k, err := kernel.Resolve(t.Context(), "debian:6.12")
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	m, err := vm.Boot(ctx, vm.Config{Kernel: k})
	if errors.Is(err, vm.ErrNoQEMU) {
		t.Skip(err)
	}
	check(t, err)
	defer func() { check(t, m.Close()) }()
	self := must(m.PushSelf(ctx))(t)
	var out bytes.Buffer
	exit := must(m.Run(ctx, vm.Cmd{
		Args:   []string{self, "-test.v", "-test.skip", "^TestOnDebian612$"},
		Stdout: &out, Stderr: &out,
	}))(t)
	if exit != 0 || bytes.Contains(out.Bytes(), []byte("--- SKIP")) {
		t.Errorf("in a guest with %s: exit code %d\n%s", m.Release, exit, out.Bytes())
	}
}
