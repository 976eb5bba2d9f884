package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"seg6lab/lab/port"
)

// netnsDir is where named network namespaces are, by iproute2's convention.
const netnsDir = "/run/netns"

// apart says to a test process that it has a netnsDir of its own.
const apart = "SEG6LAB_TEST_APART"

// tag is a variable in the environment of every process that the tests start,
// by which they find what is left.
var tag string

// TestMain runs the command itself where the test binary is called by its name,
// as in the scripts. The tests run in a mount namespace with an empty netnsDir, so
// that they see no lab of anybody else's and "down --all" is theirs alone.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "seg6lab" {
		main()
	}
	if os.Geteuid() == 0 && os.Getenv(apart) == "" {
		os.Exit(runApart())
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runApart runs this process again in a mount namespace of its own.
func runApart() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), apart+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// prepare empties the process's own netnsDir.
func prepare() error {
	tag = fmt.Sprintf("SEG6LAB_TEST_TAG=%d", os.Getpid())
	if os.Getenv(apart) == "" {
		return nil
	}
	// The mount namespace began as a copy, and copied mounts keep namespaces of
	// others alive.
	points, err := mountsBelow(netnsDir)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("test", netnsDir, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", netnsDir, err)
	}
	return nil
}

// mountsBelow lists the mount points below a directory, in the order in which they
// were mounted.
func mountsBelow(dir string) (points []string, err error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(info)) {
		if point := strings.Fields(line)[4]; strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	return points, err
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// environment is that of commands: the test binary by the name of seg6lab is
// first in PATH.
func environment(t *testing.T) []string {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "seg6lab"))
	}
	if err != nil {
		t.Fatal(err)
	}
	name, value, _ := strings.Cut(tag, "=")
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), name+"="+value,
		port.StateVariable+"="+t.TempDir())
}

// leftovers are the processes that the tests started and everything in netnsDir:
// what the kernel has of labs, whatever a file may say.
func leftovers() (left []string, err error) {
	entries, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		left = append(left, filepath.Join(netnsDir, e.Name()))
	}
	points, err := mountsBelow(netnsDir)
	if err != nil {
		return nil, err
	}
	for _, point := range points {
		left = append(left, "mount "+point)
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains("\x00"+string(b), "\x00"+tag+"\x00") {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			left = append(left, fmt.Sprintf("%s %q", filepath.Dir(path), cmdline))
		}
	}
	return left, err
}

// nothingLeft fails the test where there are leftovers.
func nothingLeft(t *testing.T) {
	t.Helper()
	left, err := leftovers()
	if err != nil {
		t.Error(err)
	}
	for _, l := range left {
		t.Errorf("left: %s", l)
	}
}
