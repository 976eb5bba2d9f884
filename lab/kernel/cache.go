package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CacheDir is where kernels and saved guests are kept: $SEG6LAB_CACHE, or
// seg6lab below the user's cache directory.
func CacheDir() (string, error) {
	if dir := os.Getenv("SEG6LAB_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache directory: %w: set SEG6LAB_CACHE", err)
	}
	return filepath.Join(dir, "seg6lab"), nil
}

// Entry is a kernel in the cache.
type Entry struct {
	Kernel
	// Bytes is what the kernel and its saved guests take on disk.
	Bytes int64 `json:"bytes"`
	// Fetched is when it was put there.
	Fetched time.Time `json:"fetched"`

	dir string
}

// List returns the kernels in the cache, the newest of each spec first.
func List() ([]Entry, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(cache, "kernels", "*", "kernel.json"))
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, f := range files {
		e, err := readEntry(f)
		if err != nil {
			continue // half a kernel is fetched again
		}
		e.Bytes = diskUse(e.dir) + diskUse(GuestDir(cache, &e.Kernel))
		entries = append(entries, *e)
	}
	sort.Slice(entries, func(i, j int) bool {
		if entries[i].Spec != entries[j].Spec {
			return entries[i].Spec < entries[j].Spec
		}
		return entries[i].Fetched.After(entries[j].Fetched)
	})
	return entries, nil
}

// GuestDir is the directory below cache that holds the saved guests of k.
func GuestDir(cache string, k *Kernel) string {
	return filepath.Join(cache, "guests", k.Hash[:16])
}

func readEntry(file string) (*Entry, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	e := &Entry{dir: filepath.Dir(file)}
	if err := json.Unmarshal(b, e); err != nil {
		return nil, err
	}
	if len(e.Hash) != 64 {
		return nil, fmt.Errorf("%s: no hash", file)
	}
	e.Image = filepath.Join(e.dir, "vmlinuz")
	e.Config = filepath.Join(e.dir, "config")
	e.Modules = firstDir(filepath.Join(e.dir, "modules"))
	st, err := os.Stat(e.Image)
	if err != nil {
		return nil, err
	}
	e.Fetched = st.ModTime()
	return e, nil
}

// cached returns the newest kernel in the cache that was fetched as spec, or nil.
func cached(spec string) *Kernel {
	entries, err := List()
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Spec == spec {
			return &e.Kernel
		}
	}
	return nil
}

// Get fetches the newest kernel that a Debian spec names, also when the cache
// holds an older one. A recipe is built from the newest source.
func Get(ctx context.Context, spec string) (*Kernel, error) {
	if isRecipe(spec) {
		return buildNewest(ctx, spec)
	}
	rest, ok := cutDebian(spec)
	if !ok {
		return nil, fmt.Errorf("kernel %s: %w: only debian:VERSION can be fetched; a path is used where it lies", spec, ErrSpec)
	}
	d, err := parseDebian(rest)
	if err != nil {
		return nil, err
	}
	return d.fetch(ctx, spec)
}

// Remove takes every kernel that was fetched or built as spec, or whose package
// is called so, out of the cache together with its saved guests.
func Remove(spec string) error {
	if isRecipe(spec) {
		if r, err := ParseRecipe(spec); err == nil { // else its files are gone
			spec = r.String()
		}
	}
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	entries, err := List()
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if e.Spec != spec && e.Package != spec {
			continue
		}
		found = true
		for _, dir := range []string{e.dir, GuestDir(cache, &e.Kernel)} {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("remove kernel %s: %w", spec, err)
			}
		}
	}
	if !found {
		return fmt.Errorf("kernel %s: %w in the cache %s", spec, ErrSpec, cache)
	}
	return nil
}

// RemoveGuests takes the saved guests of k out of the cache, not k itself.
func RemoveGuests(k *Kernel) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	return os.RemoveAll(GuestDir(cache, k))
}

// leftovers are what building leaves besides kernels, by the lock under which it
// may be removed. The name of a source is none, so that what was built of it is
// still found.
func leftovers() (map[string][]string, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, pattern := range []string{"sources/*/tree", "sources/manifests", "builds/*/*"} {
		paths, err := filepath.Glob(filepath.Join(cache, pattern))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			dir := filepath.Dir(p)
			if strings.HasPrefix(pattern, "sources") {
				dir = filepath.Join(cache, "sources")
			}
			lock := filepath.Join(dir, ".lock")
			found[lock] = append(found[lock], p)
		}
	}
	return found, nil
}

// Leftovers returns what sources and objects of builds take on disk, in bytes.
func Leftovers() (bytes int64, err error) {
	found, err := leftovers()
	for _, paths := range found {
		for _, p := range paths {
			bytes += diskUse(p)
		}
	}
	return bytes, err
}

// Clean removes sources and objects, not the kernels that were built. What is
// being used is waited for.
func Clean(ctx context.Context) error {
	found, err := leftovers()
	if err != nil {
		return err
	}
	for lock, paths := range found {
		unlock, err := Lock(ctx, lock)
		if err != nil {
			return err
		}
		for _, p := range paths {
			err = errors.Join(err, os.RemoveAll(p))
		}
		unlock()
		if err != nil {
			return fmt.Errorf("clean: %w", err)
		}
	}
	return nil
}

// diskUse is what the files below dir take on disk, in bytes.
func diskUse(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}

// Lock takes the lock file at path, which it creates, and returns what gives
// it back. The kernel gives it back too when the process dies.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := lockFile(ctx, path, func() {})
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// lockFile is Lock with the file itself: children that inherit it hold the lock
// too. It calls waits if another holds the lock.
func lockFile(ctx context.Context, path string, waits func()) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if waits != nil {
			waits()
			waits = nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %s, which another seg6lab holds: %w", path, context.Cause(ctx))
		case <-poll.C:
		}
	}
}

// ReplaceFile writes a file so that readers see the old or the new one, whole.
func ReplaceFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
