package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// bzImage makes an image with a setup header as Documentation/arch/x86/boot.rst
// has it: HdrS at 0x202 and at 0x20e the place of the version, less 0x200.
func bzImage(version string) []byte {
	b := make([]byte, 0x1000)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x20e:], 0x600)
	copy(b[0x800:], version+" (builder@host) #1 SMP\x00")
	return b
}

func TestImageRelease(t *testing.T) {
	damaged := bzImage("6.12.0")
	binary.LittleEndian.PutUint16(damaged[0x20e:], 0xffff)
	for _, tt := range []struct {
		name  string
		image []byte
		want  string
	}{
		{"bzImage", bzImage("6.12.117+deb12-cloud-amd64"), "6.12.117+deb12-cloud-amd64"},
		{"vmlinux", []byte("\x7fELF...Linux version 6.1.0-57 (debian) #1"), "6.1.0-57"},
		{"damaged header", damaged, ""},
		{"ELF of something else", []byte("\x7fELF nothing"), ""},
		{"text", []byte("hello"), ""},
		{"empty", nil, ""},
	} {
		got, err := imageRelease(tt.image)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
		if err != nil && !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v is not %v", tt.name, err, ErrSpec)
		}
	}
}

func TestResolvePathAndTree(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "bzImage")
	os.WriteFile(image, bzImage("6.13.0-rc1"), 0o644)
	os.MkdirAll(filepath.Join(dir, "lib/modules/6.13.0-rc1"), 0o755)
	k, err := Resolve(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	if k.Release != "6.13.0-rc1" || k.Image != image || k.Modules != filepath.Join(dir, "lib/modules/6.13.0-rc1") || len(k.Hash) != 64 {
		t.Errorf("%+v", k)
	}

	tree := t.TempDir()
	if _, err := Resolve(t.Context(), tree); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), "make bzImage") {
		t.Errorf("a tree that is not built: %v", err)
	}
	os.MkdirAll(filepath.Join(tree, "arch/x86/boot"), 0o755)
	os.WriteFile(filepath.Join(tree, "arch/x86/boot/bzImage"), bzImage("6.13.0-rc2"), 0o644)
	os.WriteFile(filepath.Join(tree, ".config"), nil, 0o644)
	k, err = Resolve(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	if k.Release != "6.13.0-rc2" || k.Modules != tree || k.Config != filepath.Join(tree, ".config") {
		t.Errorf("%+v", k)
	}
}

func TestSpecsThatNameNothing(t *testing.T) {
	for _, spec := range []string{"debian:", "debian:six", "debian:6", "debian:6.12:tiny", "debian:6.12;rm", "/no/such/image", ""} {
		if _, err := Resolve(t.Context(), spec); !errors.Is(err, ErrSpec) {
			t.Errorf("%q: %v, want %v", spec, err, ErrSpec)
		}
	}
}

func TestParseShow(t *testing.T) {
	p := parseShow(`Package: linux-image-6.12-cloud-amd64
Source: linux-signed-amd64 (6.12.117+1~deb12u1)
Version: 6.12.117-1~deb12u1
Depends: linux-image-6.12.117+deb12-cloud-amd64 (= 6.12.117-1~deb12u1), kmod
Description-en: Linux for x86-64 cloud (meta-package)
 SHA256: not this one
SHA256: 5195b288

Package: another
Version: 1
`)
	if p.name != "linux-image-6.12-cloud-amd64" || p.version != "6.12.117-1~deb12u1" {
		t.Errorf("%+v", p)
	}
	if len(p.depends) != 2 || p.depends[0] != "linux-image-6.12.117+deb12-cloud-amd64" || p.depends[1] != "kmod" {
		t.Errorf("depends %q", p.depends)
	}
	if p.sha256 != "5195b288" {
		t.Errorf("sha256 %q", p.sha256)
	}
}

func TestPlaceOf(t *testing.T) {
	for name, want := range map[string]string{
		"./boot/vmlinuz-6.12.117+deb12-cloud-amd64":                 "vmlinuz",
		"./boot/config-6.12.117+deb12-cloud-amd64":                  "config",
		"./boot/System.map-6.12.117":                                "",
		"./lib/modules/6.12.117/kernel/drivers/net/vrf.ko.xz":       "modules/kernel/drivers/net/vrf.ko.xz",
		"./usr/lib/modules/6.12.117/kernel/drivers/net/vrf.ko.xz":   "modules/kernel/drivers/net/vrf.ko.xz",
		"./lib/modules/6.12.117/kernel/drivers/gpu/drm/drm.ko.xz":   "",
		"./lib/modules/6.12.117/modules.builtin":                    "modules/modules.builtin",
		"./lib/modules/6.12.117/kernel/../../../../etc/cron.d/evil": "",
		"./usr/share/doc/linux-image/changelog.gz":                  "",
	} {
		if got := placeOf(name); got != want {
			t.Errorf("%s is kept as %q, want %q", name, got, want)
		}
	}
}

