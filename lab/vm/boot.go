package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"seg6lab/lab/kernel"
)

// Config says what guest to boot. The zero value of a field means its default.
type Config struct {
	Kernel   *kernel.Kernel // needed
	MemoryMB int            // memory of the guest in MiB; 384
	CPUs     int            // 1
	// Append is added to the kernel's command line.
	Append string
	// NICs of emulated hardware, which the guest finds in this order.
	NICs []NIC
	// HostFiles shows the host's files in the guest, read-only, with a scratch
	// layer for writes, as the root of what it runs.
	HostFiles bool
	// CountInstructions makes guest time advance by one nanosecond an
	// instruction executed (QEMU -icount shift=0): costs can be compared, and the
	// guest runs two to three times slower. Such a guest is never a saved one.
	CountInstructions bool
	// CPU is the model of a guest that counts instructions, by QEMU's name;
	// Haswell-v4 when empty. What instructions there are decides how many the
	// kernel's copying and clearing takes.
	CPU string
	// NoSaved boots the kernel even if a saved guest is there, and saves none.
	NoSaved bool
	// BootTimeout is when a guest that has not answered is given up; 90 s, and
	// three times that for one that counts instructions.
	BootTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.MemoryMB == 0 {
		c.MemoryMB = 384
	}
	if c.CPUs == 0 {
		c.CPUs = 1
	}
	if c.BootTimeout == 0 {
		c.BootTimeout = 90 * time.Second
		if c.CountInstructions {
			c.BootTimeout *= 3
		}
	}
	if c.CPU == "" {
		c.CPU = DefaultCPU
	}
	c.NoSaved = c.NoSaved || c.CountInstructions
	return c
}

// commandLine is the guest kernel's. Warnings reach the console (loglevel 5), for they fail the run.
// The tests of ciphers and of the CPU's jitter, a tenth of a boot under emulation, are left out.
func (c *Config) commandLine() string {
	line := "console=ttyS0 loglevel=5 panic=-1 mitigations=off no_timer_check tsc=reliable random.trust_cpu=on " +
		"cryptomgr.notests initcall_blacklist=jent_mod_init " +
		guestVariable + "=1"
	if c.Append != "" {
		line += " " + c.Append
	}
	return line
}

// Boot starts a guest and returns once its agent answers. A saved guest of the
// same kind is restored if there is one; else the kernel is booted and the guest
// saved for the next time.
func Boot(ctx context.Context, cfg Config) (*Machine, error) {
	cfg = cfg.withDefaults()
	m, err := boot(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("guest with kernel %s: %w", cfg.Kernel, err)
	}
	return m, nil
}

func boot(ctx context.Context, cfg Config) (*Machine, error) {
	start := time.Now()
	qemu, err := findQEMU()
	if err != nil {
		return nil, err
	}
	mods, err := kernel.OpenModules(cfg.Kernel)
	if err != nil {
		return nil, err
	}
	if cfg.CountInstructions {
		if err := CheckCPU(ctx, cfg.CPU); err != nil {
			return nil, err
		}
	}
	if err := checkNICs(ctx, qemu, cfg.Kernel, mods, cfg.NICs); err != nil {
		return nil, err
	}
	m, err := withAccel(ctx, cfg, qemu, func(ctx context.Context, cfg Config, accel Accel) (*Machine, error) {
		return restoreOrBoot(ctx, cfg, qemu, accel, mods)
	})
	if err != nil {
		return nil, err
	}
	if cfg.HostFiles {
		if err := m.shareHost(ctx); err != nil {
			m.Close()
			return nil, err
		}
	}
	m.ReadyAfter = time.Since(start)
	return m, nil
}

func restoreOrBoot(ctx context.Context, cfg Config, qemu string, accel Accel, mods *kernel.Modules) (*Machine, error) {
	if cfg.NoSaved {
		return bootKernel(ctx, cfg, qemu, accel, mods)
	}
	saved, err := savedPlace(&cfg, qemu, accel, mods)
	if err != nil {
		return nil, err
	}
	if m := saved.restore(ctx, cfg, qemu, accel, mods); m != nil {
		return m, nil
	}
	// One boots and saves; whoever comes meanwhile waits and restores.
	unlock, err := kernel.Lock(ctx, saved.dir+".lock")
	if err != nil {
		// A cache that cannot be written costs time, not the run.
		if ctx.Err() != nil {
			return nil, err
		}
		return bootKernel(ctx, cfg, qemu, accel, mods)
	}
	defer unlock()
	if m := saved.restore(ctx, cfg, qemu, accel, mods); m != nil {
		return m, nil
	}
	saved.drop()
	m, err := bootKernel(ctx, cfg, qemu, accel, mods)
	if err != nil {
		return nil, err
	}
	err = m.prepare(ctx)
	if err == nil {
		err = saved.save(ctx, m)
	}
	if err != nil {
		if m.Err() != nil || ctx.Err() != nil {
			m.Close()
			return nil, err
		}
		saved.drop() // the disk is full, say: this run goes on
	}
	return m, nil
}

