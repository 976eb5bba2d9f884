package vm

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/therootcompany/xz"
)

// The ROMs by which QEMU starts a kernel, of which a restored guest needs the same.
const (
	romBzImage = "linuxboot_dma.bin"
	romPVH     = "pvh.bin"
)

// openImage opens a kernel image for QEMU and names the ROM that will start it.
// Under emulation a bzImage takes a second and more to decompress itself. So the
// ELF image in it is decompressed here, if it has the entry point that QEMU needs
// for one (PVH: Documentation/arch/x86/boot.rst does not speak of it, QEMU's
// docs/system/i386 and Xen's pvh.pandoc do).
func openImage(path string, accel Accel) (image *os.File, rom string, err error) {
	if accel == TCG {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		if !bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
			b = decompressed(b)
		}
		if hasPVHEntry(b) {
			image, err := memory("kernel", 0)
			if err != nil {
				return nil, "", err
			}
			if _, err := image.Write(b); err != nil {
				image.Close()
				return nil, "", err
			}
			return image, romPVH, nil
		}
	}
	image, err = os.Open(path)
	return image, romBzImage, err
}

// decompressors of a bzImage's payload, by what the payload begins with.
var decompressors = []struct {
	magic string
	open  func(io.Reader) (io.Reader, error)
}{
	{"\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) }},
	{"\x02\x21\x4c\x18", func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil }},
	{"\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) { return xz.NewReader(r, 0) }},
	{"BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
}

// decompressed is the ELF image in a bzImage, or nil where it cannot be had
// (setup header of protocol 2.08: Documentation/arch/x86/boot.rst).
func decompressed(b []byte) []byte {
	const setupSects, magic, payloadOffset, payloadLength, end = 0x1f1, 0x202, 0x248, 0x24c, 0x250
	if len(b) < end || string(b[magic:magic+4]) != "HdrS" {
		return nil
	}
	offset := (uint64(b[setupSects])+1)*512 + uint64(binary.LittleEndian.Uint32(b[payloadOffset:]))
	length := uint64(binary.LittleEndian.Uint32(b[payloadLength:]))
	if length < 8 || offset+length > uint64(len(b)) {
		return nil
	}
	payload := b[offset : offset+length]
	// The last four bytes are the size, in gzip's own format and behind the others.
	size := binary.LittleEndian.Uint32(payload[length-4:])
	if size > maxImage {
		return nil
	}
	for _, d := range decompressors {
		if !bytes.HasPrefix(payload, []byte(d.magic)) {
			continue
		}
		if d.magic != "\x1f\x8b" {
			payload = payload[:length-4]
		}
		r, err := d.open(bytes.NewReader(payload))
		if err != nil {
			return nil
		}
		image := make([]byte, size)
		if _, err := io.ReadFull(r, image); err != nil {
			return nil
		}
		return image
	}
	return nil
}

// maxImage bounds what a damaged bzImage can make of itself, in bytes.
const maxImage = 1 << 29

// hasPVHEntry tells whether an ELF image has the note XEN_ELFNOTE_PHYS32_ENTRY
// (xen/include/public/elfnote.h).
func hasPVHEntry(image []byte) bool {
	const phys32Entry = 18
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return false
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Off > uint64(len(image)) || p.Filesz > uint64(len(image))-p.Off {
			continue
		}
		pad := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
		for notes := image[p.Off : p.Off+p.Filesz]; len(notes) >= 12; {
			name, desc := binary.LittleEndian.Uint32(notes), binary.LittleEndian.Uint32(notes[4:])
			size := 12 + pad(name) + pad(desc)
			if size > uint64(len(notes)) {
				break
			}
			if binary.LittleEndian.Uint32(notes[8:]) == phys32Entry && string(notes[12:12+name]) == "Xen\x00" {
				return true
			}
			notes = notes[size:]
		}
	}
	return false
}
