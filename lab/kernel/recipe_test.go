package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const shippedDiff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"

func init() {
	RegisterPatches(fstest.MapFS{"some-report/a-fix.patch": {Data: []byte(shippedDiff)}, "some-report/story.txt": {}})
}

// chdirTree changes to a directory with the source trees linux and a+b, a
// directory that is none, and patches.
func chdirTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, tree := range []string{"linux", "a+b", "a+b.d"} {
		for _, f := range []string{"Makefile", "Kconfig", "Kbuild"} {
			os.MkdirAll(filepath.Join(dir, tree), 0o755)
			os.WriteFile(filepath.Join(dir, tree, f), nil, 0o644)
		}
	}
	os.Mkdir(filepath.Join(dir, "empty"), 0o755)
	for _, p := range []string{"x.patch", "x+y.patch", "kasan.mbox"} {
		os.WriteFile(filepath.Join(dir, p), []byte(p), 0o644)
	}
	t.Chdir(dir)
	return dir
}

func TestParseRecipe(t *testing.T) {
	dir := chdirTree(t)
	for _, tt := range []struct{ spec, want, version string }{
		{"debian:6.12:source", "debian:6.12:source", "-source"},
		{"debian:6.12", "debian:6.12:source", "-source"},
		{"debian:6.12+kasan", "debian:6.12+kasan", "-kasan"},
		{"debian:6.12:source+kasan", "debian:6.12+kasan", "-kasan"},
		{"debian:6.12+lockdep+a-fix+kasan+kasan", "debian:6.12+kasan+lockdep+a-fix", "-kasan-lockdep-a-fix"},
		{"debian:6.12+x.patch+a-fix", "debian:6.12+DIR/x.patch+a-fix", "-x-a-fix"},
		{"debian:6.12+./x+y.patch+x.patch", "debian:6.12+DIR/x+y.patch+DIR/x.patch", "-x_y-x"},
		{"linux:source", "DIR/linux:source", "-source"},
		{"./linux/+kasan.mbox", "DIR/linux+DIR/kasan.mbox", "-kasan"},
		{"a+b:source", "DIR/a+b:source", "-source"},
		{"a+b+kasan", "DIR/a+b+kasan", "-kasan"},
	} {
		r, err := ParseRecipe(tt.spec)
		if err != nil {
			t.Errorf("%s: %v", tt.spec, err)
			continue
		}
		if got := strings.ReplaceAll(r.String(), dir, "DIR"); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.spec, got, tt.want)
		}
		if got := r.localVersion(); got != tt.version {
			t.Errorf("%s: release %s, want %s", tt.spec, got, tt.version)
		}
		again, err := ParseRecipe(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%s: read again: %v, %v", r, again, err)
		}
	}
	long := &Recipe{Series: "6.12", Patches: []Patch{{Name: strings.Repeat("x", 100)}}}
	if got := "6.12.117" + long.localVersion(); len(got) > 64 { // __NEW_UTS_LEN
		t.Errorf("a release of %d bytes", len(got))
	}
}

func TestRecipesThatNameNothing(t *testing.T) {
	chdirTree(t)
	for spec, says := range map[string]string{
		"debian:six:source":      `"six" is not a version`,
		"debian:6.12:full+kasan": "cannot be built upon",
		"debian:6.12+":           "nothing after a +",
		"debian:6.12++kasan":     "nothing after a +",
		"debian:6.12+kasam":      "kasam is no file of a patch, and none of kasan, lockdep, a-fix",
		"debian:6.12+no.patch":   "no.patch is no file of a patch",
		"debian:6.12+empty":      "empty is no file of a patch",
		"nolinux:source":         "nolinux is neither debian:VERSION nor a source tree",
		"nolinux+kasan":          "nolinux is neither",
		"empty+kasan":            "empty is no kernel source tree: it has no Makefile",
	} {
		_, err := ParseRecipe(spec)
		if err == nil || !strings.Contains(err.Error(), says) || !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), spec) {
			t.Errorf("%s: %v, want %s", spec, err, says)
		}
	}
	// What is there is no recipe, whatever it is called.
	for spec, want := range map[string]bool{"x+y.patch": false, "a+b": false, "linux": false, "linux:source": true, "a+c": true, "debian:6.12": false} {
		if isRecipe(spec) != want {
			t.Errorf("%s: recipe %v", spec, !want)
		}
	}
}

// A kernel is another one when anything of it is, and the same by another name.
func TestKey(t *testing.T) {
	s := &source{id: "linux-source-6.12 1"}
	key := func(s *source, options []string, patches ...Patch) string {
		return (&Recipe{Series: "6.12", Options: options, Patches: patches}).key(s)
	}
	a, b, named := Patch{Name: "a", Text: []byte("1")}, Patch{Name: "b", Text: []byte("2")}, Patch{Name: "other", Text: []byte("1")}
	if key(s, nil, a) != key(s, nil, named) {
		t.Error("the name of a patch counts")
	}
	keys := []string{
		key(s, nil), key(&source{id: "linux-source-6.12 2"}, nil), key(s, []string{"kasan"}), key(s, []string{"kasan", "lockdep"}),
		key(s, nil, a), key(s, nil, b), key(s, nil, a, b), key(s, nil, b, a), key(s, nil, Patch{Name: "c", Text: []byte("12")}),
	}
	slices.Sort(keys)
	if n := len(slices.Compact(keys)); n != 9 {
		t.Errorf("%d different keys of 9", n)
	}
}

func TestConfigs(t *testing.T) {
	if got := strings.Join(Options(), " "); got != "kasan lockdep" {
		t.Errorf("options %s", got)
	}
	line := regexp.MustCompile(`^(CONFIG_[A-Z0-9_]+=[^ ]+|#.*|)$`)
	config := (&Recipe{Options: Options()}).config()
	seen := map[string]bool{}
	for l := range strings.Lines(string(config)) {
		if l = strings.TrimSuffix(l, "\n"); !line.MatchString(l) {
			t.Errorf("line %q", l)
		}
		if name, _, ok := strings.Cut(l, "="); ok && seen[name] {
			t.Errorf("%s twice", name)
		} else {
			seen[name] = ok
		}
	}
	lost := lostOptions([]byte("# CONFIG_X=y\nCONFIG_A=y\nCONFIG_B=y\nCONFIG_N=8\n"), []byte("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_N=64\n"))
	if strings.Join(lost, " ") != "CONFIG_B=y CONFIG_N=8" {
		t.Errorf("lost %q", lost)
	}
}
