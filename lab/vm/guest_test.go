package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seg6lab/lab/kernel"
)

// roleVariable makes the test binary do one of roles instead of testing: in a
// guest, or as a client that is killed.
const roleVariable = "VM_TEST_ROLE"

var roles = map[string]func(){
	"echo": func() {
		b, _ := io.ReadAll(os.Stdin)
		fmt.Printf("out:%s", b)
		fmt.Fprintf(os.Stderr, "err:%s", b)
		os.Exit(7)
	},
	"panic":  func() { os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0) },
	"reboot": func() { unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) },
	"signal": func() { syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	"wait":   func() { syscall.Pause() },
	"eat": func() {
		for {
			b := make([]byte, 16<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
	},
	// An orphan that holds the output open must not hold up the call.
	"daemon": func() {
		exe, _ := os.Executable()
		cmd := exec.Command(exe)
		cmd.Env = []string{roleVariable + "=wait"}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Print("started")
		os.Exit(0)
	},
	"fresh": func() {
		id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
		r := make([]byte, 8)
		f, _ := os.Open("/dev/urandom")
		f.Read(r)
		fmt.Printf("%s %x %d", strings.TrimSpace(string(id)), r, time.Now().Unix())
	},
	"size": func() {
		ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		fmt.Printf("%v %v\n", ws, err)
		var b [1]byte
		os.Stdin.Read(b[:])
		for {
			if ws, _ = unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); ws.Row == 33 {
				fmt.Println("resized to", ws.Row, ws.Col)
				os.Exit(0)
			}
		}
	},
	"client": func() {
		k, err := kernel.Resolve(context.Background(), "debian:6.12")
		if err == nil {
			var m *Machine
			if m, err = Boot(context.Background(), Config{Kernel: k, HostFiles: true}); err == nil {
				fmt.Println(m.hv.process.Pid, m.files.process.Pid)
			}
		}
		if err != nil {
			fmt.Println(err)
		}
		syscall.Pause()
	},
}

var kept [][]byte

// TestMain lets the test binary be the guest's PID 1, as seg6lab is.
func TestMain(m *testing.M) {
	Main()
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		role()
		return
	}
	if len(os.Args) == 2 && os.Args[1] == preparedWord {
		b, _ := io.ReadAll(os.Stdin)
		fmt.Printf("%d %s", os.Getpid(), b)
		return
	}
	os.Exit(m.Run())
}

func testKernel(t *testing.T) *kernel.Kernel {
	t.Helper()
	if testing.Short() {
		t.Skip("boots guests, which takes seconds")
	}
	if _, err := findQEMU(); err != nil {
		t.Fatal(err)
	}
	k, err := kernel.Resolve(t.Context(), "debian:6.12")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// needRoot skips what mounts.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
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
	t.Cleanup(func() { m.Close() })
	t.Logf("%v, restored %v, kernel %s, ready after %v", m.Accel, m.Restored, m.Release, m.ReadyAfter)
	return m
}

// runRole runs this program in a role in the guest.
func runRole(t *testing.T, m *Machine, role string, cmd Cmd) (int, string, error) {
	t.Helper()
	self, err := m.PushSelf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 60*time.Second, errors.New("the test's deadline"))
	defer cancel()
	var out bytes.Buffer
	cmd.Args, cmd.Env = []string{self}, []string{roleVariable + "=" + role}
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	exit, err := m.Run(ctx, cmd)
	return exit, out.String(), err
}

// preparedWord is the argument of a command that tells its pid and its input.
const preparedWord = "prepared"

