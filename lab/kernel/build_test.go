package kernel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tinyMakefile builds, in the manner of the kernel's, an image of two files: one
// that does not compile has BROKEN in it. Compiling one with GATE FIFO tells so
// there when half an object is written, and goes on when it is told to.
const tinyMakefile = `# SPDX-License-Identifier: GPL-2.0
VERSION = 9
PATCHLEVEL = 9

.DELETE_ON_ERROR:

allnoconfig:
	@grep -v CONFIG_VMXNET3 $(KCONFIG_ALLCONFIG) >$(O)/.config

bzImage: $(O)/arch/x86/boot/bzImage

$(O)/%.o: %.c
	@echo "  CC      $*.o"
	@mkdir -p $(dir $@)
	@if grep -n BROKEN $< >&2; then echo "$(CURDIR)/$<:1:1: error: broken" >&2; exit 1; fi
	@echo half >$@
	@gate=$$(sed -n 's/^GATE //p' $<); test ! -p "$$gate" || { echo >$$gate; read -r go <$$gate; }
	@cat $< >$@

# HdrS at 0x202, at 0x20e the place of the version: Documentation/arch/x86/boot.rst.
$(O)/arch/x86/boot/bzImage: $(O)/init/a.o $(O)/init/b.o
	@mkdir -p $(dir $@)
	@{ head -c 514 /dev/zero; printf HdrS; head -c 8 /dev/zero; printf '\000\006'; head -c 1520 /dev/zero; \
		printf '9.9.0%s \000' "$(LOCALVERSION)"; cat $^; } >$@
`

