package vm

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"seg6lab/lab/kernel"
)

// Accel is what executes a guest's instructions.
type Accel string

const (
	KVM Accel = "KVM"
	TCG Accel = "TCG" // emulation
)

// kvmDeadline is how long a kernel may take to come up with KVM, where a boot
// takes a second. There are machines whose KVM runs a boot loader and then no kernel.
const kvmDeadline = 12 * time.Second

// KnownAccel says what guests will run with on this machine, and whether that
// is certain: a /dev/kvm proves nothing until a guest has come up with it, which
// the first boot finds out. What it found is kept in the cache until the machine
// boots anew or QEMU changes.
func KnownAccel() (accel Accel, certain bool, err error) {
	qemu, err := findQEMU()
	if err != nil {
		return "", false, err
	}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return TCG, true, nil
	}
	f.Close()
	id, file, err := accelMemory(qemu)
	if err != nil {
		return "", false, err
	}
	var known struct{ ID, Accel string }
	if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &known) == nil && known.ID == id {
		return Accel(known.Accel), true, nil
	}
	return KVM, false, nil
}

func accelMemory(qemu string) (id, file string, err error) {
	id, err = identity(qemu)
	if err != nil {
		return "", "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", err
	}
	cache, err := kernel.CacheDir()
	return id + " " + strings.TrimSpace(string(boot)), filepath.Join(cache, "accel.json"), err
}

func rememberAccel(qemu string, accel Accel) {
	id, file, err := accelMemory(qemu)
	if err != nil {
		return
	}
	if b, err := json.Marshal(map[string]string{"ID": id, "Accel": string(accel)}); err == nil {
		_ = kernel.ReplaceFile(file, b) // without a memory the next run tries again
	}
}

// withAccel starts a guest with what this machine is known to run guests with,
// and finds that out if it is not known.
func withAccel(ctx context.Context, cfg Config, qemu string, start func(context.Context, Config, Accel) (*Machine, error)) (*Machine, error) {
	if cfg.CountInstructions {
		return start(ctx, cfg, TCG)
	}
	accel, certain, err := KnownAccel()
	if err != nil {
		return nil, err
	}
	if certain {
		return start(ctx, cfg, accel)
	}
	try := cfg
	try.BootTimeout = min(kvmDeadline, cfg.BootTimeout)
	m, err := start(ctx, try, KVM)
	if err == nil {
		rememberAccel(qemu, KVM)
		m.cfg.BootTimeout = cfg.BootTimeout
		return m, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	m, err = start(ctx, cfg, TCG)
	if err == nil { // else it was not KVM's fault
		rememberAccel(qemu, TCG)
	}
	return m, err
}