func TestPreparedCommand(t *testing.T) {
	k := testKernel(t)
	// A guest that another build saved has not this program to prepare.
	t.Setenv("SEG6LAB_CACHE", t.TempDir())
	Prepared = []string{preparedWord}
	defer func() { Prepared = nil }()
	for range 2 { // booted, and restored
		m := bootTest(t, Config{Kernel: k})
		self, err := m.PushSelf(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// Pids grow. The first has another environment and is not prepared.
		var pids [3]int
		for i, env := range [][]string{append(defaultEnv, "X=1"), nil, nil} {
			var out bytes.Buffer
			exit, err := m.Run(t.Context(), Cmd{Args: []string{self, preparedWord}, Env: env, Stdin: strings.NewReader("input"), Stdout: &out})
			if err != nil || exit != 0 {
				t.Fatalf("exit %d, %v", exit, err)
			}
			var input string
			if _, err := fmt.Sscan(out.String(), &pids[i], &input); err != nil || input != "input" {
				t.Fatalf("output %q, %v", &out, err)
			}
		}
		if pids[1] > pids[0] {
			t.Errorf("pids %v: the second command was started when it was asked for", pids)
		}
		if pids[2] < pids[0] {
			t.Errorf("pids %v: the prepared command ran twice", pids)
		}
	}
}

func TestRun(t *testing.T) {
	m := bootTest(t, Config{})
	var errs bytes.Buffer
	exit, out, err := runRole(t, m, "echo", Cmd{Stdin: strings.NewReader("hello"), Stderr: &errs})
	if err != nil || exit != 7 || out != "out:hello" || errs.String() != "err:hello" {
		t.Errorf("exit %d, stdout %q, stderr %q, %v; want 7, out:hello, err:hello", exit, out, errs.String(), err)
	}
	if exit, _, err := runRole(t, m, "signal", Cmd{}); err != nil || exit != 128+int(unix.SIGKILL) {
		t.Errorf("killed by signal 9: exit %d, %v; want 137", exit, err)
	}
	if exit, out, err := runRole(t, m, "daemon", Cmd{}); err != nil || exit != 0 || out != "started" {
		t.Errorf("with a daemon left: exit %d, %q, %v", exit, out, err)
	}
	if exit, err := m.Run(t.Context(), Cmd{Args: []string{"no-such-program"}}); err != nil || exit != exitNotFound {
		t.Errorf("a program that is not there: exit %d, %v; want 127", exit, err)
	}
}

func TestPushAndPull(t *testing.T) {
	m := bootTest(t, Config{})
	src, dst := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 200<<10) // more than the window and than a pipe
	os.MkdirAll(filepath.Join(src, "sub"), 0o755)
	os.WriteFile(filepath.Join(src, "sub/big"), data, 0o644)
	if err := m.Push(t.Context(), src, "/tmp/there"); err != nil {
		t.Fatal(err)
	}
	if err := m.Pull(t.Context(), "/tmp/there", dst); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dst, "sub/big")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(data), err)
	}
	if err := m.Pull(t.Context(), "/no/such/place", dst); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("pull of nothing: %v", err)
	}
}

