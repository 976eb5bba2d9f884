package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"seg6lab/lab/kernel"
)

// saved is the place of a saved guest: a directory with the guest's memory (only
// the parts that are in use), QEMU's state of its devices, and a manifest that
// is written last and makes the rest valid.
type saved struct{ dir string }

// manifest describes a saved guest. Its checksums make a damaged one known.
type manifest struct {
	Release string   `json:"release"`
	Build   string   `json:"build"`
	ROM     string   `json:"rom"`
	Extents []extent `json:"extents"`
	Memory  uint32   `json:"memory"` // CRC-32C of the file memory
	Devices uint32   `json:"devices"`
	// BootTime is in nanoseconds.
	BootTime time.Duration `json:"boot_time"`
}

// extent is a part of the guest's memory in use, in bytes; the file memory holds them end to end.
type extent struct{ At, Len int64 }

// restoreDeadline is when a saved guest that has not answered, which takes a
// third of a second, is dropped.
const restoreDeadline = 20 * time.Second

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// guestSources are what the agent is made of: a saved guest holds the agent of
// its day, so a change to it makes saved guests void.
//
//go:embed agent.go archive.go exec.go guest.go identity.go inbox.go modprobe.go proto.go root.go initramfs.go
var guestSources embed.FS

// savedPlace is where a guest of this kind is kept. Everything that makes two
// guests differ is part of the name: kernel and modules, QEMU, the machine, the agent.
func savedPlace(cfg *Config, qemu string, accel Accel, mods *kernel.Modules) (*saved, error) {
	cache, err := kernel.CacheDir()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	id, err := identity(qemu)
	if err != nil {
		return nil, err
	}
	fingerprint, err := mods.Fingerprint()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(h, cfg.Kernel.Hash, fingerprint, id, accel, machineArgs(cfg, accel, ""), cfg.commandLine(), Prepared)
	if accel == KVM {
		// With -cpu host the guest has seen this very processor.
		b, _ := os.ReadFile("/proc/cpuinfo")
		first, _, _ := bytes.Cut(b, []byte("\n\n"))
		for line := range bytes.Lines(first) {
			if bytes.HasPrefix(line, []byte("model name")) || bytes.HasPrefix(line, []byte("flags")) {
				h.Write(line)
			}
		}
	}
	entries, err := guestSources.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		b, err := guestSources.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		h.Write(b)
	}
	return &saved{filepath.Join(kernel.GuestDir(cache, cfg.Kernel), hex.EncodeToString(h.Sum(nil))[:16])}, nil
}

func (s *saved) memoryFile() string   { return filepath.Join(s.dir, "memory") }
func (s *saved) devicesFile() string  { return filepath.Join(s.dir, "devices") }
func (s *saved) manifestFile() string { return filepath.Join(s.dir, "manifest.json") }

func (s *saved) drop() { _ = os.RemoveAll(s.dir) }

// save stops m, writes it down and lets it go on.
func (s *saved) save(ctx context.Context, m *Machine) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	q := m.hv.monitor
	if err := q.do(ctx, "stop", nil, nil); err != nil {
		return m.explain(err)
	}
	mf := manifest{Release: m.Release, Build: m.build, ROM: m.rom, BootTime: m.BootTime}
	var err error
	if mf.Devices, err = s.saveDevices(ctx, q); err == nil {
		if mf.Extents, mf.Memory, err = saveMemory(m.ram, s.memoryFile()); err == nil {
			var b []byte
			if b, err = json.Marshal(mf); err == nil {
				err = kernel.ReplaceFile(s.manifestFile(), b)
			}
		}
	}
	if cerr := q.cont(ctx); cerr != nil {
		return m.explain(cerr)
	}
	if err == nil {
		s.prune()
	}
	return err
}

