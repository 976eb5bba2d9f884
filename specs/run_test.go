package specs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seg6lab/lab"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// runText runs the one case of a text; its frames go to a directory of the
// test's.
func runText(t *testing.T, text string) *Result {
	t.Helper()
	return Run(context.Background(), loadCases(t, text)[0], Options{Frames: t.TempDir()})
}

// noLab fails the test where a lab of this process is up.
func noLab(t *testing.T) {
	t.Helper()
	found, err := lab.Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Owner == os.Getpid() {
			t.Errorf("lab %s is left", f.Name)
		}
	}
}

// udp is sent from a to b over the one link of p2p and arrives as it is.
const udp = `Ether()/IPv6(src="2001:db8::1", dst="2001:db8::2")/UDP(sport=1000, dport=9)/Raw(16)`

func sendUDP(expect string) string {
	return on(fmt.Sprintf("steps: [{send: {from: a:eth0, packet: '%s'}, expect: [%s], within: 100ms}]", udp, expect))
}

func TestVerdicts(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		name, text string
		verdict    Verdict
		failure    []string
	}{
		{"held", sendUDP(`{at: b:eth0, exact: true, packet: '` + udp + `'}`), Held, nil},
		{"other field", sendUDP(`{at: b:eth0, packet: 'Ether()/IPv6(hlim=63)/UDP(dport=9)'}`), Failed, []string{
			"step 1: a:eth0 sends " + udp, "at b:eth0 0 of 1 frame",
			"expected  IPv6(hlim=63)", "actual    IPv6(", "hlim: expected 63, actual 64",
		}},
		{"nothing was expected", sendUDP(`{at: b:eth0, nothing: true}`), Failed, []string{"nothing was expected"}},
		{"nothing came", sendUDP(`{at: a:eth0, packet: '` + udp + `'}`), Failed, []string{"at a:eth0 0 of 1 frame"}},
		{"nothing came, as expected", on("steps: [{send: {from: a:eth0, packet: 'Ether(type=0x88b5)/Raw(16)'}, expect: [{at: a:eth0, nothing: true}], within: 100ms}]"), Held, nil},

		{"command", on("steps: [{run: {node: a, command: 'cat /sys/class/net/eth0/operstate', output: up}}]"), Held, nil},
		{"command fails", on("steps: [{run: {node: a, command: 'echo why >&2; exit 3'}}]"), Failed, []string{"exit status 3", "why"}},
		{"command without the output", on("steps: [{run: {node: a, command: 'echo one', output: two}}]"), Failed, []string{`expected output with "two"`, "one"}},
		{"command must fail", on("steps: [{run: {node: a, command: 'ip -6 route add default dev eth9', fails: 'Cannot find device'}}]"), Held, nil},
		{"command must fail, succeeds", on("steps: [{run: {node: a, command: 'true', fails: no}}]"), Failed, []string{"the command succeeds"}},
		{"command must fail, otherwise", on("steps: [{run: {node: a, command: 'echo yes; exit 1', fails: no}}]"), Failed, []string{`expected it to fail with "no"`, "yes"}},
		{"command sends", on("steps: [{run: {node: a, command: 'ping -c1 -W1 2001:db8::2 >/dev/null'}, expect: [{at: b:eth0, packet: 'Ether()/IPv6(dst=\"2001:db8::2\")/ICMPv6EchoRequest()'}]}]"), Held, nil},

		// A case ends with its first step that fails.
		{"second step", on("steps: [{run: {node: a, command: 'true'}}, {about: the second, run: {node: a, command: 'false'}}, {run: {node: a, command: 'exit 9'}}]"), Failed, []string{"step 2 (the second): "}},

		// No Linux has it.
		{"requirement", on("requires: [seg6.iif]\nsteps: [{run: {node: a, command: 'false'}}]"), Unsupported, []string{"seg6.iif: this kernel lacks"}},
		{"the lab does not come up", on("with: {a: {run: ['echo because >&2; false']}}\nsteps: [{run: {node: a, command: 'true'}}]"), Broken, []string{"node a: ", "because"}},
		{"the device is gone", on("with: {b: {run: ['ip link del eth0']}}\nsteps: [{send: {from: a:eth0, packet: 'Ether()'}}]"), Broken, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runText(t, c.text)
			if r.Verdict != c.verdict {
				t.Errorf("verdict %s, want %s: %s", r.Verdict, c.verdict, r.Failure)
			}
			if (r.Failure == "") != (c.failure == nil) {
				t.Errorf("failure %q", r.Failure)
			}
			for _, text := range c.failure {
				if !strings.Contains(r.Failure, text) {
					t.Errorf("failure without %q:\n%s", text, r.Failure)
				}
			}
		})
	}
	noLab(t)
}