// elfModule makes an ELF file that has nothing but a .modinfo section.
func elfModule(info string) []byte {
	const header, section = 64, 64
	names := "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	le := binary.LittleEndian
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	put := func(v any) { binary.Write(&b, le, v) }
	put(uint16(1))  // relocatable
	put(uint16(62)) // x86-64
	put(uint32(1))
	put(uint64(0))
	put(uint64(0))
	put(uint64(header + len(info) + len(names))) // where the section headers are
	put(uint32(0))
	put([]uint16{header, 0, 0, section, 3, 2})
	b.WriteString(info + names)
	b.Write(make([]byte, section))
	for _, s := range []struct {
		name, kind uint32
		at, size   int
	}{{1, 1, header, len(info)}, {10, 3, header + len(info), len(names)}} {
		put([]uint32{s.name, s.kind})
		put([]uint64{0, 0, uint64(s.at), uint64(s.size)})
		put([]uint32{0, 0})
		put([]uint64{1, 0})
	}
	return b.Bytes()
}

func moduleTree(t *testing.T, modules map[string]string) *Modules {
	t.Helper()
	t.Setenv("SEG6LAB_CACHE", t.TempDir())
	dir := t.TempDir()
	for name, info := range modules {
		p := filepath.Join(dir, "kernel/net", name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, elfModule(info), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := OpenModules(&Kernel{Spec: "test", Modules: dir, Hash: strings.Repeat("0", 64)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModulesAfterWhatTheyDependOn(t *testing.T) {
	m := moduleTree(t, map[string]string{
		"bridge.ko":    "license=GPL\x00depends=stp,llc\x00alias=rtnl-link-bridge\x00",
		"stp.ko":       "depends=llc\x00",
		"llc.ko":       "depends=\x00",
		"sch-netem.ko": "depends=\x00softdep=pre: stp post: bridge\x00alias=net-sch-netem\x00",
		"loop.ko":      "depends=loop2\x00",
		"loop2.ko":     "depends=loop\x00",
		"a.ko.xz.bak":  "",
	})
	for name, want := range map[string]string{
		"bridge":           "llc stp bridge",
		"rtnl-link-bridge": "llc stp bridge",
		"sch_netem":        "llc stp sch_netem",
		"sch-netem":        "llc stp sch_netem",
		"net-sch-netem":    "llc stp sch_netem",
		"loop":             "loop2 loop",
	} {
		order, err := m.Order(name)
		var names []string
		for _, o := range order {
			names = append(names, o.Name)
		}
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := m.Order("a"); !errors.Is(err, ErrNoModule) {
		t.Errorf("a: %v, want %v", err, ErrNoModule)
	}
}

func TestFingerprintFollowsAModule(t *testing.T) {
	m := moduleTree(t, map[string]string{"vrf.ko": "depends=\x00"})
	before, err := m.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.paths["vrf"], elfModule("depends=\x00version=2\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	if after, err := m.Fingerprint(); err != nil || after == before {
		t.Errorf("a module that was built anew has the old fingerprint (%v)", err)
	}
}

func FuzzParseModule(f *testing.F) {
	f.Add(elfModule("depends=a,b\x00softdep=pre: c\x00alias=x*\x00"))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = parseModule(b) })
}

// pathWith makes PATH lead to nothing but the given scripts.
func pathWith(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("SEG6LAB_CACHE", t.TempDir())
}

// apt stands in for apt's tools: its index has one kernel, whose package is what
// download writes.
func apt(sha256, download string) map[string]string {
	return map[string]string{
		"apt-cache": `case "$4$3" in
*linux-image-9.9-cloud-amd64*) echo "Package: linux-image-9.9-cloud-amd64"; echo "Depends: linux-image-9.9.1-cloud-amd64 (= 9.9.1-1)";;
*linux-image-9.9.1-cloud-amd64*) echo "Package: linux-image-9.9.1-cloud-amd64"; echo "Version: 9.9.1-1"; echo "SHA256: ` + sha256 + `";;
*) exit 100;;
esac`,
		"apt-get":  download,
		"dpkg-deb": "exit 1",
	}
}

const abcSHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc", FIPS 180-4

func TestFetchFailures(t *testing.T) {
	for _, tt := range []struct {
		name    string
		scripts map[string]string
		spec    string
		want    error
		says    string
	}{
		{"not Debian", nil, "debian:9.9", ErrUnavailable, "by its path"},
		{"unknown series", apt(abcSHA256, "exit 1"), "debian:9.8", ErrUnavailable, "apt-get update"},
		{"no network", apt(abcSHA256, "echo 'E: Failed to fetch' >&2; exit 100"), "debian:9.9", nil, "E: Failed to fetch"},
		{"another package than the index has", apt(abcSHA256, "printf abd >k.deb"), "debian:9.9", nil, "apt's index says " + abcSHA256},
		{"a package that is none", apt(abcSHA256, "printf abc >k.deb"), "debian:9.9", nil, "dpkg-deb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pathWith(t, tt.scripts)
			_, err := Resolve(t.Context(), tt.spec)
			if err == nil || !strings.Contains(err.Error(), tt.says) || (tt.want != nil && !errors.Is(err, tt.want)) {
				t.Errorf("%v; want %q", err, tt.says)
			}
			cache, _ := CacheDir()
			left, _ := filepath.Glob(filepath.Join(cache, "kernels", ".fetch-*"))
			if len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// What a process that was killed left is cleared by the next, and what is in
// the cache needs neither apt nor network.
func TestCache(t *testing.T) {
	pathWith(t, apt(abcSHA256, "exit 1"))
	cache, _ := CacheDir()
	stale := filepath.Join(cache, "kernels/.fetch-1")
	half := filepath.Join(cache, "kernels/half")
	for _, dir := range []string{stale, half} {
		os.MkdirAll(dir, 0o755)
	}
	os.WriteFile(filepath.Join(half, "kernel.json"), []byte(`{"spec":"debian:9.9"`), 0o644)
	if _, err := Resolve(t.Context(), "debian:9.9"); err == nil {
		t.Error("half a kernel was taken")
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("what was left is still there")
	}

	whole := filepath.Join(cache, "kernels/whole")
	os.MkdirAll(whole, 0o755)
	os.WriteFile(filepath.Join(whole, "vmlinuz"), bzImage("9.9.1"), 0o644)
	os.WriteFile(filepath.Join(whole, "kernel.json"), []byte(`{"spec":"debian:9.9","package":"p","version":"1","release":"9.9.1","hash":"`+strings.Repeat("a", 64)+`"}`), 0o644)
	k, err := Resolve(t.Context(), "debian:9.9")
	if err != nil || k.Image != filepath.Join(whole, "vmlinuz") {
		t.Fatalf("%+v, %v", k, err)
	}
	entries, err := List()
	if err != nil || len(entries) != 1 || entries[0].Bytes < 4096 {
		t.Errorf("%+v, %v", entries, err)
	}
	if err := Remove("debian:9.8"); !errors.Is(err, ErrSpec) {
		t.Errorf("remove what is not there: %v", err)
	}
	if err := Remove("debian:9.9"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(whole); err == nil {
		t.Error("the kernel is still there")
	}
}

// Two fetches at once: one waits for the other, and both end the same way.
func TestTwoFetchesAtOnce(t *testing.T) {
	pathWith(t, apt(abcSHA256, `mkdir "$SEG6LAB_CACHE/busy" || { echo "two at once" >&2; exit 1; }
read -r _ <"$SEG6LAB_CACHE/gate"; rmdir "$SEG6LAB_CACHE/busy"; printf abc >k.deb`))
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/bin:/bin") // mkdir; the scripts still come first
	cache, _ := CacheDir()
	if err := syscall.Mkfifo(filepath.Join(cache, "gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Held open for both directions, so that no line is lost between two readers.
	gate, err := os.OpenFile(filepath.Join(cache, "gate"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	gate.WriteString("go\ngo\n")
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := Resolve(t.Context(), "debian:9.9")
			errs <- err
		}()
	}
	for range 2 {
		if err := <-errs; err == nil || strings.Contains(err.Error(), "two at once") || !strings.Contains(err.Error(), "dpkg-deb") {
			t.Errorf("%v; want dpkg-deb's refusal", err)
		}
	}
}

// A disk that fills in the middle leaves nothing and says what to do.
func TestFetchOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	pathWith(t, apt(abcSHA256, `/usr/bin/head -c 8M /dev/zero >k.deb`))
	dir, _ := CacheDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1M"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	_, err := Resolve(t.Context(), "debian:9.9")
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "SEG6LAB_CACHE") {
		t.Errorf("%v; want no space left and what to do", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "kernels", ".fetch-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
