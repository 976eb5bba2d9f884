package specs_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
	"seg6lab/specs"
)

// scriptChecks are scripts on a kernel without the fixes, and how they must end: as
// the case does, which is changed by replacing a text.
var scriptChecks = []struct {
	name, old, new, fix string
	exit                int
}{
	{name: "demo", exit: 0},
	{name: "demo", old: `IPv6(src="fc00::1", dst="fc00:1::1", hlim=63)/SRH(segleft=0`, new: `IPv6(src="fc00::1", dst="fc00:1::1", hlim=62)/SRH(segleft=0`, exit: 1},
	{name: "realloc-segments/l2encap,n1", fix: "unfixed", exit: 0},
	{name: "realloc-segments/l2encap,n1", fix: "fixed", exit: 1},
}

// TestScriptsAgree runs scripts in a guest with nothing of seg6lab in it, and the
// same cases by seg6lab: they must come to the same.
func TestScriptsAgree(t *testing.T) {
	needGuest(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	k, err := kernel.Resolve(ctx, specs.DefaultKernel)
	if err != nil {
		t.Fatal(err)
	}
	m, err := vm.Boot(ctx, vm.Config{Kernel: k, HostFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var cases []*specs.Case
	var exits []int
	for _, check := range scriptChecks {
		c := changedCase(t, check.name, check.old, check.new)
		exit, out := runScript(ctx, t, m, c, check.fix)
		if exit != check.exit {
			t.Errorf("%s, FIX=%s, %q for %q: exit code %d, want %d: %s", c.Name, check.fix, check.new, check.old, exit, check.exit, out)
		}
		if check.fix != string(specs.Fixed) { // which the kernel is not
			cases, exits = append(cases, c), append(exits, check.exit)
		}
	}
	results, err := specs.RunAll(ctx, cases, specs.RunOptions{Kernel: specs.DefaultKernel})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if (r.Verdict == specs.Held) != (exits[i] == 0) {
			t.Errorf("%s: the script ends with %d, the case %s: %s", r.Case, exits[i], r.Verdict, r.Failure)
		}
	}
}

// TestAllScriptsAgree is part of make test-reports: the first row of every shipped case
// that can be said, in a guest of its own kernel, against the case.
func TestAllScriptsAgree(t *testing.T) {
	needGuest(t)
	if os.Getenv("SEG6LAB_BUILD") == "" {
		t.Skip("takes its time: set SEG6LAB_BUILD")
	}
	ctx := t.Context()
	all, err := specs.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	var cases []*specs.Case
	for _, c := range all {
		name, _, _ := strings.Cut(c.Name, "/")
		if !seen[name] && specs.WriteScript(io.Discard, c) == nil {
			seen[name] = true
			cases = append(cases, c)
		}
	}
	results, err := specs.RunAll(ctx, cases, specs.RunOptions{Kernel: specs.DefaultKernel})
	if err != nil {
		t.Fatal(err)
	}
	k, err := kernel.Resolve(ctx, specs.DefaultKernel)
	if err != nil {
		t.Fatal(err)
	}
	m, err := vm.Boot(ctx, vm.Config{Kernel: k, HostFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			exit, out := runScript(ctx, t, m, c, string(results[i].Fix))
			want := map[specs.Verdict]int{specs.Held: 0, specs.Failed: 1, specs.Unsupported: 4}[results[i].Verdict]
			if exit != want {
				t.Errorf("the script ends with %d, the case %s: %s%s", exit, results[i].Verdict, out, results[i].Failure)
			}
		})
	}
}

// changedCase is a shipped case, with a text of its file replaced.
func changedCase(t *testing.T, name, old, new string) *specs.Case {
	t.Helper()
	file, _, _ := strings.Cut(name, "/")
	paths, err := filepath.Glob("cases/*/*/" + file + ".yaml")
	if len(paths) == 0 {
		paths = []string{"cases/" + file + ".yaml"}
	}
	b, rerr := os.ReadFile(paths[0])
	if err != nil || rerr != nil {
		t.Fatal(err, rerr)
	}
	text := strings.Replace(string(b), old, new, 1)
	if old != "" && text == string(b) {
		t.Fatalf("%s has no %q", paths[0], old)
	}
	path := filepath.Join(t.TempDir(), file+".yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cases, err := specs.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("%s has no case %s", path, name)
	return nil
}

// runScript runs the script of a case in a guest.
func runScript(ctx context.Context, t *testing.T, m *vm.Machine, c *specs.Case, fix string) (exit int, output string) {
	t.Helper()
	var script, out bytes.Buffer
	if err := specs.WriteScript(&script, c); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "script.sh") // of the host's files, which the guest sees
	if err := os.WriteFile(path, script.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	exit, err := m.Run(ctx, vm.Cmd{Args: []string{"env", "FIX=" + fix, "sh", path}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, FIX=%s: %d after %s: %s", c.Name, fix, exit, time.Since(start).Round(time.Second), out.String())
	return exit, out.String()
}
