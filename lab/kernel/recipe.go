package kernel

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Recipe says of what a kernel is built.
type Recipe struct {
	// Series is Debian's linux-source to take, such as 6.12; empty for a tree.
	Series string
	// Tree is the absolute path of the user's source tree; empty for Debian's.
	Tree string
	// Options are the additions to the configuration, each once, sorted.
	Options []string
	// Patches are applied in this order.
	Patches []Patch

	asked string // what was parsed, to speak of it
}

// Patch is one file of a recipe: what a mailing list or git made of one change
// or of several.
type Patch struct {
	// Name is that of a shipped patch, or the absolute path of a file.
	Name string
	// Text is what the file holds.
	Text []byte

	asked string // the name as it was written, to speak of it
}

var errEmptyPart = errors.New("there is nothing after a +")

const (
	sourceSuffix = ":source"
	configSuffix = ".config"
	patchSuffix  = ".patch"
)

// configs are the parts of the configuration: base, and one for each option.
//
//go:embed config
var configs embed.FS

// Options returns the names of the options that a recipe can have.
func Options() (names []string) {
	entries, _ := configs.ReadDir("config") // embedded
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), configSuffix); name != "base" {
			names = append(names, name)
		}
	}
	return names
}

var shipped struct {
	sync.Mutex
	patches map[string][]byte
}

// RegisterPatches makes the files *.patch of fsys known to recipes by their names
// without the suffix. It panics when a name is taken, as that is a mistake in the
// program.
func RegisterPatches(fsys fs.FS) {
	shipped.Lock()
	defer shipped.Unlock()
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) != patchSuffix {
			return err
		}
		name := strings.TrimSuffix(path.Base(p), patchSuffix)
		if _, taken := shipped.patches[name]; taken || slices.Contains(Options(), name) {
			panic("patch " + name + " is registered twice")
		}
		text, err := fs.ReadFile(fsys, p)
		if shipped.patches == nil {
			shipped.patches = map[string][]byte{}
		}
		shipped.patches[name] = text
		return err
	})
	if err != nil {
		panic(err)
	}
}

// ShippedPatches returns the names of the registered patches, sorted.
func ShippedPatches() (names []string) {
	shipped.Lock()
	defer shipped.Unlock()
	for name := range shipped.patches {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// isRecipe tells whether spec asks for a kernel to be built. What exists under
// that very name is no recipe, whatever is in the name.
func isRecipe(spec string) bool {
	if _, err := os.Stat(spec); err == nil {
		return false
	}
	return strings.Contains(spec, "+") || strings.HasSuffix(spec, sourceSuffix)
}

// ParseRecipe reads a recipe:
//
//	debian:SERIES:source             Debian's linux-source of that series
//	debian:SERIES+PART...            with PARTs: options, shipped patches, files
//	TREE:source, TREE+PART...        the same of a source tree
//
// It reads the files of patches, and looks whether the tree is one. Errors are of
// ErrSpec and name the part that is wrong.
func ParseRecipe(spec string) (*Recipe, error) {
	r, rest, err := parseBase(spec)
	if err == nil && strings.HasSuffix(spec, "+") {
		err = errEmptyPart
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w: %w", spec, ErrSpec, err)
	}
	for rest != "" {
		if rest, err = r.addPart(rest); err != nil {
			return nil, fmt.Errorf("kernel %s: %w: %w", spec, ErrSpec, err)
		}
	}
	r.asked = spec
	slices.Sort(r.Options)
	r.Options = slices.Compact(r.Options)
	return r, nil
}

// parseBase takes the source off a recipe.
func parseBase(spec string) (r *Recipe, rest string, err error) {
	if after, ok := cutDebian(spec); ok {
		base, rest, _ := cutPlus(after)
		series, flavour, _ := strings.Cut(base, ":")
		if !seriesPattern.MatchString(series) {
			return nil, "", fmt.Errorf("%q is not a version such as 6.12", series)
		}
		if flavour != "" && flavour != "source" {
			return nil, "", fmt.Errorf("%q is ready-made and cannot be built upon: debian:%s+PART is built from source", base, series)
		}
		return &Recipe{Series: series}, rest, nil
	}
	// A path may have a + in it: the first part that is a directory is the tree.
	for at := 0; at <= len(spec); at++ {
		if at < len(spec) && spec[at] != '+' {
			continue
		}
		dir := strings.TrimSuffix(spec[:at], sourceSuffix)
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			continue
		}
		for _, name := range []string{"Makefile", "Kconfig", "Kbuild"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				return nil, "", fmt.Errorf("%s is no kernel source tree: it has no %s", dir, name)
			}
		}
		abs, err := filepath.Abs(dir)
		return &Recipe{Tree: abs}, strings.TrimPrefix(spec[at:], "+"), err
	}
	base, _, _ := cutPlus(spec)
	return nil, "", fmt.Errorf("%s is neither debian:VERSION nor a source tree", strings.TrimSuffix(base, sourceSuffix))
}

