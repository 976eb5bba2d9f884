package vm

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestArchiveThereAndBack(t *testing.T) {
	src := t.TempDir()
	write := func(name string, data string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(src, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "alpha", 0o644)
	write("bin/run", "#!", 0o755)
	write("empty", "", 0o600)
	if err := os.Symlink("bin/run", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := pack(&b, src, "."); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "new")
	if err := extract(&b, dst); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "alpha", "bin/run": "#!", "empty": "", "link": "#!"} {
		got, err := os.ReadFile(filepath.Join(dst, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if st, err := os.Stat(filepath.Join(dst, "bin/run")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("bin/run: mode %v, %v", st.Mode(), err)
	}
	if target, err := os.Readlink(filepath.Join(dst, "link")); err != nil || target != "bin/run" {
		t.Errorf("link leads to %q, %v", target, err)
	}
}

func TestPackOneFileUnderANewName(t *testing.T) {
	src := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(src, []byte("data"), 0o755); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := pack(&b, src, "y"); err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(&b).Next()
	if err != nil || h.Name != "y" || h.Size != 4 {
		t.Errorf("%+v, %v", h, err)
	}
}

// A guest is not trusted with the host's files.
func TestExtractStaysInside(t *testing.T) {
	for _, name := range []string{"../evil", "/../evil", "link/evil"} {
		outside := t.TempDir()
		dir := filepath.Join(outside, "inside")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("..", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1}); err != nil {
			t.Fatal(err)
		}
		tw.Write([]byte("x"))
		tw.Close()
		err := extract(&b, dir)
		if _, serr := os.Lstat(filepath.Join(outside, "evil")); serr == nil {
			t.Errorf("%s was written outside", name)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
