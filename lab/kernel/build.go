package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"seg6lab/lab/kernel/patch"
)

// Build builds the kernel of a recipe (ParseRecipe), unless the cache has it:
// what has the same source, configuration and patches is built once. It is told
// to WithProgress's function what is done, and what a patch needed. Errors are of
// ErrBuild where a patch does not apply or the source does not compile.
func Build(ctx context.Context, spec string) (*Kernel, error) {
	r, err := ParseRecipe(spec)
	if err != nil {
		return nil, err
	}
	k, err := r.build(ctx, nil)
	if err != nil {
		return nil, r.explain(err)
	}
	return k, nil
}

// buildNewest is Build with the newest source that apt offers.
func buildNewest(ctx context.Context, spec string) (*Kernel, error) {
	r, err := ParseRecipe(spec)
	if err != nil {
		return nil, err
	}
	var s *source
	if r.Series != "" {
		s, err = fetchSource(ctx, r.asked, r.Series)
	}
	var k *Kernel
	if err == nil {
		k, err = r.build(ctx, s)
	}
	if err != nil {
		return nil, r.explain(err)
	}
	return k, nil
}

// explain says which kernel an error is about, and what to do about a full disk.
func (r *Recipe) explain(err error) error {
	if errors.Is(err, unix.ENOSPC) {
		cache, _ := CacheDir()
		err = fmt.Errorf("%w: a source and its objects take some 5 GB: free them there, run seg6lab kernel clean, or point SEG6LAB_CACHE elsewhere (cache %s)", unix.ENOSPC, cache)
	}
	if errors.Is(err, ErrBuild) {
		return err // names the kernel itself
	}
	return fmt.Errorf("kernel %s: %w", r.asked, err)
}

// build builds from s, or from what the recipe names where that is nil.
func (r *Recipe) build(ctx context.Context, s *source) (*Kernel, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	patches, err := r.read()
	if err != nil {
		return nil, err
	}
	if s == nil {
		if s, err = r.source(ctx, cache); err != nil {
			return nil, err
		}
	}
	if k := r.built(cache, s); k != nil {
		return k, nil
	}
	if !s.unpacked() {
		if err := CanBuild(); err != nil {
			return nil, err // before 150 MB are fetched for nothing
		}
		if s, err = fetchSource(ctx, r.asked, r.Series); err != nil {
			return nil, err
		}
		if k := r.built(cache, s); k != nil {
			return k, nil
		}
	}
	// First of all, so that a patch that does not fit is told at once.
	changed, err := r.apply(ctx, s, patches)
	if err != nil {
		return nil, err
	}
	if err := CanBuild(); err != nil {
		return nil, err
	}
	series, err := seriesOf(s.dir)
	if err != nil {
		return nil, err
	}
	w := workspace{filepath.Join(cache, "builds", series)}
	lock, err := lockFile(ctx, filepath.Join(w.dir, ".lock"), func() {
		tell(ctx, Progress{Kernel: r.asked, Phase: "wait", About: "for another build of Linux " + series})
	})
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if k := r.built(cache, s); k != nil {
		return k, nil // by whom the lock was held
	}
	if s.files == nil {
		if err := s.scan(ctx, cache, r.asked); err != nil {
			return nil, err
		}
	}
	tell(ctx, Progress{Kernel: r.asked, Phase: "copy", About: s.id})
	if err := w.move(ctx, r.asked, s, changed); err != nil {
		return nil, err
	}
	b := &build{kernel: r.asked, key: r.key(s), localVersion: r.localVersion(), src: w.src(), out: w.objects(r.Options), lock: lock}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return nil, err
	}
	err = b.guarded(func() error {
		if err := b.configure(ctx, r.config()); err != nil {
			return err
		}
		return b.image(ctx)
	})
	if err != nil {
		return nil, err
	}
	return r.keep(cache, s, b)
}

