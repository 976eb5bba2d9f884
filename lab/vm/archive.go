package vm

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// pack writes src, a file or a directory with all below it, as an archive
// whose names begin with name.
func pack(w io.Writer, src, name string) error {
	tw := tar.NewWriter(w)
	err := filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		return packOne(tw, p, path.Join(name, filepath.ToSlash(rel)))
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

func packOne(tw *tar.Writer, file, name string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	h.Name, h.Uname, h.Gname, h.Uid, h.Gid = name, "", "", 0, 0
	if err := tw.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	// A file that grows meanwhile is cut at the size that was announced.
	if _, err := io.CopyN(tw, f, h.Size); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// extract writes what the archive holds below dir and nowhere else.
func extract(r io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := extractOne(root, h, tr); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, h.Name), err)
		}
	}
}

func extractOne(root *os.Root, h *tar.Header, r io.Reader) error {
	name := path.Clean(h.Name)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		// Removed first: a program that runs cannot be written over.
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return err
	default:
		return nil // sockets and devices mean nothing elsewhere
	}
}

// push writes the archive that is the call's input below the call's path.
func (c *call) push() (reply, error) { return reply{}, extract(c.in, c.req.Path) }

// pull sends the call's path as an archive.
func (c *call) pull() (reply, error) { return reply{}, pack(c.stdout(), c.req.Path, ".") }
