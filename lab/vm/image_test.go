package vm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"
)

// note is an ELF note (gABI, chapter 5), padded to four bytes.
func note(name string, kind uint32, desc []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	for _, part := range [][]byte{[]byte(name), desc} {
		b = append(b, part...)
		b = append(b, make([]byte, -len(part)&3)...)
	}
	return b
}

// elfWith is an ELF file with one segment of notes.
func elfWith(notes []byte) []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	})
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 120, Filesz: uint64(len(notes))})
	b.Write(notes)
	return b.Bytes()
}

func TestPVHEntry(t *testing.T) {
	other := note("Linux\x00", 18, make([]byte, 4))
	entry := note("Xen\x00", 18, make([]byte, 8))
	for _, c := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"nothing", nil, false},
		{"no ELF file", []byte("MZ"), false},
		{"no notes", elfWith(nil), false},
		{"another's note 18", elfWith(other), false},
		{"another of Xen's", elfWith(note("Xen\x00", 17, make([]byte, 8))), false},
		{"the entry", elfWith(entry), true},
		{"the entry behind others", elfWith(append(append([]byte(nil), other...), entry...)), true},
		{"the entry cut off", elfWith(entry[:len(entry)-4]), false},
		{"a size that wraps", elfWith(append([]byte{0xff, 0xff, 0xff, 0xff}, entry[4:]...)), false},
	} {
		if got := hasPVHEntry(c.b); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestDamagedImage: what is no whole bzImage has no ELF image in it.
func TestDamagedImage(t *testing.T) {
	image := func(sects byte, offset, length uint32, payload string) []byte {
		b := make([]byte, 1024)
		b[0x1f1] = sects
		copy(b[0x202:], "HdrS")
		binary.LittleEndian.PutUint32(b[0x248:], offset)
		binary.LittleEndian.PutUint32(b[0x24c:], length)
		return append(b, payload...)
	}
	zstd := "\x28\xb5\x2f\xfd\x00\x00\x00\x00\x10\x00\x00\x00"
	for name, b := range map[string][]byte{
		"short":                nil,
		"without magic":        make([]byte, 1024),
		"no payload":           image(1, 0, 0, ""),
		"payload past the end": image(1, 0xffffffff, 0xffffffff, zstd),
		"broken payload":       image(1, 0, uint32(len(zstd)), zstd),
		"huge size":            image(1, 0, uint32(len(zstd)), zstd[:8]+"\xff\xff\xff\xff"),
		"unknown compression":  image(1, 0, 12, "\x00\x01\x02\x03\x04\x05\x06\x07\x10\x00\x00\x00"),
	} {
		if got := decompressed(b); got != nil {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
}

// TestOpenImage: emulated guests are given Debian's kernels decompressed.
func TestOpenImage(t *testing.T) {
	k := testKernel(t)
	for accel, want := range map[Accel]string{TCG: romPVH, KVM: romBzImage} {
		f, rom, err := openImage(k.Image, accel)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if rom != want {
			t.Errorf("%s: ROM %s, want %s", accel, rom, want)
		}
	}
	// What is no kernel is left to QEMU's judgement.
	path := t.TempDir() + "/image"
	if err := os.WriteFile(path, []byte("no kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, rom, err := openImage(path, TCG)
	if err != nil || rom != romBzImage {
		t.Fatal(rom, err)
	}
	f.Close()
}
