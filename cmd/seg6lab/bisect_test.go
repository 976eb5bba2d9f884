package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"seg6lab/lab/kernel"
)

// needBuild skips tests that build kernels, which takes minutes, unless they are
// asked for, as make test-reports does.
func needBuild(t *testing.T) {
	t.Helper()
	if os.Getenv("SEG6LAB_BUILD") == "" {
		t.Skip("builds kernels: set SEG6LAB_BUILD=1, or make test-reports")
	}
}

// TestBisect lets git search a history of Debian's source, of which git knows the
// files of seg6 alone, for the commit that breaks End.
func TestBisect(t *testing.T) {
	needBuild(t)
	if _, err := kernel.Build(t.Context(), "debian:6.12:source"); err != nil {
		t.Fatal(err)
	}
	cache, err := kernel.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob(filepath.Join(cache, "sources", "linux-source-6.12_*", "tree"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no source: %v", err)
	}
	tree := filepath.Join(t.TempDir(), "linux")
	run(t, "", "cp", "-a", sources[len(sources)-1], tree)
	// Debian's ignores everything at the top.
	if err := os.Remove(filepath.Join(tree, ".gitignore")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kernel.Remove(tree + ":source"); err != nil {
			t.Error(err)
		}
	})
	git := func(args ...string) string {
		t.Helper()
		return run(t, tree, "git", append([]string{"-c", "user.name=A Developer", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"}, args...)...)
	}
	git("init", "-q")
	// commit changes a file of seg6 and returns the commit.
	commit := func(file, old, new string) string {
		t.Helper()
		path := filepath.Join(tree, "net/ipv6", file)
		text, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(text, []byte(old)) {
			t.Fatalf("%s has no %q", file, old)
		}
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(new), 1), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		git("add", "net/ipv6/seg6.c", "net/ipv6/seg6_local.c", "net/ipv6/seg6_iptunnel.c")
		git("commit", "-q", "-m", file+": "+new)
		return strings.TrimSpace(git("rev-parse", "HEAD"))
	}
	const (
		title   = " *  SR-IPv6 implementation"
		right   = "addr = srh->segments + srh->segments_left;" // advance_nextseg
		wrong   = "addr = srh->segments;"                      // the last segment, always
		invalid = "addr = srh->segmens;"
	)
	good := commit("seg6.c", title, title+".")
	commit("seg6_iptunnel.c", title, title+".")
	broken := commit("seg6_local.c", right, invalid)
	commit("seg6_local.c", invalid, right)
	culprit := commit("seg6_local.c", right, wrong)
	bad := commit("seg6.c", title+".", title)

	// The command itself, not this test by its name: guests get a copy of it.
	bin := t.TempDir()
	run(t, "", "go", "build", "-o", filepath.Join(bin, "seg6lab"), ".")
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	const name = "end/sl-2,bare,udp"
	git("checkout", "-q", broken)
	before := stats(t, tree)
	cmd := exec.Command(filepath.Join(bin, "seg6lab"), "bisect-step", name)
	cmd.Dir, cmd.Env = tree, env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != bisectSkip || !strings.Contains(string(out), "\nnet/ipv6/seg6_local.c:286:") {
		t.Errorf("a commit that does not compile: %v\n%s", err, out)
	}
	if after := stats(t, tree); after != before {
		t.Error("the tree was touched")
	}

	git("bisect", "start", bad, good)
	cmd = exec.Command("git", "bisect", "run", "seg6lab", "bisect-step", name)
	cmd.Dir, cmd.Env = tree, env
	out, err = cmd.CombinedOutput()
	if want := culprit + " is the first bad commit"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, without %q:\n%s", err, want, out)
	}
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// stats is what stat(2) tells of every file below dir.
func stats(t *testing.T, dir string) (all string) {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil {
			b.WriteString(path + st.Mode().String() + st.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
