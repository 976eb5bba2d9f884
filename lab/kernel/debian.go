package kernel

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// debian is a kernel of Debian's: an upstream series and a flavour.
type debian struct {
	series  string // 6.12
	flavour string // key of flavours
}

// flavours maps a flavour to the metapackages that may lead to it, in the
// order of trial: the one of the series (backported kernels have one), then
// the one of the release, which counts only if it leads to the series.
var flavours = map[string][]string{
	"cloud": {"linux-image-%s-cloud-amd64", "linux-image-cloud-amd64"},
	"full":  {"linux-image-%s-amd64", "linux-image-amd64"},
}

var seriesPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

func cutDebian(spec string) (string, bool) { return strings.CutPrefix(spec, "debian:") }

func parseDebian(rest string) (debian, error) {
	series, flavour, ok := strings.Cut(rest, ":")
	if !ok {
		flavour = "cloud"
	}
	if !seriesPattern.MatchString(series) {
		return debian{}, fmt.Errorf("kernel debian:%s: %w: %q is not a version such as 6.12", rest, ErrSpec, series)
	}
	if flavours[flavour] == nil {
		return debian{}, fmt.Errorf("kernel debian:%s: %w: flavour %q is neither cloud nor full", rest, ErrSpec, flavour)
	}
	return debian{series, flavour}, nil
}

// aptPackage is what apt's index says of one package.
type aptPackage struct {
	name, version, sha256 string
	depends               []string
}

// show asks apt's index for the candidate version of a package, by its exact name.
func show(ctx context.Context, name string) (*aptPackage, error) {
	out, err := command(ctx, "", "apt-cache", "show", "--no-all-versions", name).Output()
	if err != nil {
		return nil, fmt.Errorf("apt knows no package %s", name)
	}
	return parseShow(string(out)), nil
}

func parseShow(out string) *aptPackage {
	p := &aptPackage{}
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == "" {
			break // the first paragraph is the candidate
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Package":
			p.name = value
		case "Version":
			p.version = value
		case "SHA256":
			p.sha256 = value
		case "Depends":
			for d := range strings.SplitSeq(value, ",") {
				p.depends = append(p.depends, strings.Fields(d)[0])
			}
		}
	}
	return p
}

// find returns the package that holds the newest kernel of d.
func (d debian) find(ctx context.Context) (*aptPackage, error) {
	prefix := "linux-image-" + d.series + "."
	for _, pattern := range flavours[d.flavour] {
		meta := pattern
		if strings.Contains(pattern, "%s") {
			meta = fmt.Sprintf(pattern, d.series)
		}
		p, err := show(ctx, meta)
		if err != nil {
			continue
		}
		for _, dep := range p.depends {
			if strings.HasPrefix(dep, prefix) {
				return show(ctx, dep)
			}
		}
	}
	return nil, fmt.Errorf("%w: apt offers no %s kernel %s: run apt-get update, or name a kernel by its path", ErrUnavailable, d.flavour, d.series)
}

// fetch puts the newest kernel of d into the cache, unless it is there, and returns it.
func (d debian) fetch(ctx context.Context, spec string) (*Kernel, error) {
	k, err := d.tryFetch(ctx, spec)
	if errors.Is(err, unix.ENOSPC) {
		cache, _ := CacheDir()
		err = fmt.Errorf("%w: free some 300 MB there or point SEG6LAB_CACHE elsewhere (cache %s)", err, cache)
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", spec, err)
	}
	return k, nil
}

func (d debian) tryFetch(ctx context.Context, spec string) (*Kernel, error) {
	dir, unlock, err := fetching(ctx, "kernels", "kernels can be fetched on Debian only: name a kernel by its path")
	if err != nil {
		return nil, err
	}
	defer unlock()
	p, err := d.find(ctx)
	if err != nil {
		return nil, err
	}
	final := filepath.Join(dir, p.name+"_"+p.version)
	if e, err := readEntry(filepath.Join(final, "kernel.json")); err == nil {
		return &e.Kernel, nil
	}
	tmp, err := os.MkdirTemp(dir, ".fetch-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := download(ctx, p, tmp); err != nil {
		return nil, err
	}
	k := &Kernel{Spec: spec, Package: p.name, Version: p.version}
	if err := unpack(ctx, filepath.Join(tmp, "package.deb"), filepath.Join(tmp, "kernel")); err != nil {
		return nil, err
	}
	if k.Release, k.Hash, err = readImage(filepath.Join(tmp, "kernel", "vmlinuz")); err != nil {
		return nil, err
	}
	b, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "kernel", "kernel.json"), b, 0o644); err != nil {
		return nil, err
	}
	os.RemoveAll(final) // what readEntry could not read
	if err := os.Rename(filepath.Join(tmp, "kernel"), final); err != nil {
		return nil, err
	}
	e, err := readEntry(filepath.Join(final, "kernel.json"))
	if err != nil {
		return nil, err
	}
	return &e.Kernel, nil
}