// TestFramesKept: the frames of a case that failed are in a file that Wireshark
// reads.
func TestFramesKept(t *testing.T) {
	needRoot(t)
	c := loadCases(t, sendUDP(`{at: b:eth0, nothing: true}`))[0]
	dir := t.TempDir()
	r := Run(context.Background(), c, Options{Frames: dir})
	if r.Verdict != Failed || filepath.Dir(r.Pcapng) != dir {
		t.Fatalf("%s, frames %q: %s", r.Verdict, r.Pcapng, r.Failure)
	}
	out, err := exec.Command("tshark", "-r", r.Pcapng, "-Y", "udp", "-T", "fields", "-E", "separator=,",
		"-e", "frame.interface_name", "-e", "ipv6.dst", "-e", "udp.dstport", "-e", "udp.length").CombinedOutput()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, out)
	}
	// tshark says on its first line that root runs it.
	if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); lines[len(lines)-1] != "b:eth0,2001:db8::2,9,24" {
		t.Errorf("tshark reads %q", lines)
	}

	// Those of a case that held are kept only when asked for.
	held := loadCases(t, sendUDP(`{at: b:eth0, packet: 'Ether()/IPv6()'}`))[0]
	if r := Run(context.Background(), held, Options{Frames: t.TempDir()}); r.Verdict != Held || r.Pcapng != "" {
		t.Errorf("%s with frames %q, want none", r.Verdict, r.Pcapng)
	}
	if r := Run(context.Background(), held, Options{Frames: t.TempDir(), KeepAll: true}); r.Verdict != Held || r.Pcapng == "" {
		t.Errorf("%s without frames: %s", r.Verdict, r.Failure)
	}
}

// TestFramesOnFullDisk: frames that cannot be kept are an error, and what the
// expectation came to is told all the same.
func TestFramesOnFullDisk(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	c := loadCases(t, on(fmt.Sprintf("steps: [{send: {from: a:eth0, packet: '%s/Raw(1000)', count: 9}, expect: [{at: b:eth0, nothing: true}], within: 100ms}]", strings.TrimSuffix(udp, "/Raw(16)"))))[0]
	r := Run(context.Background(), c, Options{Frames: dir})
	for _, text := range []string{"no space left on device", dir, "nothing was expected"} {
		if !strings.Contains(r.Failure, text) {
			t.Errorf("failure without %q: %s: %s", text, r.Verdict, r.Failure)
		}
	}
	noLab(t)
}

// TestCancel ends a run in the middle of a command and of a wait.
func TestCancel(t *testing.T) {
	needRoot(t)
	seconds := fmt.Sprintf("1234.%d", os.Getpid()) // no other test process's
	for _, c := range []struct{ name, step string }{
		{"command", "{run: {node: a, command: 'touch MARK; exec sleep SECONDS'}}"},
		{"command and child", "{run: {node: a, command: 'sleep SECONDS & touch MARK; wait'}}"},
		{"wait", "{run: {node: a, command: 'touch MARK'}, expect: [{at: b:eth0, packet: 'Ether()/IPv6()'}], within: 100s}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "mark")
			theCase := loadCases(t, on("steps: ["+strings.NewReplacer("MARK", mark, "SECONDS", seconds).Replace(c.step)+"]"))[0]
			interrupt := errors.New("interrupted by the test")
			ctx, cancel := context.WithCancelCause(context.Background())
			done := make(chan *Result, 1)
			go func() { done <- Run(ctx, theCase, Options{Frames: t.TempDir()}) }()
			poll(t, "the step to begin", func() bool {
				_, err := os.Stat(mark)
				return err == nil
			})
			cancel(interrupt)
			select {
			case r := <-done:
				if r.Verdict != Broken || !strings.Contains(r.Failure, interrupt.Error()) && !strings.Contains(r.Failure, context.Canceled.Error()) {
					t.Errorf("verdict %s: %s", r.Verdict, r.Failure)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the run does not end")
			}
			noLab(t)
			if pids := processes("sleep\x00" + seconds + "\x00"); len(pids) > 0 {
				t.Errorf("processes %v are left", pids)
			}
		})
	}
}

