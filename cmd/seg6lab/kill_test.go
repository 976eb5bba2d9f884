package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// rounds is how often each command is ended at a random moment.
const rounds = 10

// random gives the moments, from a seed that replays them:
// SEG6LAB_TEST_SEED=N go test ./cmd/seg6lab -run 'TestKill|TestInterrupt'.
func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEG6LAB_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("SEG6LAB_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// command is seg6lab with arguments.
type command struct {
	t   *testing.T
	env []string
	dir string
	// within is the network namespace that stands for the machine, that of the test
	// when empty.
	within string
}

func newCommand(t *testing.T) *command {
	t.Helper()
	needRoot(t)
	c := &command{t: t, env: environment(t), dir: t.TempDir()}
	const text = `
case: long
topology: p2p
steps:
  - run: {node: a, command: 'sleep 1234 >/dev/null 2>&1 & exec sleep 1234'}
`
	if err := os.WriteFile(filepath.Join(c.dir, "long.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.run("down", "--all", "--force")
		nothingLeft(t)
	})
	return c
}

func (c *command) prepare(args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "seg6lab"
	if c.within != "" {
		// It becomes the program, which is what a signal then meets.
		cmd = exec.Command("nsenter", append([]string{"--net=" + c.within, "seg6lab"}, args...)...)
	}
	cmd.Env, cmd.Dir = c.env, c.dir
	// A file, not a pipe: what a killed command leaves running may hold it.
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, 10*time.Millisecond
	return cmd, out
}

// run runs the command to its end and gives its exit code and output.
func (c *command) run(args ...string) (int, string) {
	c.t.Helper()
	cmd, out := c.prepare(args...)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("seg6lab %v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// end runs the command and sends it a signal after a time, if it still runs. The
// exit code is -1 where the signal ended it.
func (c *command) end(signal os.Signal, after time.Duration, args ...string) (int, string) {
	c.t.Helper()
	cmd, out := c.prepare(args...)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { cmd.Process.Signal(signal) })
	defer timer.Stop()
	stuck := time.AfterFunc(after+20*time.Second, func() {
		cmd.Process.Signal(syscall.SIGQUIT)
		c.t.Errorf("seg6lab %v does not end", args)
	})
	defer stuck.Stop()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		c.t.Fatalf("seg6lab %v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// up brings a lab up that runs a process, and says how long that took.
func (c *command) up() time.Duration {
	c.t.Helper()
	start := time.Now()
	if code, out := c.run("up", "chain:4", "--name", "victim"); code != 0 {
		c.t.Fatalf("up: exit code %d: %s", code, out)
	}
	return time.Since(start)
}

// down takes down whatever there is and checks that this is all.
func (c *command) down(when string) {
	c.t.Helper()
	if code, out := c.run("down", "--all"); code != 0 {
		c.t.Errorf("%s: down --all: exit code %d: %s", when, code, out)
	}
	left, err := leftovers()
	if err != nil || len(left) > 0 {
		c.t.Fatalf("%s: left after down --all: %q %v", when, left, err)
	}
}

// TestKill kills up, run and down at random moments: down finds what is left from
// the kernel's state and removes it, and the name is free again.
func TestKill(t *testing.T) {
	c := newCommand(t)
	r := random(t)
	took := c.up()
	c.down("at first")
	moment := func() time.Duration { return time.Duration(r.Int64N(int64(took * 5 / 4))) }

	for range rounds {
		after := moment()
		c.end(syscall.SIGKILL, after, "up", "chain:4", "--name", "victim")
		c.down(fmt.Sprintf("up killed after %v", after))
	}
	for range rounds {
		after := moment()
		c.end(syscall.SIGKILL, after, "run", "--place", "host", "long.yaml")
		c.down(fmt.Sprintf("run killed after %v", after))
	}
	for range rounds {
		c.up()
		if code, out := c.run("exec", "--lab", "victim", "n1", "--", "sh", "-c", "sleep 1234 >/dev/null 2>&1 &"); code != 0 {
			t.Fatalf("exec: %s", out)
		}
		after := moment()
		c.end(syscall.SIGKILL, after, "down", "victim")
		c.down(fmt.Sprintf("down killed after %v", after))
	}
}

// TestKilledRunIsSwept: what a killed run leaves goes with the next one.
func TestKilledRunIsSwept(t *testing.T) {
	c := newCommand(t)
	took := c.up()
	c.down("at first")
	c.end(syscall.SIGKILL, 2*took, "run", "--place", "host", "long.yaml")
	if code, out := c.run("run", "--place", "host", "demo"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	nothingLeft(t)
}

// TestInterrupt ends up, run and down as Ctrl-C does, at random moments: they
// leave nothing themselves.
func TestInterrupt(t *testing.T) {
	c := newCommand(t)
	r := random(t)
	took := c.up()
	c.down("at first")
	moment := func() time.Duration { return time.Duration(r.Int64N(int64(took * 5 / 4))) }

	for range rounds {
		after := moment()
		when := fmt.Sprintf("up interrupted after %v", after)
		switch code, out := c.end(os.Interrupt, after, "up", "chain:4", "--name", "victim"); code {
		case 0: // it was up already
			c.down(when)
		case exitInternal, -1: // -1: before the program could ask for the signal
			if left, err := leftovers(); err != nil || len(left) > 0 {
				t.Fatalf("%s: left: %q %v", when, left, err)
			}
			if code == exitInternal && out != "seg6lab: interrupted\n" {
				t.Errorf("%s: %s", when, out)
			}
		default:
			t.Errorf("%s: exit code %d: %s", when, code, out)
		}
	}
	for range rounds {
		after := moment()
		when := fmt.Sprintf("run interrupted after %v", after)
		code, out := c.end(os.Interrupt, after, "run", "--place", "host", "long.yaml")
		if code != exitInternal && code != -1 {
			t.Errorf("%s: exit code %d: %s", when, code, out)
		}
		if left, err := leftovers(); err != nil || len(left) > 0 {
			t.Fatalf("%s: left: %q %v", when, left, err)
		}
	}
	for range rounds {
		c.up()
		after := moment()
		when := fmt.Sprintf("down interrupted after %v", after)
		switch code, out := c.end(os.Interrupt, after, "down", "victim"); code {
		case 0:
			if left, err := leftovers(); err != nil || len(left) > 0 {
				t.Fatalf("%s: left: %q %v", when, left, err)
			}
		case -1:
			c.down(when)
		default:
			t.Errorf("%s: exit code %d: %s", when, code, out)
		}
	}
}
