package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// manifest says what the files of a tree hold, by path from the tree.
type manifest map[string]fileInfo

// fileInfo is a file's content and what stat(2) said when it was read: as long as
// it says the same, the content is the same.
type fileInfo struct {
	// Sum is the SHA-256 of the file, or of where a symbolic link points.
	Sum [sha256.Size]byte
	// Mode is regular, executable or a symbolic link.
	Mode fs.FileMode
	// Stat is zero where the file had changed too recently to tell by it.
	Stat fileStat
}

type fileStat struct {
	Size, Mtime, Ctime int64 // bytes, nanoseconds
	Inode              uint64
}

// racy is how old a file must be for its times to tell a later change: two writes
// within one tick of the kernel's clock leave the same time.
const racy = time.Second

// same tells whether two files are alike for a build.
func (f fileInfo) same(g fileInfo) bool { return f.Sum == g.Sum && f.Mode == g.Mode }

func statOf(st fs.FileInfo) fileStat {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return fileStat{}
	}
	return fileStat{s.Size, s.Mtim.Nano(), s.Ctim.Nano(), s.Ino}
}

// kindOf reduces a mode to what a build sees of it.
func kindOf(mode fs.FileMode) fs.FileMode {
	switch {
	case mode.Type() == fs.ModeSymlink:
		return fs.ModeSymlink
	case mode&0o100 != 0:
		return 0o755
	}
	return 0o644
}

// readInfo reads one file.
func readInfo(path string, st fs.FileInfo) (fileInfo, error) {
	info := fileInfo{Mode: kindOf(st.Mode())}
	if time.Since(time.Unix(0, max(statOf(st).Mtime, statOf(st).Ctime))) > racy {
		info.Stat = statOf(st)
	}
	switch st.Mode().Type() {
	case fs.ModeSymlink:
		to, err := os.Readlink(path)
		info.Sum = sha256.Sum256([]byte(to))
		return info, err
	case 0:
		b, err := os.ReadFile(path)
		info.Sum = sha256.Sum256(b)
		return info, err
	}
	return info, fmt.Errorf("%s is neither a file nor a symbolic link", path)
}

// scan reads the named files below dir, except those that old knows already. A
// name without a file is left out.
func scan(ctx context.Context, dir string, names []string, old manifest) (manifest, error) {
	m := make(manifest, len(names))
	var mu sync.Mutex
	err := forEach(ctx, names, func(name string) error {
		path := filepath.Join(dir, name)
		st, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil // deleted from a tree that git knows it in
		}
		if err != nil {
			return err
		}
		if st.IsDir() {
			return nil // a repository in the tree, of which git knows no more
		}
		info, known := old[name]
		if !known || info.Stat == (fileStat{}) || info.Stat != statOf(st) {
			if info, err = readInfo(path, st); err != nil {
				return err
			}
		}
		mu.Lock()
		m[name] = info
		mu.Unlock()
		return nil
	})
	return m, err
}

// forEach calls f for every name, on every processor.
func forEach(ctx context.Context, names []string, f func(string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	const chunk = 64
	g.SetLimit(runtime.GOMAXPROCS(0))
	for some := range slices.Chunk(names, chunk) {
		g.Go(func() error {
			for _, name := range some {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				if err := f(name); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// id is a sum over all contents, in hexadecimal.
func (m manifest) id() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(h, "%s\x00%o %x\n", name, m[name].Mode, m[name].Sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// loadManifest returns what was saved; nothing if that cannot be read, as then
// all is read anew.
func loadManifest(path string) manifest {
	var m manifest
	b, err := os.ReadFile(path)
	if err != nil || gob.NewDecoder(bytes.NewReader(b)).Decode(&m) != nil {
		return nil
	}
	return m
}

func (m manifest) save(path string) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(m); err != nil {
		return err
	}
	return ReplaceFile(path, b.Bytes())
}