// One command that never reads its input must not hold up another.
func TestCommandsSideBySide(t *testing.T) {
	m := bootTest(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	self, err := m.PushSelf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := m.Run(ctx, Cmd{Args: []string{self}, Env: []string{roleVariable + "=wait"}, Stdin: endless{}})
		waiting <- err
	}()
	if exit, out, err := runRole(t, m, "echo", Cmd{Stdin: strings.NewReader("x")}); err != nil || exit != 7 || out != "out:x" {
		t.Errorf("exit %d, %q, %v", exit, out, err)
	}
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("the command that was given up: %v", err)
	}
	if exit, _, err := runRole(t, m, "echo", Cmd{}); err != nil || exit != 7 {
		t.Errorf("after that: exit %d, %v", exit, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestRestoredGuestsShareNoState(t *testing.T) {
	var seen [2][]string
	for i := range seen {
		m := bootTest(t, Config{})
		_, out, err := runRole(t, m, "fresh", Cmd{})
		if err != nil {
			t.Fatal(err)
		}
		seen[i] = strings.Fields(out)
		if len(seen[i]) != 3 {
			t.Fatalf("answer %q", out)
		}
		clock, _ := strconv.ParseInt(seen[i][2], 10, 64)
		if d := time.Now().Unix() - clock; d < -1 || d > 10 {
			t.Errorf("the guest's clock is %d s behind", d)
		}
		m.Close()
	}
	for i, what := range []string{"boot id", "random bytes"} {
		if seen[0][i] == seen[1][i] || len(seen[0][i]) < 16 {
			t.Errorf("%s: %s and %s", what, seen[0][i], seen[1][i])
		}
	}
}

// What the guest's kernel or QEMU dies of is the error, with the console.
func TestGuestsThatDie(t *testing.T) {
	for _, tt := range []struct {
		role, kind, contains string
	}{
		{"panic", "panic", "Kernel panic - not syncing: sysrq triggered crash"},
		{"eat", "out of memory", "oom-killer"},
		{"reboot", "", "the guest ended"},
	} {
		t.Run(tt.role, func(t *testing.T) {
			m := bootTest(t, Config{})
			_, _, err := runRole(t, m, tt.role, Cmd{})
			if err == nil || !strings.Contains(err.Error(), tt.contains) {
				t.Fatalf("%v; want %s", err, tt.contains)
			}
			var r *Report
			if tt.kind != "" && (!errors.As(err, &r) || r.Kind != tt.kind) {
				t.Errorf("%v; want a report of %s", err, tt.kind)
			}
			closed := m.Close()
			if (tt.kind != "") != errors.As(closed, &r) {
				t.Errorf("Close: %v", closed)
			}
		})
	}
}

func TestHangEndsAtTheDeadline(t *testing.T) {
	m := bootTest(t, Config{})
	self, err := m.PushSelf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("no answer in time")
	run := func(in io.Reader) error {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, late)
		defer cancel()
		_, err := m.Run(ctx, Cmd{Args: []string{self}, Env: []string{roleVariable + "=wait"}, Stdin: in})
		return err
	}
	if err := run(nil); !errors.Is(err, late) {
		t.Errorf("a command that never ends: %v", err)
	}
	// A guest that does nothing at all any more, not even take input.
	if err := m.hv.monitor.do(t.Context(), "stop", nil, nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := run(endless{}); !errors.Is(err, late) {
			t.Errorf("a guest that stands still: %v", err)
		}
	}
}

func TestGuestThatNeverComesUp(t *testing.T) {
	_, err := Boot(t.Context(), Config{Kernel: testKernel(t), NoSaved: true, BootTimeout: 500 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "did not come up within 500ms") {
		t.Errorf("%v", err)
	}
	_, err = Boot(t.Context(), Config{Kernel: testKernel(t), NoSaved: true, Append: "rdinit=/none init=/none"})
	var r *Report
	if !errors.As(err, &r) || r.Kind != "panic" {
		t.Errorf("without an init: %v", err)
	}
}

func TestQEMUKilledFromOutside(t *testing.T) {
	m := bootTest(t, Config{HostFiles: true})
	pids := []int{m.hv.process.Pid, m.files.process.Pid}
	syscall.Kill(pids[0], syscall.SIGKILL)
	_, err := m.Run(t.Context(), Cmd{Args: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v; want what killed QEMU", err)
	}
	m.Close()
	for _, pid := range pids {
		awaitEnd(t, pid)
	}
}

func TestNothingOutlivesAKilledClient(t *testing.T) {
	testKernel(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVariable+"=client")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var qemu, files int
	_, err = fmt.Fscan(out, &qemu, &files)
	cmd.Process.Kill()
	if err != nil {
		rest, _ := io.ReadAll(out)
		t.Fatalf("%v: %s", err, rest)
	}
	cmd.Wait()
	awaitEnd(t, qemu)
	awaitEnd(t, files)
}

// awaitEnd waits until a process is gone or only waits to be reaped by whoever adopted it.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

// ownCache gives the test a cache that has the kernel and no saved guest.
func ownCache(t *testing.T, dir string) {
	t.Helper()
	testKernel(t)
	cache, err := kernel.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kernels", "accel.json"} {
		if err := os.Symlink(filepath.Join(cache, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SEG6LAB_CACHE", dir)
}

func TestTwoFirstBootsAtOnce(t *testing.T) {
	ownCache(t, t.TempDir())
	k := testKernel(t)
	type result struct {
		m   *Machine
		err error
	}
	results := make(chan result, 2)
	for range 2 {
		go func() {
			m, err := Boot(t.Context(), Config{Kernel: k})
			results <- result{m, err}
		}()
	}
	restored := 0
	for range 2 {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		if r.m.Restored {
			restored++
		}
		if exit, _, err := runRole(t, r.m, "echo", Cmd{}); exit != 7 || err != nil {
			t.Errorf("exit %d, %v", exit, err)
		}
		r.m.Close()
	}
	if restored != 1 {
		t.Errorf("%d of two were restored, want the one that waited for the other", restored)
	}
}

// A saved guest that does not fit is dropped, so that the next step is a boot.
func TestDamagedSavedGuestIsDropped(t *testing.T) {
	bootTest(t, Config{}).Close() // there is one now
	cfg := Config{Kernel: testKernel(t)}.withDefaults()
	mods, err := kernel.OpenModules(cfg.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	qemu, _ := findQEMU()
	accel, _, _ := KnownAccel()
	place, err := savedPlace(&cfg, qemu, accel, mods)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	cut := func(b []byte) []byte { return b[:len(b)-4096] }
	for _, tt := range []struct {
		name, file string
		damage     func([]byte) []byte
	}{
		{"one bit of the memory", "memory", flip},
		{"memory cut short", "memory", cut},
		{"one bit of the devices", "devices", flip},
		{"devices cut short", "devices", cut},
		{"manifest", "manifest.json", func(b []byte) []byte { return b[:len(b)/2] }},
		// Whole by its checksums, but not what this QEMU can read.
		{"devices of another QEMU", "devices", func(b []byte) []byte { return []byte("QEVM of another day") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &saved{filepath.Join(t.TempDir(), "guest")}
			if err := os.CopyFS(s.dir, os.DirFS(place.dir)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(s.dir, tt.file)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b = tt.damage(b)
			if err := os.WriteFile(file, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(tt.name, "another") {
				signManifest(t, s, b)
			}
			if m := s.restore(t.Context(), cfg, qemu, accel, mods); m != nil {
				m.Close()
				t.Error("it was restored")
			}
			if _, err := os.Stat(s.dir); err == nil {
				t.Error("it was not dropped")
			}
		})
	}
}

func TestFullDiskCostsOnlyTheSavedGuest(t *testing.T) {
	needRoot(t)
	testKernel(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8M"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	ownCache(t, dir)
	m := bootTest(t, Config{})
	if exit, _, err := runRole(t, m, "echo", Cmd{}); exit != 7 || err != nil {
		t.Errorf("exit %d, %v", exit, err)
	}
	var left []string
	filepath.WalkDir(filepath.Join(dir, "guests"), func(p string, d os.DirEntry, _ error) error {
		if d != nil && (d.Name() == "memory" || d.Name() == "devices") {
			left = append(left, p)
		}
		return nil
	})
	if len(left) != 0 {
		t.Errorf("left on the full disk: %v", left)
	}
}

func TestHostFiles(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	os.WriteFile(file, []byte("host\n"), 0o644)
	m := bootTest(t, Config{HostFiles: true})
	if m.Shared() != "virtiofs" {
		t.Errorf("shared by %q", m.Shared())
	}
	for _, tt := range []struct{ name, script, want string }{
		{"a file of the host", "cat file", "host\n"},
		{"writes stay in the guest", "echo guest >file && cat file", "guest\n"},
		{"also past the scratch layer", "mkdir /raw && mount -t virtiofs host /raw 2>/dev/null; touch /raw" + dir + "/evil 2>/dev/null || echo refused", "refused\n"},
		{"tools", "ip -o link show lo | cut -d: -f2", " lo\n"},
		{"namespaces", "ip netns add x && ip netns exec x ip -o link | cut -d: -f2 && ip netns del x", " lo\n"},
		{"a module asked for by the kernel", "ip link add b0 type bond && ls -d /sys/class/net/b0", "/sys/class/net/b0\n"},
		{"a module asked for by name", "modprobe ip_gre && test -d /sys/module/ip_gre && echo loaded", "loaded\n"},
		{"no module", "modprobe no-such-module 2>/dev/null || echo none", "none\n"},
		{"no devices that nobody asked for", "ls /sys/class/net | grep -e dummy0 -e ifb || echo none", "none\n"},
		{"user namespaces", "unshare -Ur id -u", "0\n"},
		{"file systems", "for f in proc sysfs devpts cgroup2 debugfs tracefs bpf; do grep -q \" $f \" /proc/mounts || echo no $f; done", ""},
		{"an exit code", "exit 42", ""},
	} {
		var out, errs bytes.Buffer
		exit, err := m.Run(t.Context(), Cmd{Args: []string{"bash", "-c", tt.script}, Dir: dir, Stdout: &out, Stderr: &errs})
		want := 0
		if tt.script == "exit 42" {
			want = 42
		}
		if err != nil || exit != want || out.String() != tt.want {
			t.Errorf("%s: exit %d, %q, %v; want %d, %q\n%s", tt.name, exit, out.String(), err, want, tt.want, errs.String())
		}
	}
	if b, _ := os.ReadFile(file); string(b) != "host\n" {
		t.Errorf("the guest wrote to the host: %q", b)
	}
}

func TestTerminal(t *testing.T) {
	m := bootTest(t, Config{})
	r, w := io.Pipe()
	resize := make(chan [2]uint16, 1)
	var out lines
	out.seen = make(chan string, 16)
	go func() {
		<-out.seen
		resize <- [2]uint16{33, 99}
		w.Write([]byte("\n"))
	}()
	exit, _, err := runRole(t, m, "size", Cmd{Terminal: true, Size: [2]uint16{24, 80}, Resize: resize, Stdin: r, Stdout: &out})
	if err != nil || exit != 0 {
		t.Errorf("exit %d, %v", exit, err)
	}
	for _, want := range []string{"&{24 80 0 0} <nil>\r\n", "resized to 33 99\r\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output %q lacks %q", out.String(), want)
		}
	}
}

// lines tells of its first write.
type lines struct {
	bytes.Buffer
	seen chan string
}

func (l *lines) Write(b []byte) (int, error) {
	select {
	case l.seen <- string(b):
	default:
	}
	return l.Buffer.Write(b)
}

// A program and what it needs, in a guest without the host's files.
func TestPushProgram(t *testing.T) {
	m := bootTest(t, Config{})
	for _, name := range []string{"ip", "sh"} {
		p, err := m.PushProgram(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		args := map[string][]string{"ip": {p, "-o", "link", "show", "lo"}, "sh": {p, "-c", "echo lo:"}}[name]
		var out, errs bytes.Buffer
		exit, err := m.Run(t.Context(), Cmd{Args: args, Stdout: &out, Stderr: &errs})
		if err != nil || exit != 0 || !strings.Contains(out.String(), "lo:") {
			t.Errorf("%s: exit %d, %v, %q %q", name, exit, err, out.String(), errs.String())
		}
	}
}
