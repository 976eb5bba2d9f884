package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
