package kernel

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// source is the unpatched source of a kernel.
type source struct {
	// id stands for the content: the Debian package, or a sum over a tree.
	id string
	// dir is where the files are; they are only read.
	dir string
	// files are those of dir that belong to the source; nil until they were listed.
	files manifest
}

// sourceBytes is what an unpacked source takes, and a little more.
const sourceBytes = 2 << 30

// debianSource returns the newest linux-source of a series in the cache. It may
// have been removed up to its name, so that what was built of it is still found.
func debianSource(series string) *source {
	cache, err := CacheDir()
	if err != nil {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(cache, "sources", "linux-source-"+series+"_*", "source.json"))
	var newest *source
	var when int64
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil || st.ModTime().UnixNano() < when {
			continue
		}
		var s struct{ Package, Version string }
		if b, err := os.ReadFile(f); err != nil || json.Unmarshal(b, &s) != nil || s.Version == "" {
			continue
		}
		when = st.ModTime().UnixNano()
		newest = &source{id: s.Package + " " + s.Version, dir: filepath.Join(filepath.Dir(f), "tree")}
	}
	return newest
}

// unpacked tells whether the files of s are there.
func (s *source) unpacked() bool {
	_, err := os.Stat(s.dir)
	return err == nil
}

// fetchSource puts Debian's newest linux-source of a series into the cache,
// unless it is there.
func fetchSource(ctx context.Context, kernel, series string) (*source, error) {
	dir, unlock, err := fetching(ctx, "sources", "source can be fetched on Debian only: name a source tree, TREE:source")
	if err != nil {
		return nil, err
	}
	defer unlock()
	p, err := show(ctx, "linux-source-"+series)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: run apt-get update, or name a source tree, TREE:source", ErrUnavailable, err)
	}
	final := filepath.Join(dir, p.name+"_"+p.version)
	if s := debianSource(series); s != nil && s.dir == filepath.Join(final, "tree") && s.unpacked() {
		return s, nil
	}
	tmp, err := os.MkdirTemp(dir, ".fetch-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if freeBytes(tmp) < sourceBytes {
		return nil, unix.ENOSPC
	}
	tell(ctx, Progress{Kernel: kernel, Phase: "fetch", About: p.name + " " + p.version})
	if err := download(ctx, p, tmp); err != nil {
		return nil, err
	}
	if err := unpackSource(ctx, kernel, filepath.Join(tmp, "package.deb"), filepath.Join(tmp, "source", "tree")); err != nil {
		return nil, err
	}
	b, err := json.Marshal(map[string]string{"package": p.name, "version": p.version})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "source", "source.json"), b, 0o644); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(final); err != nil {
		return nil, err
	}
	if err := os.Rename(filepath.Join(tmp, "source"), final); err != nil {
		return nil, err
	}
	return debianSource(series), nil
}

// freeBytes is what a user may still write below dir.
func freeBytes(dir string) uint64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 1 << 62
	}
	return st.Bavail * uint64(st.Bsize)
}

// unpackSource writes the files of usr/src/linux-source-*.tar.xz in the package
// below dir. The xz of the machine is four times as fast as one in Go.
func unpackSource(ctx context.Context, kernel, deb, dir string) error {
	ctx, cancel := context.WithCancel(ctx) // ends both children
	defer cancel()
	dpkg := command(ctx, "", "dpkg-deb", "--fsys-tarfile", deb)
	fsys, err := dpkg.StdoutPipe()
	if err != nil {
		return err
	}
	if err := dpkg.Start(); err != nil {
		return fmt.Errorf("dpkg-deb: %w", err)
	}
	defer dpkg.Wait()
	defer cancel()
	outer := tar.NewReader(fsys)
	for {
		h, err := outer.Next()
		if err != nil {
			return fmt.Errorf("read package: no source in it: %w", err)
		}
		if strings.HasPrefix(path.Base(h.Name), "linux-source-") && strings.HasSuffix(h.Name, ".tar.xz") {
			break
		}
	}
	xz := command(ctx, "", "xz", "-dc")
	xz.Stdin = outer
	tarball, err := xz.StdoutPipe()
	if err != nil {
		return err
	}
	if err := xz.Start(); err != nil {
		return fmt.Errorf("xz: %w", err)
	}
	if err := untarSource(ctx, kernel, bufio.NewReaderSize(tarball, 1<<20), dir); err != nil {
		cancel()
		xz.Wait()
		return err
	}
	if err := xz.Wait(); err != nil {
		return fmt.Errorf("xz -dc: %w", err)
	}
	return nil
}

// untarSource leaves out the first part of every name, and stays below dir
// whatever the names are.
func untarSource(ctx context.Context, kernel string, r io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		if n%1000 == 0 {
			tell(ctx, Progress{Kernel: kernel, Phase: "unpack", Done: n})
		}
		_, name, _ := strings.Cut(path.Clean(h.Name), "/")
		if name == "" {
			continue
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = writeIn(root, name, tr, fs.FileMode(h.Mode))
		}
		if err != nil {
			return err
		}
	}
}

// writeIn writes a file that is not there, with its directory.
func writeIn(root *os.Root, name string, r io.Reader, mode fs.FileMode) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644|mode&0o111)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// madeInTree are what a build in the tree leaves there, and what a build outside
// of it refuses or must not read.
var madeInTree = []string{
	".git", ".config", ".config.old", ".version", "*.o", "*.ko", "*.a", "*.cmd", "*.mod", "*.mod.c", "*.order", "*.symvers",
	"*.orig", "*.rej", "vmlinux", "System.map", "bzImage",
}

// madeDirs are directories whose every file is made by a build.
var madeDirs = []string{"include/config", "include/generated", "arch/x86/include/generated"}

// made tells whether name, a file or directory, is none of the source.
func made(name string) bool {
	return slices.ContainsFunc(madeDirs, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }) ||
		slices.ContainsFunc(madeInTree, func(pattern string) bool {
			match, _ := path.Match(pattern, path.Base(name)) // the patterns are right
			return match
		})
}

// listTree returns the files of a tree that are source, by path from the tree. A
// tree that git knows has rules of its own in .gitignore, so git is asked.
func listTree(ctx context.Context, dir string) ([]string, error) {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
		return listAll(dir, made)
	}
	// The tree may belong to somebody else; no program that it names is started.
	cmd := command(ctx, dir, "git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false",
		"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(lastLine(exit.Stderr))
		}
		return nil, fmt.Errorf("list the files of %s: git ls-files: %w", dir, err)
	}
	names := strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 })
	return slices.DeleteFunc(names, made), nil
}

// listAll returns every file below dir but those that skip names.
func listAll(dir string, skip func(name string) bool) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case skip != nil && skip(name):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}