func cutPlus(s string) (before, after string, found bool) { return strings.Cut(s, "+") }

// addPart takes one part off rest: an option, a shipped patch, or the shortest
// path of a file, as that may have a + in it too.
func (r *Recipe) addPart(rest string) (string, error) {
	name, after, _ := cutPlus(rest)
	if slices.Contains(Options(), name) {
		r.Options = append(r.Options, name)
		return after, nil
	}
	shipped.Lock()
	text, ok := shipped.patches[name]
	shipped.Unlock()
	if ok {
		r.Patches = append(r.Patches, Patch{name, text, name})
		return after, nil
	}
	for at := len(name); at <= len(rest); at++ {
		if at < len(rest) && rest[at] != '+' {
			continue
		}
		st, err := os.Stat(rest[:at])
		if err != nil || st.IsDir() {
			continue
		}
		text, err := os.ReadFile(rest[:at])
		if err != nil {
			return "", err
		}
		abs, err := filepath.Abs(rest[:at])
		r.Patches = append(r.Patches, Patch{abs, text, rest[:at]})
		return strings.TrimPrefix(rest[at:], "+"), err
	}
	if name == "" {
		return "", errEmptyPart
	}
	known := strings.Join(slices.Concat(Options(), ShippedPatches()), ", ")
	return "", fmt.Errorf("%s is no file of a patch, and none of %s", name, known)
}

// String is the recipe as ParseRecipe reads it, with absolute paths.
func (r *Recipe) String() string {
	base := r.Tree
	if base == "" {
		base = "debian:" + r.Series
	}
	parts := r.parts()
	if len(parts) == 0 {
		return base + sourceSuffix
	}
	return strings.Join(append([]string{base}, parts...), "+")
}

// parts are the options, then the patches.
func (r *Recipe) parts() []string {
	parts := slices.Clone(r.Options)
	for _, p := range r.Patches {
		parts = append(parts, p.Name)
	}
	return parts
}

// config is the configuration that the recipe asks for.
func (r *Recipe) config() []byte {
	var b []byte
	for _, name := range append([]string{"base"}, r.Options...) {
		text, _ := configs.ReadFile("config/" + name + configSuffix) // embedded; the names were checked
		b = append(b, text...)
	}
	return b
}

// localVersion is what the kernel's release says of the recipe. A release has at
// most 64 bytes (__NEW_UTS_LEN), of which the version takes up to 20.
func (r *Recipe) localVersion() string {
	version := "-source"
	if parts := r.parts(); len(parts) > 0 {
		version = ""
		for _, p := range parts {
			version += "-" + strings.TrimSuffix(filepath.Base(p), filepath.Ext(p))
		}
	}
	version = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._", c) {
			return c
		}
		return '_'
	}, version)
	return version[:min(len(version), 44)]
}
