package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lines is a file with a line for each number.
func lines(from, to int) (text string) {
	for i := from; i <= to; i++ {
		text += fmt.Sprintf("line %d\n", i)
	}
	return text
}

// tree is a source in memory.
func tree(files map[string]string) *Files {
	return &Files{Source: func(name string) (*File, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return &File{Text: []byte(text)}, nil
	}}
}

// apply applies a text of patches and returns the notes, without the patch's name.
func apply(t *testing.T, files *Files, text string) (notes []string, err error) {
	t.Helper()
	patches, err := Read("p", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patches {
		some, err := files.Apply(p)
		if err != nil {
			return notes, err
		}
		for _, n := range some {
			notes = append(notes, strings.TrimPrefix(n.String(), p.String()+": "))
		}
	}
	return notes, nil
}

// hunk of lines 9 to 15, of which 12 becomes twelve.
const hunk = "--- a/f\n+++ b/f\n@@ -9,7 +9,7 @@\n line 9\n line 10\n line 11\n-line 12\n+twelve\n line 13\n line 14\n line 15\n"

func TestApply(t *testing.T) {
	twelve := func(text string) string { return strings.Replace(text, "line 12\n", "twelve\n", 1) }
	for _, tt := range []struct {
		name, source, patch, want, note string
	}{
		{"as it is", lines(1, 20), hunk, twelve(lines(1, 20)), ""},
		{"below", "new\nnew\n" + lines(1, 20), hunk, twelve("new\nnew\n" + lines(1, 20)), "f: hunk 1 applied at line 11, offset 2"},
		{"above", lines(5, 20), hunk, twelve(lines(5, 20)), "f: hunk 1 applied at line 5, offset -4"},
		{"fuzz 1: the outer context differs, and is kept", strings.Replace(lines(1, 20), "line 9", "nine", 1), hunk,
			twelve(strings.Replace(lines(1, 20), "line 9", "nine", 1)), "f: hunk 1 applied at line 9, fuzz 1"},
		{"fuzz 2 and offset", "new\n" + strings.Replace(lines(1, 20), "line 14", "fourteen", 1), hunk,
			twelve("new\n" + strings.Replace(lines(1, 20), "line 14", "fourteen", 1)), "f: hunk 1 applied at line 10, offset 1, fuzz 2"},
		{"the nearest of two places", lines(9, 15) + lines(1, 8) + lines(9, 15), hunk, lines(9, 15) + lines(1, 8) + twelve(lines(9, 15)), "f: hunk 1 applied at line 16, offset 7"},
		{"the offset of one hunk is expected of the next", "new\n" + lines(1, 20), hunk + "@@ -18,3 +18,2 @@\n line 18\n-line 19\n line 20\n",
			"new\n" + twelve(lines(1, 18)) + "line 20\n", "f: hunk 1 applied at line 10, offset 1; f: hunk 2 applied at line 19, offset 1"},
		{"no newline at the end", "a\nb", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n", "a\nc\n", ""},
		{"lines after a place, without context", "a\nb\n", "--- a/f\n+++ b/f\n@@ -1,0 +2,1 @@\n+new\n", "a\nnew\nb\n", ""},
		{"two patches of one file", lines(1, 20), fromGit + mailOf("[PATCH 1/2] a", "", hunk) + fromGit + mailOf("[PATCH 2/2] b", "", strings.NewReplacer("line 12", "twelve", "twelve", "12").Replace(hunk)),
			strings.Replace(lines(1, 20), "line 12", "12", 1), ""},
		{"diff -u of other directories", lines(1, 20), strings.NewReplacer("a/f", "linux.orig/f\t2026-09-16 10:00:00", "b/f", "linux/f\t2026-09-16 10:00:00").Replace(hunk), twelve(lines(1, 20)), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := tree(map[string]string{"f": tt.source})
			notes, err := apply(t, files, tt.patch)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(files.Changed["f"].Text); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if got := strings.Join(notes, "; "); got != tt.note {
				t.Errorf("notes %q, want %q", got, tt.note)
			}
		})
	}
}

func TestApplyCreatesRenamesDeletes(t *testing.T) {
	files := tree(map[string]string{"net/old": "a\n", "net/gone": "b\n", "net/script": "c\n"})
	_, err := apply(t, files, `diff --git a/net/new b/net/new
new file mode 100755
--- /dev/null
+++ b/net/new
@@ -0,0 +1,2 @@
+x
+y
diff --git a/net/old b/net/renamed
similarity index 90%
rename from net/old
rename to net/renamed
--- a/net/old
+++ b/net/renamed
@@ -1 +1 @@
-a
+A
diff --git a/net/gone b/net/gone
deleted file mode 100644
--- a/net/gone
+++ /dev/null
@@ -1 +0,0 @@
-b
diff --git a/net/script b/net/script
old mode 100644
new mode 100755
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*File{
		"net/new": {[]byte("x\ny\n"), true}, "net/old": nil, "net/renamed": {[]byte("A\n"), false}, "net/gone": nil, "net/script": {[]byte("c\n"), true},
	} {
		got, ok := files.Changed[name]
		switch {
		case !ok || (got == nil) != (want == nil):
			t.Errorf("%s: %v, want %v", name, got, want)
		case got != nil && (string(got.Text) != string(want.Text) || got.Executable != want.Executable):
			t.Errorf("%s: %q %v", name, got.Text, got.Executable)
		}
	}
	if len(files.Changed) != 5 {
		t.Errorf("%d files changed, want 5", len(files.Changed))
	}
	// diff -u says that a file is new by /dev/null alone.
	if _, err := apply(t, files, "--- /dev/null\n+++ b/net/plain\n@@ -0,0 +1 @@\n+z\n"); err != nil || files.Changed["net/plain"] == nil {
		t.Errorf("%v, %v", err, files.Changed)
	}
}

func TestApplyMistakes(t *testing.T) {
	create := "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+z\n"
	for _, tt := range []struct{ name, source, patch, want string }{
		{"no such file", "a\n", strings.ReplaceAll(hunk, "/f", "/g"), "p: the source has no b/g"},
		{"outside", "a\n", strings.ReplaceAll(hunk, "/f", "/../../f"), "p: b/../../f is outside of the source"},
		{"already there", "a\n", create, "p: the patch creates f, which the source has already"},
		{"deletes what has more", "a\nb\n", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "p: the patch deletes f, but the source has more in it"},
		{"binary", "a\n", "diff --git a/f b/f\nindex 1..2 100644\nBinary files a/f and b/f differ\n", "p: f is binary: only text can be patched"},
		{"does not fit", strings.Replace(lines(1, 20), "line 12", "line twelve", 1), hunk, `p does not apply: f:9: hunk 1 of 1, @@ -9,7 +9,7 @@
       9          line 9
      10          line 10
      11          line 11
!         patch   line 12
!     12  source  line twelve
      13          line 13
      14          line 14
      15          line 15`},
		{"does not fit elsewhere, with a line too many", "new\n" + strings.Replace(lines(1, 20), "line 12\n", "line 12;\nmore\n", 1), hunk, `p does not apply: f:10: hunk 1 of 1, @@ -9,7 +9,7 @@
      10          line 9
      11          line 10
      12          line 11
!         patch   line 12
!     13  source  line 12;
!     14  source  more
      15          line 13
      16          line 14
      17          line 15`},
		{"is there already", strings.Replace(lines(1, 20), "line 12\n", "twelve\n", 1), hunk, "p does not apply: f:9: hunk 1 of 1, @@ -9,7 +9,7 @@: it seems to be applied already\n"},
		{"white space", strings.ReplaceAll(lines(1, 20), "line ", "line\t"), hunk, "p does not apply: f:9: hunk 1 of 1, @@ -9,7 +9,7 @@: but for white space"},
		{"an empty file", "", hunk, "p does not apply: f:1: hunk 1 of 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := tree(map[string]string{"f": tt.source})
			_, err := apply(t, files, tt.patch)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
			if len(files.Changed) > 0 {
				t.Errorf("changed %v", files.Changed)
			}
		})
	}
}

// What diff(1) says leads from one text to the other must do so.
func TestApplyWhatDiffSays(t *testing.T) {
	if _, err := exec.LookPath("diff"); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	write := func(name string, text []string) string {
		s := strings.Join(text, "\n") + strings.Repeat("\n", r.IntN(2))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for range 100 {
		text := make([]string, 1+r.IntN(60))
		for i := range text {
			text[i] = fmt.Sprint(r.IntN(10)) // with many lines alike
		}
		old := write("a", text)
		for range 1 + r.IntN(5) {
			at := r.IntN(len(text))
			switch r.IntN(3) {
			case 0:
				text[at] = "changed"
			case 1:
				text = append(text[:at:at], append([]string{"new"}, text[at:]...)...)
			case 2:
				if len(text) > 1 {
					text = append(text[:at:at], text[at+1:]...)
				}
			}
		}
		want := write("b", text)
		cmd := exec.Command("diff", "-u", "--label", "a/f", "--label", "b/f", "a", "b")
		cmd.Dir = dir
		diff, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			t.Fatal(err)
		}
		if len(diff) == 0 {
			continue
		}
		files := tree(map[string]string{"f": old})
		notes, err := apply(t, files, string(diff))
		if err != nil || len(notes) > 0 || string(files.Changed["f"].Text) != want {
			t.Fatalf("seed %d: %v, notes %q\n%s\ngot\n%v\nwant\n%s", seed, err, notes, diff, files.Changed["f"], want)
		}
	}
}