// fetching locks a directory of the cache that Debian's packages are fetched into,
// and says what to do on a machine that cannot.
func fetching(ctx context.Context, name, otherwise string) (dir string, unlock func(), err error) {
	for _, tool := range []string{"apt-cache", "apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", nil, fmt.Errorf("%w: %s is missing, and Debian's %s", ErrUnavailable, tool, otherwise)
		}
	}
	cache, err := CacheDir()
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(cache, name)
	if unlock, err = Lock(ctx, filepath.Join(dir, ".lock")); err != nil {
		return "", nil, err
	}
	// Under the lock, whatever is unfinished was left by a process that died.
	stale, _ := filepath.Glob(filepath.Join(dir, ".fetch-*"))
	for _, s := range stale {
		os.RemoveAll(s)
	}
	return dir, unlock, nil
}

// download leaves the package as dir/package.deb, checked against apt's index.
func download(ctx context.Context, p *aptPackage, dir string) error {
	if out, err := command(ctx, dir, "apt-get", "download", p.name+"="+p.version).CombinedOutput(); err != nil {
		if full(dir) {
			err = unix.ENOSPC
		}
		return fmt.Errorf("apt-get download %s=%s: %w: %s", p.name, p.version, err, lastLine(out))
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get download %s=%s left %d files", p.name, p.version, len(debs))
	}
	f, err := os.Open(debs[0])
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != p.sha256 {
		return fmt.Errorf("package %s %s: SHA-256 is %s, apt's index says %s", p.name, p.version, got, p.sha256)
	}
	return os.Rename(debs[0], filepath.Join(dir, "package.deb"))
}

// full says whether less is free below dir than a kernel package takes.
func full(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) < 128<<20
}

// unwanted are the parts of Debian's full kernel that no network lab loads and
// that make most of its size.
var unwanted = []string{
	"drivers/gpu", "drivers/media", "drivers/staging", "drivers/iio", "drivers/scsi", "drivers/usb", "drivers/hid",
	"drivers/input", "drivers/infiniband", "drivers/hwmon", "drivers/platform", "drivers/mtd", "drivers/net/wireless",
	"drivers/net/usb", "drivers/bluetooth", "drivers/video", "sound", "net/bluetooth", "net/mac80211", "net/wireless",
}

// placeOf says where a file of the package is kept, or "" if it is not.
func placeOf(name string) string {
	name = path.Clean("/" + name)
	switch {
	case strings.HasPrefix(name, "/boot/vmlinuz-"):
		return "vmlinuz"
	case strings.HasPrefix(name, "/boot/config-"):
		return "config"
	}
	rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "/usr"), "/lib/modules/")
	if !ok {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "/")
	if rest == "modules.builtin" {
		return "modules/modules.builtin"
	}
	rest, ok = strings.CutPrefix(rest, "kernel/")
	if !ok {
		return ""
	}
	for _, u := range unwanted {
		if strings.HasPrefix(rest, u+"/") {
			return ""
		}
	}
	return "modules/kernel/" + rest
}

// unpack writes what a guest needs of the package into dir. dpkg-deb reads the
// package, since it is on every machine that has apt and knows every
// compression that Debian has used.
func unpack(ctx context.Context, deb, dir string) error {
	cmd := command(ctx, "", "dpkg-deb", "--fsys-tarfile", deb)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("dpkg-deb: %w", err)
	}
	err = untar(pipe, dir)
	if err != nil {
		cmd.Process.Kill()
	}
	if werr := cmd.Wait(); err == nil && werr != nil {
		err = fmt.Errorf("dpkg-deb --fsys-tarfile: %w", werr)
	}
	return err
}

func untar(r io.Reader, dir string) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			// dpkg-deb pads the archive: read on, or it dies of SIGPIPE.
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return fmt.Errorf("read package: %w", err)
		}
		place := placeOf(h.Name)
		if place == "" || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(filepath.Join(dir, place), tr); err != nil {
			return err
		}
	}
}

func writeFile(path string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// command is a child that dies with ctx and with seg6lab.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