// poll waits until a condition holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

// processes are those with a command line, its arguments ending in NUL.
func processes(cmdline string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && string(b) == cmdline {
			found = append(found, filepath.Dir(f))
		}
	}
	return found
}

// TestSideBySide: runs of one case do not see each other.
func TestSideBySide(t *testing.T) {
	needRoot(t)
	c := loadCases(t, sendUDP(`{at: b:eth0, exact: true, packet: '`+udp+`'}`))[0]
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if r := Run(context.Background(), c, Options{Frames: t.TempDir()}); r.Verdict != Held {
				t.Errorf("%s: %s", r.Verdict, r.Failure)
			}
		})
	}
	wg.Wait()
	noLab(t)
}

// TestNoDescriptorLeft: a run leaves no socket and no namespace open, held or
// not.
func TestNoDescriptorLeft(t *testing.T) {
	needRoot(t)
	texts := []string{
		sendUDP(`{at: b:eth0, packet: 'Ether()/IPv6()'}`),
		sendUDP(`{at: b:eth0, nothing: true}`),
		on("with: {a: {run: ['false']}}\nsteps: [{run: {node: a, command: 'true'}}]"),
	}
	runAll := func() {
		for _, text := range texts {
			runText(t, text)
		}
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	runAll() // what the first run opens for good
	before := open()
	runAll()
	// The kernel's side of a closed socket may take a moment; ours does not.
	if after := open(); after != before {
		t.Errorf("%d descriptors are open after the runs, %d before", after, before)
	}
}

// TestPlace: the host is chosen where it has all, and a missing
// requirement is named where it has not.
func TestPlace(t *testing.T) {
	needRoot(t)
	has := loadCases(t, on("steps: [{run: {node: a, command: 'true'}}]"))[0]
	lacks := loadCases(t, on("requires: [seg6.iif]\nsteps: [{run: {node: a, command: 'true'}}]"))[0]
	for _, c := range []struct {
		c     *Case
		opts  RunOptions
		guest bool
		why   string
	}{
		{has, RunOptions{Place: PlaceAuto}, false, "this kernel has what the case requires"},
		{lacks, RunOptions{Place: PlaceAuto}, true, "this kernel lacks seg6.iif"},
		{lacks, RunOptions{Place: PlaceHost}, false, ""},
		{has, RunOptions{Place: PlaceGuest}, true, "a guest was asked for"},
		{has, RunOptions{Place: PlaceAuto, Kernel: "debian:6.1"}, true, "kernel debian:6.1 was asked for"},
		{has, RunOptions{Place: PlaceAuto, Kernel: PlaceHost}, false, ""},
	} {
		if guest, why := place(c.c, c.opts); guest != c.guest || why != c.why {
			t.Errorf("%+v: guest %v, %q; want %v, %q", c.opts, guest, why, c.guest, c.why)
		}
	}
	for _, c := range []struct{ place, kernel, err string }{
		{PlaceAuto, "", ""},
		{PlaceHost, PlaceHost, ""},
		{PlaceHost, "debian:6.1", "needs --place vm"},
		{"moon", "", "expected auto, host or vm"},
	} {
		err := CheckPlace(c.place, c.kernel)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("place %s, kernel %q: %v, want %q", c.place, c.kernel, err, c.err)
		}
	}
}