// tinyTree is a source tree that is built in no time, and a cache. In place of
// what a kernel's build needs besides make stand programs that do nothing.
func tinyTree(t *testing.T) (tree string) {
	t.Helper()
	none := map[string]string{}
	for _, tool := range tools {
		if tool.program != "make" && tool.program != "gzip" {
			none[tool.program] = "exit 0"
		}
	}
	path := os.Getenv("PATH")
	pathWith(t, none)
	t.Setenv("PATH", os.Getenv("PATH")+":"+path)
	tree = filepath.Join(t.TempDir(), "tree")
	writeTree(t, tree, map[string]string{"Makefile": tinyMakefile, "Kconfig": "", "Kbuild": "", "init/a.c": "one\ntwo\nthree\n", "init/b.c": "b\n"})
	return tree
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := writeFile(filepath.Join(dir, name), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot is everything that can be told of the files below dir.
func snapshot(t *testing.T, dir string) (all string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		all += fmt.Sprintln(path, st.Mode(), st.Size(), st.ModTime())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// told is what a build tells.
type told struct {
	compiled, notes []string
	phases          map[string]bool
}

func buildTelling(t *testing.T, spec string) (*Kernel, *told, error) {
	t.Helper()
	got := &told{phases: map[string]bool{}}
	ctx := WithProgress(t.Context(), func(p Progress) {
		got.phases[p.Phase] = true
		switch {
		case p.Note:
			got.notes = append(got.notes, p.About)
		case p.Phase == "compile":
			got.compiled = append(got.compiled, p.About)
		}
	})
	k, err := Build(ctx, spec)
	slices.Sort(got.compiled) // two at once
	return k, got, err
}

// image is what was compiled into a kernel.
func image(t *testing.T, k *Kernel) string {
	t.Helper()
	b, err := os.ReadFile(k.Image)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b[0x800:]), "\x00")
	return text
}

const tinyPatch = `From: A Developer <a@example.org>
Subject: [PATCH] two

--- a/init/a.c
+++ b/init/a.c
@@ -2,3 +2,3 @@
 one
-two
+2
 three
`

func TestBuildTree(t *testing.T) {
	tree := tinyTree(t)
	fix := filepath.Join(t.TempDir(), "fix.patch")
	os.WriteFile(fix, []byte(tinyPatch), 0o644)
	before := snapshot(t, tree)

	plain, got, err := buildTelling(t, tree+":source")
	if err != nil {
		t.Fatal(err)
	}
	if image(t, plain) != "one\ntwo\nthree\nb\n" || plain.Release != "9.9.0-source" || plain.Spec != tree+":source" || !strings.HasPrefix(plain.Source, tree+" ") {
		t.Errorf("%+v: %q", plain, image(t, plain))
	}
	if fmt.Sprint(got.compiled) != "[init/a.o init/b.o]" {
		t.Errorf("compiled %v", got.compiled)
	}
	if len(got.notes) != 1 || !strings.Contains(got.notes[0], "has not taken CONFIG_VMXNET3=y") {
		t.Errorf("notes %q", got.notes)
	}

	patched, got, err := buildTelling(t, tree+"+"+fix)
	if err != nil {
		t.Fatal(err)
	}
	if image(t, patched) != "one\n2\nthree\nb\n" || patched.Release != "9.9.0-fix" || fmt.Sprint(got.compiled) != "[init/a.o]" {
		t.Errorf("%+v: %q, compiled %v", patched, image(t, patched), got.compiled)
	}
	if want := fix + " ([PATCH] two): init/a.c: hunk 1 applied at line 1, offset -1"; !slices.Contains(got.notes, want) {
		t.Errorf("notes %q, want %q", got.notes, want)
	}

	// What is built needs no tools any more, by either name.
	path := os.Getenv("PATH")
	t.Setenv("PATH", "/nowhere")
	for spec, want := range map[string]*Kernel{tree + ":source": plain, tree + "+" + fix: patched} {
		if k, err := Resolve(t.Context(), spec); err != nil || k.Hash != want.Hash || k.Spec != spec {
			t.Errorf("%s again: %+v, %v", spec, k, err)
		}
	}
	t.Setenv("PATH", path)

	// Without the patch all is as before, to the byte, whatever was done to the copy.
	if err := Remove(tree + ":source"); err != nil {
		t.Fatal(err)
	}
	cache, _ := CacheDir()
	writeTree(t, filepath.Join(cache, "builds/9.9/src"), map[string]string{"init/b.c": "vandal\n", "init/c.c": "too much\n"})
	again, got, err := buildTelling(t, tree+":source")
	if err != nil || again.Hash != plain.Hash || fmt.Sprint(got.compiled) != "[init/a.o init/b.o]" {
		t.Errorf("%+v, %v, compiled %v", again, err, got.compiled)
	}
	if _, err := os.Stat(filepath.Join(cache, "builds/9.9/src/init/c.c")); err == nil {
		t.Error("a file that is not in the tree is in the copy")
	}
	if after := snapshot(t, tree); after != before {
		t.Errorf("the tree was touched:\n%s\nbefore\n%s", after, before)
	}

	// A change in the tree is a new kernel, at once.
	writeTree(t, tree, map[string]string{"init/b.c": "B\n"})
	changed, got, err := buildTelling(t, tree+":source")
	if err != nil || image(t, changed) != "one\ntwo\nthree\nB\n" || fmt.Sprint(got.compiled) != "[init/b.o]" {
		t.Errorf("%+v, %v, compiled %v", changed, err, got.compiled)
	}
	// Options have objects of their own.
	if _, got, err = buildTelling(t, tree+"+kasan"); err != nil || len(got.compiled) != 2 {
		t.Errorf("%v, compiled %v", err, got.compiled)
	}
	if entries, err := List(); err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := Leftovers(); err != nil || n > 0 {
		t.Errorf("%d bytes left, %v", n, err)
	}
	if k, got, err := buildTelling(t, tree+":source"); err != nil || k.Hash != changed.Hash || len(got.compiled) != 0 {
		t.Errorf("after cleaning: %v, compiled %v", err, got.compiled)
	}
}

// What belongs to a tree is for git to say, where it knows the tree; else what a
// build in the tree has left is not taken along.
func TestListTree(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"Makefile": "", ".gitignore": "*.o\nvmlinux\n/include/config/\n", "init/a.c": "", "init/a.o": "", "init/.a.o.cmd": "", "vmlinux": "",
		"include/asm-generic/vmlinux.lds.h": "", "include/config/auto.conf": "", ".config": "", "localversion-mine": "", "gone.c": "",
	})
	want := ".gitignore Makefile gone.c include/asm-generic/vmlinux.lds.h init/a.c localversion-mine"
	names, err := listTree(t.Context(), dir)
	slices.Sort(names)
	if got := strings.Join(names, " "); err != nil || got != want {
		t.Errorf("without git: %s, %v", got, err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "Makefile", "init/a.c", "gone.c"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	os.Remove(filepath.Join(dir, "gone.c"))
	names, err = listTree(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := scan(t.Context(), dir, names, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(slices.Sorted(maps.Keys(m)), " ")
	if want := ".gitignore Makefile include/asm-generic/vmlinux.lds.h init/a.c localversion-mine"; got != want {
		t.Errorf("with git: %s", got)
	}
}

func TestBuildFailures(t *testing.T) {
	tree := tinyTree(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		return filepath.Join(dir, name)
	}
	broken := write("broken.patch", strings.ReplaceAll(tinyPatch, "\n+2\n", "\n+BROKEN\n"))
	misfit := write("misfit.patch", strings.ReplaceAll(tinyPatch, "-two", "-zwei"))
	text := write("text.patch", "no diff here\n")
	for _, tt := range []struct {
		spec, want string
		build      bool
	}{
		{tree + "+" + broken, "kernel " + tree + "+" + broken + " does not build:\n2:BROKEN\ninit/a.c:1:1: error: broken", true},
		{tree + "+" + misfit, "kernel " + tree + "+" + misfit + ": " + misfit + " ([PATCH] two) does not apply: init/a.c:1: hunk 1 of 1, @@ -2,3 +2,3 @@\n" +
			"       1          one\n!         patch   zwei\n!      2  source  two\n       3          three", true},
		{tree + "+" + text, "kernel " + tree + "+" + text + ": no such kernel: " + text + ": there is no diff in it", false},
	} {
		_, _, err := buildTelling(t, tt.spec)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s:\n%v\nwant\n%s", tt.spec, err, tt.want)
		}
		if !errors.Is(err, ErrSpec) || errors.Is(err, ErrBuild) != tt.build {
			t.Errorf("%s: of ErrSpec %v, of ErrBuild %v", tt.spec, errors.Is(err, ErrSpec), errors.Is(err, ErrBuild))
		}
	}
	// None of it is in the way of what is right.
	if k, _, err := buildTelling(t, tree+":source"); err != nil || image(t, k) != "one\ntwo\nthree\nb\n" {
		t.Errorf("%v", err)
	}
	t.Setenv("PATH", filepath.Dir(must(exec.LookPath("gcc"))))
	_, _, err := buildTelling(t, tree+"+kasan")
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "building needs make, gzip: apt-get install make gzip") {
		t.Errorf("without tools: %v", err)
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// Two builds of the same at once: one compiles, the other waits for it.
func TestTwoBuildsAtOnce(t *testing.T) {
	tree := tinyTree(t)
	compiled := make(chan string, 10)
	ctx := WithProgress(t.Context(), func(p Progress) {
		if p.Phase == "compile" {
			compiled <- p.About
		}
	})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := Build(ctx, tree+":source"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(compiled) != 2 {
		t.Errorf("%d files compiled, want 2", len(compiled))
	}
}

const killedBuild = "SEG6LAB_TEST_BUILD"

// TestMain lets this program be the build that is killed.
func TestMain(m *testing.M) {
	if spec := os.Getenv(killedBuild); spec != "" {
		ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt)
		Build(ctx, spec)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Neither an interrupt nor a kill leaves half an object that make believes in.
func TestBuildIsStopped(t *testing.T) {
	for name, stop := range map[string]func(*exec.Cmd){
		"interrupted":           func(cmd *exec.Cmd) { cmd.Process.Signal(os.Interrupt) },
		"the program is killed": func(cmd *exec.Cmd) { cmd.Process.Kill() },
		"everything is killed": func(cmd *exec.Cmd) {
			for _, pid := range append(descendants(cmd.Process.Pid), cmd.Process.Pid) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := tinyTree(t)
			gate := filepath.Join(t.TempDir(), "gate")
			if err := syscall.Mkfifo(gate, 0o600); err != nil {
				t.Fatal(err)
			}
			writeTree(t, tree, map[string]string{"init/b.c": "GATE " + gate + "\n"})
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), killedBuild+"="+tree+":source")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(gate) // waits until half an object is there
			if err != nil {
				t.Fatal(err)
			}
			stop(cmd)
			cmd.Wait()
			f.Close()
			os.Remove(gate) // nothing waits there any more
			k, _, err := buildTelling(t, tree+":source")
			if err != nil || image(t, k) != "one\ntwo\nthree\nGATE "+gate+"\n" {
				t.Errorf("%v: %q", err, image(t, k))
			}
		})
	}
}

// A disk that fills leaves nothing that is in the way when there is room again.
func TestBuildOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, kilobytes := range []int{20, 40, 60, 80, 100} {
		tree := tinyTree(t)
		writeTree(t, tree, map[string]string{"init/b.c": strings.Repeat("b", 16<<10)})
		dir, _ := CacheDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kilobytes)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		_, _, err := buildTelling(t, tree+":source")
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "SEG6LAB_CACHE") {
			t.Errorf("with %d KB: %v, want no space left and what to do", kilobytes, err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=10m"); err != nil {
			t.Fatal(err)
		}
		if k, _, err := buildTelling(t, tree+":source"); err != nil || !strings.HasSuffix(image(t, k), "three\n"+strings.Repeat("b", 16<<10)) {
			t.Errorf("after %d KB: %v", kilobytes, err)
		}
	}
}

// descendants are the processes below pid, parents first: none can tidy up after
// those that it started.
func descendants(pid int) (all []int) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	words := bufio.NewScanner(f)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		var child int
		fmt.Sscan(words.Text(), &child)
		all = append(append(all, child), descendants(child)...)
	}
	return all
}