// saveDevices has QEMU write the state of its devices, and returns its CRC-32C.
func (s *saved) saveDevices(ctx context.Context, q *qmp) (uint32, error) {
	f, err := os.Create(s.devicesFile())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := q.apartMemory(ctx); err != nil {
		return 0, err
	}
	if err := q.doWith(ctx, f, "getfd", map[string]any{"fdname": "devices"}, nil); err != nil {
		return 0, err
	}
	if err := q.do(ctx, "migrate", map[string]any{"uri": "fd:devices"}, nil); err != nil {
		return 0, err
	}
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		var st struct {
			Status string
			Error  string `json:"error-desc"`
		}
		if err := q.do(ctx, "query-migrate", nil, &st); err != nil {
			return 0, err
		}
		switch st.Status {
		case "completed":
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return 0, err
			}
			h := crc32.New(castagnoli)
			_, err := io.Copy(h, f)
			return h.Sum32(), err
		case "failed", "cancelled":
			return 0, fmt.Errorf("save the devices: %s %s", st.Status, st.Error)
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// saveMemory writes the parts of ram that are in use to path, end to end.
func saveMemory(ram *os.File, path string) ([]extent, uint32, error) {
	out, err := os.Create(path)
	if err != nil {
		return nil, 0, err
	}
	defer out.Close()
	h := crc32.New(castagnoli)
	w := io.MultiWriter(out, h)
	buf := make([]byte, 1<<20)
	var extents []extent
	for at := int64(0); ; {
		data, err := unix.Seek(int(ram.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return extents, h.Sum32(), out.Close()
		}
		if err != nil {
			return nil, 0, err
		}
		hole, err := unix.Seek(int(ram.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return nil, 0, err
		}
		if _, err := io.CopyBuffer(w, onlyReader{io.NewSectionReader(ram, data, hole-data)}, buf); err != nil {
			return nil, 0, fmt.Errorf("save the memory: %w", err)
		}
		extents = append(extents, extent{data, hole - data})
		at = hole
	}
}

// onlyReader hides WriteTo, with which io.CopyBuffer would not use its buffer.
type onlyReader struct{ io.Reader }

// loadMemory fills ram from path and returns the CRC-32C of what it read.
func loadMemory(ram *os.File, path string, extents []extent) (uint32, error) {
	in, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	h := crc32.New(castagnoli)
	buf := make([]byte, 1<<20)
	for _, e := range extents {
		for done := int64(0); done < e.Len; {
			b := buf[:min(int64(len(buf)), e.Len-done)]
			if _, err := io.ReadFull(in, b); err != nil {
				return 0, err
			}
			h.Write(b)
			if _, err := ram.WriteAt(b, e.At+done); err != nil {
				return 0, err
			}
			done += int64(len(b))
		}
	}
	return h.Sum32(), nil
}

// restore starts the saved guest. It returns nil if there is none that fits,
// and drops one that is damaged: the caller boots instead.
func (s *saved) restore(ctx context.Context, cfg Config, qemu string, accel Accel, mods *kernel.Modules) *Machine {
	b, err := os.ReadFile(s.manifestFile())
	if err != nil {
		return nil
	}
	var mf manifest
	if err := json.Unmarshal(b, &mf); err != nil {
		s.drop()
		return nil
	}
	m, err := s.load(ctx, cfg, qemu, accel, mods, &mf)
	if err != nil {
		if ctx.Err() == nil {
			s.drop()
		}
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(s.manifestFile(), now, now) // prune goes by the last use
	return m
}

func (s *saved) load(ctx context.Context, cfg Config, qemu string, accel Accel, mods *kernel.Modules, mf *manifest) (*Machine, error) {
	ram, err := memory("guest memory", int64(cfg.MemoryMB)<<20)
	if err != nil {
		return nil, err
	}
	ours, err := dup(ram)
	if err != nil {
		ram.Close()
		return nil, err
	}
	var fs files
	args := machineArgs(&cfg, accel, fs.add(ram))
	args = append(args, "-option-rom", mf.ROM, "-incoming", "defer")
	m, err := start(cfg, qemu, args, fs, accel, mods, ours)
	if err != nil {
		return nil, err
	}
	m.Restored, m.Release, m.build, m.BootTime = true, mf.Release, mf.Build, mf.BootTime
	wait, cancel := context.WithTimeoutCause(ctx, min(cfg.BootTimeout, restoreDeadline), errors.New("the saved guest did not come back"))
	defer cancel()
	err = s.resume(wait, m, mf)
	if err == nil {
		err = m.fresh(wait)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// resume fills the memory while QEMU starts, gives it the devices and lets the guest run.
func (s *saved) resume(ctx context.Context, m *Machine, mf *manifest) error {
	devices, err := os.Open(s.devicesFile())
	if err != nil {
		return err
	}
	defer devices.Close()
	h := crc32.New(castagnoli)
	if _, err := io.Copy(h, devices); err != nil {
		return err
	}
	if h.Sum32() != mf.Devices {
		return errors.New("the saved devices are damaged")
	}
	if _, err := devices.Seek(0, io.SeekStart); err != nil {
		return err
	}
	crc, err := loadMemory(m.ram, s.memoryFile(), mf.Extents)
	if err != nil {
		return err
	}
	if crc != mf.Memory {
		return errors.New("the saved memory is damaged")
	}
	q := m.hv.monitor
	if err := q.hello(ctx); err != nil {
		return err
	}
	if err := q.apartMemory(ctx); err != nil {
		return err
	}
	if err := q.doWith(ctx, devices, "getfd", map[string]any{"fdname": "devices"}, nil); err != nil {
		return err
	}
	if err := q.do(ctx, "migrate-incoming", map[string]any{"uri": "fd:devices"}, nil); err != nil {
		return err
	}
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		var st struct{ Status string }
		if err := q.do(ctx, "query-status", nil, &st); err != nil {
			return err
		}
		if st.Status != "inmigrate" {
			return q.cont(ctx)
		}
		select {
		case <-m.dead:
			return m.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// keepSaved is how many saved guests are kept of one kernel and of all: each takes some 60 to 100 MB of disk.
const keepSaved = 8

// prune removes the saved guests that were not used for longest.
func (s *saved) prune() {
	manifests, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(s.dir)), "*", "*", "manifest.json"))
	used := func(path string) int64 {
		st, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return -st.ModTime().UnixNano()
	}
	slices.SortFunc(manifests, func(a, b string) int { return int(min(max(used(a)-used(b), -1), 1)) })
	for _, old := range manifests[min(keepSaved, len(manifests)):] {
		_ = os.RemoveAll(filepath.Dir(old))
		_ = os.Remove(filepath.Dir(old) + ".lock")
		_ = os.Remove(filepath.Dir(filepath.Dir(old))) // if it is the last of its kernel
	}
}
