package vm

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"seg6lab/lab/kernel"
)

// identity tells two versions of a program apart without running them: its
// path, size and time of modification.
func identity(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d", path, st.Size(), st.ModTime().UnixNano()), nil
}

// buildOf identifies the contents of a Go program: by the notes of its program
// headers, among them the linker's build ID, else by its SHA-256, which takes longer.
func buildOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if e, err := elf.NewFile(f); err == nil {
		for _, p := range e.Progs {
			if p.Type == elf.PT_NOTE && p.Filesz > 64 { // a Go build ID has 83 bytes
				if _, err := io.Copy(h, p.Open()); err != nil {
					return "", err
				}
				return hex.EncodeToString(h.Sum(nil)), nil
			}
		}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readStripped reads a program without what only debuggers read, which a
// linker puts behind the last loaded segment: a third of a Go program.
func readStripped(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil || f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.LittleEndian {
		return b, nil
	}
	end := uint64(0)
	for _, p := range f.Progs {
		end = max(end, p.Off+p.Filesz)
	}
	if end < 64 || end > uint64(len(b)) {
		return b, nil
	}
	b = b[:end]
	clear(b[0x28:0x30]) // e_shoff
	clear(b[0x3c:0x40]) // e_shnum, e_shstrndx
	return b, nil
}

// dup returns a second descriptor of f, for a child to inherit.
func dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// packModules writes modules as an archive, in their order.
func packModules(w io.Writer, mods *kernel.Modules, order []kernel.Module) error {
	tw := tar.NewWriter(w)
	for _, m := range order {
		b, err := mods.Read(m.Name)
		if err != nil {
			return err
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: m.Name, Mode: 0o600, Size: int64(len(b))}); err != nil {
			return err
		}
		if _, err := tw.Write(b); err != nil {
			return err
		}
	}
	return tw.Close()
}
