package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"seg6lab/lab/kernel/patch"
)

// A workspace is where the kernels of one series are built: a copy of the source
// that is moved from what was built last to what is wanted now, and for each set
// of options a directory of objects. Only files whose content differs are
// written, so make compiles only what depends on them; that holds between trees
// of the same series too. A workspace is used under its lock.
type workspace struct{ dir string }

func (w workspace) src() string      { return filepath.Join(w.dir, "src") }
func (w workspace) manifest() string { return filepath.Join(w.dir, "src.manifest") }

// objects is the directory of objects for a set of options.
func (w workspace) objects(options []string) string {
	name := "out"
	for _, o := range options {
		name += "-" + o
	}
	return filepath.Join(w.dir, name)
}

// move makes the source in the workspace that of s with the changed files laid
// over it, nil for one that shall not be there. What is there is
// believed only as far as the manifest of the last move vouches for it; the rest
// is read. So it does not matter where an earlier move ended.
func (w workspace) move(ctx context.Context, kernel string, s *source, changed map[string]*patch.File) error {
	if err := os.MkdirAll(w.src(), 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(w.src())
	if err != nil {
		return err
	}
	defer root.Close()
	want := maps.Clone(s.files)
	for name, to := range changed {
		if to == nil {
			delete(want, name)
			continue
		}
		mode := fs.FileMode(0o644)
		if to.Executable {
			mode = 0o755
		}
		want[name] = fileInfo{Sum: sha256.Sum256(to.Text), Mode: mode}
	}
	names, err := listAll(w.src(), nil)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := want[name]; !ok {
			if err := removeUpwards(root, name); err != nil {
				return err
			}
		}
	}
	have, err := scan(ctx, w.src(), slices.Collect(maps.Keys(want)), loadManifest(w.manifest()))
	if err != nil {
		return err
	}
	var missing []string
	for name, info := range want {
		if have[name].Mode == 0 || !have[name].same(info) {
			missing = append(missing, name)
		}
	}
	var n atomic.Int64
	err = forEach(ctx, missing, func(name string) error {
		if done := n.Add(1); done%1000 == 0 {
			tell(ctx, Progress{Kernel: kernel, Phase: "copy", Done: int(done), Total: len(missing)})
		}
		if to := changed[name]; to != nil {
			return replaceIn(root, name, to.Text, want[name].Mode)
		}
		return copyIn(root, s.dir, name, want[name])
	})
	if err != nil {
		return err
	}
	// What was written now is too young to be believed by its times alone, but
	// nobody else writes here.
	for _, name := range missing {
		st, err := root.Lstat(name)
		if err != nil {
			return err
		}
		have[name] = fileInfo{Sum: want[name].Sum, Mode: want[name].Mode, Stat: statOf(st)}
	}
	return have.save(w.manifest())
}

// copyIn copies one file of dir, which must still be what info says.
func copyIn(root *os.Root, dir, name string, info fileInfo) error {
	from := filepath.Join(dir, name)
	if info.Mode == fs.ModeSymlink {
		to, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := makeRoom(root, name); err != nil {
			return err
		}
		return root.Symlink(to, name)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if sha256.Sum256(text) != info.Sum {
		return changedError(name)
	}
	return replaceIn(root, name, text, info.Mode)
}

// changedError is about a file that the user wrote to in this very moment.
func changedError(name string) error {
	return fmt.Errorf("%s changed while it was read: build again", name)
}

// replaceIn puts a new file in the place of an old one, if there is one.
func replaceIn(root *os.Root, name string, text []byte, mode fs.FileMode) error {
	if err := makeRoom(root, name); err != nil {
		return err
	}
	return writeIn(root, name, bytes.NewReader(text), mode)
}

// makeRoom removes what is at name and creates the directory.
func makeRoom(root *os.Root, name string) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeUpwards removes a file and the directories that are empty without it, so
// that a file can take their place.
func removeUpwards(root *os.Root, name string) error {
	err := root.Remove(name)
	for err == nil {
		if name = path.Dir(name); name == "." {
			return nil
		}
		err = root.Remove(name)
	}
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
