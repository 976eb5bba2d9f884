package vm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"

	"seg6lab/lab/kernel"
)

// The kernel unpacks the archive in its order: directories have to come first.
func TestInitramfs(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEG6LAB_CACHE", t.TempDir())
	mods, err := kernel.OpenModules(&kernel.Kernel{Spec: "none", Hash: strings.Repeat("0", 64)})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := buildInitramfs(&b, exe, mods); err != nil {
		t.Fatal(err)
	}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(b.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{".": true}
	modes := map[string]uint64{}
	for _, r := range records {
		if !seen[filepath.Dir(r.Name)] {
			t.Errorf("%s comes before its directory", r.Name)
		}
		seen[r.Name], modes[r.Name] = true, r.Mode
	}
	if modes["init"] != cpio.S_IFREG|0o755 {
		t.Errorf("init has mode %o", modes["init"])
	}
	if modes["dev/console"] != cpio.S_IFCHR|0o600 {
		t.Errorf("dev/console has mode %o", modes["dev/console"])
	}
}

// A program without its symbols is smaller, does the same, and counts as the same build.
func TestStrippedProgramRuns(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := readStripped(exe)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(exe)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) > st.Size() {
		t.Errorf("%d bytes of %d", len(b), st.Size())
	}
	file := filepath.Join(t.TempDir(), "stripped")
	if err := os.WriteFile(file, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file)
	cmd.Env = []string{roleVariable + "=echo"}
	cmd.Stdin = strings.NewReader("x")
	out, err := cmd.Output()
	if string(out) != "out:x" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%q, %v", out, err)
	}
	whole, err := buildOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	if part, err := buildOf(file); err != nil || part != whole {
		t.Errorf("build %s of the stripped program, %s of the whole; %v", part, whole, err)
	}
}

func TestClosure(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	files, err := Closure(sh)
	if err != nil {
		t.Fatal(err)
	}
	// ldd(1) of the C library is the judge.
	out, err := exec.Command("ldd", sh).Output()
	if err != nil {
		t.Skip("no ldd to compare with")
	}
	for _, f := range files {
		if !strings.Contains(string(out), f) {
			t.Errorf("%s is not among\n%s", f, out)
		}
	}
	for line := range strings.Lines(string(out)) {
		for _, w := range strings.Fields(line) {
			if strings.HasPrefix(w, "/") && !strings.Contains(strings.Join(files, " "), w) {
				t.Errorf("%s is missing in %v", w, files)
			}
		}
	}
}
