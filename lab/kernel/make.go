package kernel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBuild marks a kernel that cannot be built: a patch that does not apply, a
// source that does not compile. Such errors are of ErrSpec too.
var ErrBuild = errors.New("the kernel cannot be built")

// BuildError is what make said of a source that does not compile.
type BuildError struct {
	// Kernel is the name of the kernel.
	Kernel string
	// Lines are what compiler and linker said, with paths from the source.
	Lines []string
}

// Error is all the lines, as they are what helps.
func (e *BuildError) Error() string {
	return fmt.Sprintf("kernel %s does not build:\n%s", e.Kernel, strings.Join(e.Lines, "\n"))
}

// Is makes the error one of ErrBuild and of ErrSpec.
func (e *BuildError) Is(target error) bool { return target == ErrBuild || target == ErrSpec }

// tools are the programs of a build and the Debian packages that have them.
var tools = []struct{ program, pkg string }{
	{"make", "make"}, {"gcc", "gcc"}, {"ld", "binutils"}, {"bc", "bc"}, {"bison", "bison"}, {"flex", "flex"},
	{"gzip", "gzip"}, {"pahole", "pahole"}, {"xz", "xz-utils"},
}

// headers are those of the host that a build includes.
var headers = []struct{ name, pkg string }{{"stdlib.h", "libc6-dev"}, {"gelf.h", "libelf-dev"}}

// CanBuild tells whether this machine has what builds a kernel. The error names
// what is missing and the one command that installs it on Debian.
func CanBuild() error {
	var missing, packages []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err != nil {
			missing, packages = append(missing, t.program), append(packages, t.pkg)
		}
	}
	for _, h := range headers {
		if slices.Contains(missing, "gcc") {
			packages = append(packages, h.pkg) // whether it is there, only gcc knows
			continue
		}
		if exec.Command("gcc", "-E", "-x", "c", "-include", h.name, os.DevNull).Run() != nil {
			missing, packages = append(missing, "<"+h.name+">"), append(packages, h.pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: building needs %s: apt-get install %s", ErrUnavailable, strings.Join(missing, ", "), strings.Join(packages, " "))
}

// build is one run of make after another in a workspace.
type build struct {
	kernel       string // its name
	key          string // of its content
	localVersion string
	src, out     string
	lock         *os.File // held by every child, so that a workspace is free only when all have ended
	killed       bool     // make did not get to remove what was half written
}

// make runs make with those words and hands on each line of what it prints.
func (b *build) make(ctx context.Context, line func(string), words ...string) error {
	cmd := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory", "-C", b.src, "O=" + b.out, "LOCALVERSION=" + b.localVersion}, words...)...)
	// Nothing of the caller's: neither his compiler flags nor the job server of a
	// make that started this program. The same source gives the same bytes.
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(), "LC_ALL=C",
		"KBUILD_BUILD_USER=seg6lab", "KBUILD_BUILD_HOST=seg6lab", "KBUILD_BUILD_VERSION=" + b.key[:16],
		"KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
	}
	var stderr bytes.Buffer
	stdout, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, &stderr
	cmd.ExtraFiles = []*os.File{b.lock}
	// On SIGTERM make ends what it started and removes what is half written.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // its end would end the child too
		defer runtime.UnlockOSThread()
		err := cmd.Run()
		w.Close()
		done <- err
	}()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		line(lines.Text())
	}
	io.Copy(io.Discard, stdout) // a line too long to be of interest
	err := <-done
	if cmd.ProcessState == nil {
		return err // it did not start
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		b.killed = true
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		return err
	}
	if bytes.Contains(stderr.Bytes(), []byte("No space left on device")) { // strerror(3) in LC_ALL=C
		return unix.ENOSPC
	}
	return &BuildError{b.kernel, complaints(stderr.String(), b.src)}
}

// complaints are the lines of stderr without those of make itself, with paths
// from the source.
func complaints(stderr, src string) (lines []string) {
	for line := range strings.Lines(stderr) {
		line = strings.TrimRight(line, "\n")
		if name, _, ok := strings.Cut(line, ": "); ok && (name == "make" || strings.HasPrefix(name, "make[")) {
			continue
		}
		lines = append(lines, strings.ReplaceAll(line, src+"/", ""))
	}
	if len(lines) == 0 {
		lines = strings.Split(strings.TrimSpace(stderr), "\n")
	}
	return lines
}

// firstObjects is how many objects the configuration had of 6.12 when it was
// written: the estimate of a first build.
const firstObjects = 1750

// image compiles the kernel.
func (b *build) image(ctx context.Context) error {
	built := filepath.Join(b.out, ".seg6lab-built")
	_, err := os.Stat(built)
	first := err != nil // later, only make knows how much depends on what changed
	objects, phase := 0, "compile"
	err = b.make(ctx, func(line string) {
		verb, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimSpace(name)
		switch verb {
		case "CC", "AS":
			objects++
		case "LD", "BTF":
			if !strings.Contains(name, "vmlinux") {
				return
			}
			phase = "link" // and what little is compiled in between
		default:
			return
		}
		p := Progress{Kernel: b.kernel, Phase: phase, About: name, Done: objects}
		if first {
			p.Total = max(firstObjects, objects)
		}
		tell(ctx, p)
	}, "-Otarget", "-j"+strconv.Itoa(runtime.NumCPU()+1), "bzImage")
	if err == nil && first {
		err = os.WriteFile(built, nil, 0o644)
	}
	return err
}

// guarded runs f, which makes objects. If an earlier run was killed, the last
// thing that it wrote may be half an object with a date that pleases make: all
// that it made is removed.
func (b *build) guarded(f func() error) error {
	mark := filepath.Join(b.out, ".seg6lab-running")
	if st, err := os.Stat(mark); err == nil {
		if err := removeNewer(b.out, st.ModTime()); err != nil {
			return err
		}
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return err
	}
	err := f()
	if !b.killed {
		err = errors.Join(err, os.Remove(mark))
	}
	return err
}

// removeNewer removes the files below dir that are not older than when.
func removeNewer(dir string, when time.Time) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil || st.ModTime().Before(when) {
			return err
		}
		return os.Remove(path)
	})
}
