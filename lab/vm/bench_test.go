package vm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"

	"seg6lab/lab/kernel"
)

// powerOffProgram is a static ELF program that powers the machine off by
// reboot(2) and does nothing else: the least that a kernel can boot to.
func powerOffProgram() []byte {
	const base, header, program = 0x400000, 64, 56
	code := []byte{0xb8} // mov eax, __NR_reboot
	code = binary.LittleEndian.AppendUint32(code, 169)
	code = binary.LittleEndian.AppendUint32(append(code, 0xbf), 0xfee1dead) // mov edi, LINUX_REBOOT_MAGIC1
	code = binary.LittleEndian.AppendUint32(append(code, 0xbe), 672274793)  // mov esi, LINUX_REBOOT_MAGIC2
	code = binary.LittleEndian.AppendUint32(append(code, 0xba), 0x01234567) // mov edx, LINUX_REBOOT_CMD_RESTART
	code = append(code, 0x0f, 0x05, 0xeb, 0xfe)                             // syscall; jmp $
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	put := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	put([]uint16{2, 62})
	put(uint32(1))
	put([]uint64{base + header + program, header, 0})
	put(uint32(0))
	put([]uint16{header, program, 1, 0, 0, 0})
	put([]uint32{1, 5})
	put([]uint64{0, base, base, uint64(header + program + len(code)), uint64(header + program + len(code)), 0x1000})
	b.Write(code)
	return b.Bytes()
}

func benchKernel(b *testing.B) *kernel.Kernel {
	b.Helper()
	k, err := kernel.Resolve(b.Context(), "debian:6.12")
	if err != nil {
		b.Fatal(err)
	}
	return k
}

// BenchmarkBareBoot is the yardstick: QEMU and the kernel, to a static init
// that ends the machine (it restarts, which -no-reboot turns into an end).
func BenchmarkBareBoot(b *testing.B) {
	k := benchKernel(b)
	qemu, err := findQEMU()
	if err != nil {
		b.Fatal(err)
	}
	accel, _, err := KnownAccel()
	if err != nil {
		b.Fatal(err)
	}
	cfg := Config{Kernel: k}.withDefaults()
	for b.Loop() {
		initramfs, err := memory("initramfs", 0)
		if err != nil {
			b.Fatal(err)
		}
		w := cpio.Newc.Writer(initramfs)
		cpio.WriteRecords(w, []cpio.Record{cpio.StaticFile("init", string(powerOffProgram()), 0o755)})
		cpio.WriteTrailer(w)
		ram, err := memory("ram", int64(cfg.MemoryMB)<<20)
		if err != nil {
			b.Fatal(err)
		}
		image, err := os.Open(k.Image)
		if err != nil {
			b.Fatal(err)
		}
		fs := files{image, initramfs}
		args := append(machineArgs(&cfg, accel, fs.add(ram)),
			"-kernel", "/proc/self/fd/3", "-initrd", "/proc/self/fd/4", "-append", cfg.commandLine())
		h, err := startQEMU(qemu, args, fs)
		if err != nil {
			b.Fatal(err)
		}
		if err := h.monitor.hello(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := h.monitor.cont(b.Context()); err != nil {
			b.Fatal(err)
		}
		<-h.exited
		if h.status != "exit status 0" {
			b.Fatal(h.failure())
		}
		h.monitor.conn.Close()
		h.agent.Close()
		h.console.Close()
	}
}

// BenchmarkFirst is from Boot to the exit code of a first command, with nothing saved.
func BenchmarkFirst(b *testing.B) {
	cache, err := kernel.CacheDir()
	if err != nil {
		b.Fatal(err)
	}
	k := benchKernel(b)
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		os.Symlink(cache+"/accel.json", dir+"/accel.json")
		b.Setenv("SEG6LAB_CACHE", dir)
		b.StartTimer()
		benchRun(b, Config{Kernel: k}, false)
	}
}

// BenchmarkLater is the same with a saved guest.
func BenchmarkLater(b *testing.B) {
	for _, files := range []bool{false, true} {
		b.Run(fmt.Sprintf("hostFiles=%v", files), func(b *testing.B) {
			cfg := Config{Kernel: benchKernel(b), HostFiles: files}
			benchRun(b, cfg, false)
			for b.Loop() {
				benchRun(b, cfg, true)
			}
		})
	}
}

func benchRun(b *testing.B, cfg Config, restored bool) {
	b.Helper()
	m, err := Boot(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	if restored && !m.Restored {
		b.Error("not restored")
	}
	self, err := m.PushSelf(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	exit, err := m.Run(context.Background(), Cmd{Args: []string{self}, Env: []string{roleVariable + "=echo"}})
	if err != nil || exit != 7 {
		b.Fatal(exit, err)
	}
}
