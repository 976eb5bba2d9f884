package vm

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"seg6lab/lab/kernel"
)

// TestMain lets the test binary be the guest's PID 1, as seg6lab is.
func TestMain(m *testing.M) {
	Main()
	if os.Getenv("VM_TEST_ECHO") != "" {
		echo()
	}
	os.Exit(m.Run())
}

// echo is what tests run in a guest: it copies its input and exits with 7.
func echo() {
	var b bytes.Buffer
	b.ReadFrom(os.Stdin)
	os.Stdout.WriteString("out:" + b.String())
	os.Stderr.WriteString("err:" + b.String())
	os.Exit(7)
}

func testKernel(t *testing.T) *kernel.Kernel {
	t.Helper()
	if testing.Short() {
		t.Skip("boots guests")
	}
	if _, err := findQEMU(); err != nil {
		t.Skip(err)
	}
	k, err := kernel.Resolve(t.Context(), "debian:6.12")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func bootTest(t *testing.T, cfg Config) *Machine {
	t.Helper()
	if cfg.Kernel == nil {
		cfg.Kernel = testKernel(t)
	}
	m, err := Boot(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%v, restored %v, kernel %s, ready after %v", m.Accel, m.Restored, m.Release, m.ReadyAfter)
	return m
}

func TestRun(t *testing.T) {
	m := bootTest(t, Config{})
	start := time.Now()
	self, err := m.PushSelf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pushed after %v", time.Since(start))
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	exit, err := m.Run(ctx, Cmd{Args: []string{self}, Env: []string{"VM_TEST_ECHO=1"}, Stdin: bytes.NewReader([]byte("hello")), Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ran after %v", time.Since(start))
	if exit != 7 || out.String() != "out:hello" || errs.String() != "err:hello" {
		t.Errorf("exit %d, stdout %q, stderr %q; want 7, out:hello, err:hello", exit, out.String(), errs.String())
	}
}