// Prepared are the arguments of a command of this very program that is started
// before a guest is saved and reads its input first: a restored guest has its
// start behind it when Run asks for just that, by the path of PushSelf, in the
// default environment and directory. Set it before the first Boot.
var Prepared []string

func (m *Machine) prepare(ctx context.Context) error {
	if len(Prepared) == 0 {
		return nil
	}
	_, err := m.call(ctx, request{Op: "prepare", Exec: &execRequest{
		Args: append([]string{agentPath}, Prepared...), Env: defaultEnv, Dir: "/",
	}}, nil, nil, nil)
	return err
}

// bootKernel boots cfg's kernel and waits for its agent.
func bootKernel(ctx context.Context, cfg Config, qemu string, accel Accel, mods *kernel.Modules) (*Machine, error) {
	agent, err := os.Executable()
	if err != nil {
		return nil, err
	}
	initramfs, err := initramfsFile(agent, mods)
	if err != nil {
		return nil, err
	}
	ram, err := memory("guest memory", int64(cfg.MemoryMB)<<20)
	if err != nil {
		initramfs.Close()
		return nil, err
	}
	image, rom, err := openImage(cfg.Kernel.Image, accel)
	if err != nil {
		initramfs.Close()
		ram.Close()
		return nil, err
	}
	begin := time.Now()
	theirs, err := dup(ram)
	if err != nil {
		initramfs.Close()
		ram.Close()
		image.Close()
		return nil, err
	}
	fs := files{image, initramfs}
	args := machineArgs(&cfg, accel, fs.add(theirs))
	args = append(args, "-kernel", "/proc/self/fd/3", "-initrd", "/proc/self/fd/4", "-append", cfg.commandLine())
	m, err := start(cfg, qemu, args, fs, accel, mods, ram)
	if err != nil {
		return nil, err
	}
	m.rom = rom
	wait, cancel := context.WithTimeoutCause(ctx, cfg.BootTimeout, fmt.Errorf("the guest did not come up within %v", cfg.BootTimeout))
	defer cancel()
	err = m.hv.monitor.hello(wait)
	if err == nil {
		err = m.hv.monitor.cont(wait)
	}
	if err != nil {
		if wait.Err() != nil {
			err = m.withConsole(err)
		} else {
			err = m.explain(err)
		}
		m.Close()
		return nil, err
	}
	if err := m.await(wait, begin); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// await waits for the agent and gives it the core modules, which are
// decompressed while the kernel boots, and the time.
func (m *Machine) await(ctx context.Context, begin time.Time) error {
	type result struct {
		archive []byte
		err     error
	}
	core := make(chan result, 1)
	go func() {
		b, err := coreArchive(m.modules)
		core <- result{b, err}
	}()
	select {
	case h := <-m.ready:
		m.Release, m.build, m.BootTime = h.Release, h.Build, time.Since(begin)
	case <-m.dead:
		return m.Err()
	case <-ctx.Done():
		return m.withConsole(context.Cause(ctx))
	}
	r := <-core
	if r.err != nil {
		return r.err
	}
	if _, err := m.call(ctx, request{Op: "modules"}, bytes.NewReader(r.archive), nil, nil); err != nil {
		return err
	}
	if err := m.loadDrivers(ctx); err != nil {
		return err
	}
	return m.fresh(ctx)
}

// start runs QEMU, stopped before the guest's first instruction.
func start(cfg Config, qemu string, args []string, fs files, accel Accel, mods *kernel.Modules, ram *os.File) (*Machine, error) {
	if cfg.HostFiles {
		args = append(args, nineArgs...)
	}
	hv, err := startQEMU(qemu, args, fs)
	if err != nil {
		ram.Close()
		return nil, err
	}
	m := &Machine{
		Accel: accel, cfg: cfg, hv: hv, modules: mods, ram: ram,
		out: &frameWriter{w: hv.agent}, ready: make(chan hello, 1), calls: map[uint32]*hostCall{}, dead: make(chan struct{}),
	}
	m.console.found = func(r *Report) { m.fail(r) }
	followed := make(chan struct{})
	go func() {
		m.console.follow(hv.console)
		close(followed)
	}()
	go m.receive()
	go func() {
		<-hv.exited
		<-followed // the last words explain the end
		m.fail(m.withConsole(fmt.Errorf("the guest ended: QEMU %s", hv.failure())))
	}()
	return m, nil
}
