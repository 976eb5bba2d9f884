// Package kernel finds the kernels that guests boot: Debian's by version, an
// image by path, a built tree, or a recipe of source, options and patches that it
// builds. It fetches, checks, builds and keeps files; it boots nothing and changes
// nothing outside its cache directory.
package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrSpec marks an error of the one who named the kernel: a word that is no
// kernel, a path that holds none. Errors without it are of this machine.
var ErrSpec = errors.New("no such kernel")

// ErrUnavailable marks a kernel that this machine cannot get: it is not Debian,
// or its apt offers none.
var ErrUnavailable = errors.New("not to be had on this machine")

// Kernel is a bootable kernel image and what belongs to it.
type Kernel struct {
	// Spec is what was asked for, such as debian:6.12 or a path.
	Spec string `json:"spec"`
	// Package and Version name the Debian package; both are empty for a path or a tree.
	Package string `json:"package,omitempty"`
	Version string `json:"version,omitempty"`
	// Source is what the kernel was built from here: a package and its version, or
	// a tree and the beginning of a sum over it. It is empty for any other kernel.
	Source string `json:"source,omitempty"`
	// Release is what uname -r will say in the guest.
	Release string `json:"release"`
	// Image is the path of the bzImage or of the ELF vmlinux.
	Image string `json:"image"`
	// Modules is the directory below which the modules lie; empty if there are none.
	Modules string `json:"modules,omitempty"`
	// Config is the path of the configuration that the kernel was built with; empty if unknown.
	Config string `json:"config,omitempty"`
	// Hash is the SHA-256 of Image in hexadecimal.
	Hash string `json:"hash"`
}

// String names the kernel for people.
func (k *Kernel) String() string {
	if k.Package != "" {
		return fmt.Sprintf("%s (%s %s)", k.Spec, k.Package, k.Version)
	}
	return fmt.Sprintf("%s (%s)", k.Spec, k.Release)
}

// Resolve finds the kernel that spec names:
//
//	debian:6.12        Debian's 6.12 for clouds: small, boots fastest, has VRF and virtiofs
//	debian:6.12:full   Debian's 6.12 with every driver, 9p among them
//	PATH               a bzImage or vmlinux; modules in ./modules, ./lib/modules/RELEASE or /lib/modules/RELEASE
//	TREE               a built kernel source tree
//	debian:6.12:source, debian:6.12+PART..., TREE:source, TREE+PART...
//	                   a recipe: built from source, see ParseRecipe
//
// A Debian kernel is fetched and a recipe is built when the cache lacks it; once
// there, no network, no apt and no compiler is needed.
func Resolve(ctx context.Context, spec string) (*Kernel, error) {
	if isRecipe(spec) {
		return Build(ctx, spec)
	}
	if rest, ok := strings.CutPrefix(spec, "debian:"); ok {
		d, err := parseDebian(rest)
		if err != nil {
			return nil, err
		}
		if k := cached(spec); k != nil {
			return k, nil
		}
		return d.fetch(ctx, spec)
	}
	st, err := os.Stat(spec)
	switch {
	case err != nil:
		return nil, fmt.Errorf("kernel %s: %w: neither debian:VERSION nor a file or directory", spec, ErrSpec)
	case st.IsDir():
		return fromTree(spec)
	default:
		return fromImage(spec)
	}
}

func fromImage(path string) (*Kernel, error) {
	release, hash, err := readImage(path)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", path, err)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	return &Kernel{
		Spec: path, Release: release, Image: path, Hash: hash,
		Modules: firstDir(filepath.Join(dir, "modules"), filepath.Join(dir, "lib/modules", release), filepath.Join("/lib/modules", release)),
		Config:  firstFile(filepath.Join(dir, "config-"+release), filepath.Join(dir, "config"), filepath.Join(dir, ".config")),
	}, nil
}

func fromTree(dir string) (*Kernel, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", dir, err)
	}
	image := filepath.Join(dir, "arch/x86/boot/bzImage")
	if _, err := os.Stat(image); err != nil {
		return nil, fmt.Errorf("kernel %s: %w: the tree is not built: name it %s:source to have it built elsewhere, or run make bzImage modules there: %w", dir, ErrSpec, dir, err)
	}
	release, hash, err := readImage(image)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", dir, err)
	}
	return &Kernel{Spec: dir, Release: release, Image: image, Modules: dir, Config: firstFile(filepath.Join(dir, ".config")), Hash: hash}, nil
}

// readImage returns the release that the image says it is and its SHA-256.
func readImage(path string) (release, hash string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(b)
	release, err = imageRelease(b)
	return release, hex.EncodeToString(sum[:]), err
}

// imageRelease reads the release out of a bzImage (setup header, kernel_version
// at 0x20e: Documentation/arch/x86/boot.rst) or out of the banner of a vmlinux.
func imageRelease(b []byte) (string, error) {
	const magic, version = 0x202, 0x20e
	var s []byte
	switch {
	case len(b) > version+2 && string(b[magic:magic+4]) == "HdrS":
		at := int(binary.LittleEndian.Uint16(b[version:])) + 0x200
		if at >= len(b) {
			return "", fmt.Errorf("%w: the header of the bzImage is damaged", ErrSpec)
		}
		s = b[at:]
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		_, rest, ok := bytes.Cut(b, []byte("Linux version "))
		if !ok {
			return "", fmt.Errorf("%w: an ELF file without a Linux banner", ErrSpec)
		}
		s = rest
	default:
		return "", fmt.Errorf("%w: neither a bzImage nor an ELF vmlinux", ErrSpec)
	}
	s = s[:min(len(s), 256)]
	if end := bytes.IndexAny(s, " \x00\n"); end > 0 {
		return string(s[:end]), nil
	}
	return "", fmt.Errorf("%w: the image does not name its release", ErrSpec)
}

func firstDir(paths ...string) string {
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.IsDir() {
			return p
		}
	}
	return ""
}

func firstFile(paths ...string) string {
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p
		}
	}
	return ""
}