// read reads the mails and diffs of all patches.
func (r *Recipe) read() (all []*patch.Patch, err error) {
	for _, p := range r.Patches {
		some, err := patch.Read(p.asked, p.Text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSpec, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// patchError is a patch that does not apply.
type patchError struct {
	kernel string
	error
}

func (e patchError) Error() string        { return "kernel " + e.kernel + ": " + e.error.Error() }
func (e patchError) Unwrap() error        { return e.error }
func (e patchError) Is(target error) bool { return target == ErrBuild || target == ErrSpec }

// apply applies the patches to s in memory and tells what they needed.
func (r *Recipe) apply(ctx context.Context, s *source, patches []*patch.Patch) (map[string]*patch.File, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files := patch.Files{Source: func(name string) (*patch.File, error) {
		info, known := s.files[name]
		if s.files != nil && !known {
			return nil, fs.ErrNotExist // a file, perhaps, but none of the source
		}
		st, err := root.Lstat(name)
		if err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is no regular file", name)
		}
		if err != nil {
			return nil, err
		}
		text, err := root.ReadFile(name)
		if err == nil && known && sha256.Sum256(text) != info.Sum {
			err = changedError(name)
		}
		return &patch.File{Text: text, Executable: kindOf(st.Mode()) == 0o755}, err
	}}
	for _, p := range patches {
		notes, err := files.Apply(p)
		if err != nil {
			return nil, patchError{r.asked, err}
		}
		for _, n := range notes {
			tell(ctx, Progress{Kernel: r.asked, Phase: "patch", About: n.String(), Note: true})
		}
	}
	return files.Changed, nil
}

// source finds what the recipe builds upon.
func (r *Recipe) source(ctx context.Context, cache string) (*source, error) {
	if r.Tree == "" {
		if s := debianSource(r.Series); s != nil {
			return s, nil
		}
		if err := CanBuild(); err != nil {
			return nil, err
		}
		return fetchSource(ctx, r.asked, r.Series)
	}
	s := &source{dir: r.Tree}
	if err := s.scan(ctx, cache, r.asked); err != nil {
		return nil, err
	}
	s.id = s.files.id()
	return s, nil
}

// scan lists the files of the source. What it learns is kept for the next time.
func (s *source) scan(ctx context.Context, cache, kernel string) error {
	tell(ctx, Progress{Kernel: kernel, Phase: "read", About: s.dir})
	sum := sha256.Sum256([]byte(s.dir))
	known := filepath.Join(cache, "sources", "manifests", hex.EncodeToString(sum[:8]))
	list := listTree
	if s.id != "" {
		list = func(_ context.Context, dir string) ([]string, error) { return listAll(dir, nil) }
	}
	names, err := list(ctx, s.dir)
	if err != nil {
		return err
	}
	if s.files, err = scan(ctx, s.dir, names, loadManifest(known)); err != nil {
		return err
	}
	return s.files.save(known)
}

var (
	versionLine    = regexp.MustCompile(`(?m)^VERSION = ([0-9]+)$`)
	patchlevelLine = regexp.MustCompile(`(?m)^PATCHLEVEL = ([0-9]+)$`)
)

// seriesOf reads the series, such as 6.12, out of a source's Makefile.
func seriesOf(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		return "", err
	}
	version, patchlevel := versionLine.FindSubmatch(b), patchlevelLine.FindSubmatch(b)
	if version == nil || patchlevel == nil {
		return "", fmt.Errorf("%w: %s/Makefile names no VERSION and PATCHLEVEL: no kernel source tree", ErrSpec, dir)
	}
	return fmt.Sprintf("%s.%s", version[1], patchlevel[1]), nil
}

// key is a sum over all that makes a kernel what it is, in hexadecimal.
func (r *Recipe) key(s *source) string {
	h := sha256.New()
	for _, part := range append([][]byte{[]byte(s.id), r.config()}, texts(r.Patches)...) {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func texts(patches []Patch) (texts [][]byte) {
	for _, p := range patches {
		texts = append(texts, p.Text)
	}
	return texts
}

// builtDir is where the kernel that a recipe makes of s is kept.
func (r *Recipe) builtDir(cache string, s *source) string {
	return filepath.Join(cache, "kernels", "built-"+r.key(s)[:16])
}

// built returns the kernel if it was built before, or nil.
func (r *Recipe) built(cache string, s *source) *Kernel {
	e, err := readEntry(filepath.Join(r.builtDir(cache, s), "kernel.json"))
	if err != nil {
		return nil
	}
	e.Spec = r.String() // the same may have been built by another name
	return &e.Kernel
}

// configure lays the configuration over allnoconfig, so that nothing is in the
// kernel but what was asked for, and tells which options the source has not taken.
func (b *build) configure(ctx context.Context, config []byte) error {
	tell(ctx, Progress{Kernel: b.kernel, Phase: "configure"})
	asked := filepath.Join(b.out, ".seg6lab-config")
	if err := os.WriteFile(asked, config, 0o644); err != nil {
		return err
	}
	if err := b.make(ctx, func(string) {}, "-s", "KCONFIG_ALLCONFIG="+asked, "allnoconfig"); err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(b.out, ".config"))
	if err != nil {
		return err
	}
	if lost := lostOptions(config, got); len(lost) > 0 {
		tell(ctx, Progress{Kernel: b.kernel, Phase: "configure", Note: true,
			About: "this source has not taken " + strings.Join(lost, ", ") + ": it has no such option, or lacks what that depends on"})
	}
	return nil
}

// lostOptions returns the options of asked that got has not, or has otherwise.
func lostOptions(asked, got []byte) (lost []string) {
	has := map[string]bool{}
	for line := range bytes.Lines(got) {
		has[string(bytes.TrimSpace(line))] = true
	}
	for line := range bytes.Lines(asked) {
		if l := string(bytes.TrimSpace(line)); strings.HasPrefix(l, "CONFIG_") && !has[l] {
			lost = append(lost, l)
		}
	}
	return slices.Compact(lost)
}

// keep puts what was built into the cache, whole or not at all.
func (r *Recipe) keep(cache string, s *source, b *build) (*Kernel, error) {
	final := r.builtDir(cache, s)
	tmp := filepath.Join(cache, "kernels", ".build-"+filepath.Base(filepath.Dir(b.src))) // under the workspace's lock
	if err := os.RemoveAll(tmp); err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	for from, to := range map[string]string{"arch/x86/boot/bzImage": "vmlinuz", ".config": "config"} {
		f, err := os.Open(filepath.Join(b.out, from))
		if err != nil {
			return nil, err
		}
		err = writeFile(filepath.Join(tmp, to), f)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	k := &Kernel{Spec: r.String(), Source: s.id}
	if r.Tree != "" {
		k.Source = r.Tree + " " + s.id[:12]
	}
	var err error
	if k.Release, k.Hash, err = readImage(filepath.Join(tmp, "vmlinuz")); err != nil {
		return nil, err
	}
	j, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "kernel.json"), j, 0o644); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(final); err != nil { // what readEntry could not read
		return nil, err
	}
	if err := os.Rename(tmp, final); err != nil {
		return nil, err
	}
	e, err := readEntry(filepath.Join(final, "kernel.json"))
	if err != nil {
		return nil, err
	}
	return &e.Kernel, nil
}
