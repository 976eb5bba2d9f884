// Package vm boots a kernel in QEMU and runs commands in it. The program that
// uses the package is itself PID 1 of the guest, where it takes work over a
// virtio-serial port. It knows nothing of labs: what a guest runs, it is told.
//
// A program that boots guests calls Main first thing in its main.
package vm

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"time"

	"seg6lab/lab/kernel"
)

// Main returns at once, unless this process was started by this package: as a
// guest's PID 1, as its modprobe, or as the file server's wrapper on the host.
func Main() {
	switch {
	case IsInit():
		Init()
	case IsModprobe():
		Modprobe()
	case isFileServer():
		fileServer()
	}
}

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

// Machine is a running guest. Its methods may be called from several goroutines.
type Machine struct {
	// Accel is what executes the guest.
	Accel Accel
	// Restored says that a saved guest was taken, instead of a boot.
	Restored bool
	// Release is the guest's uname -r.
	Release string
	// BootTime is what the kernel took from QEMU's start to the agent's first
	// word; of a restored guest, what it took when it was booted.
	BootTime time.Duration
	// ReadyAfter is the time from Boot's begin to the agent's first answer.
	ReadyAfter time.Duration

	cfg     Config
	hv      *hypervisor
	console console
	modules *kernel.Modules
	ram     *os.File
	build   string // of the agent's program
	rom     string // that started the kernel
	files   *fileServerProcess
	shared  string // how the host's files came into the guest; empty: not at all

	out   *frameWriter
	ready chan hello

	mu    sync.Mutex
	calls map[uint32]*hostCall
	next  uint32
	err   error // why the machine is no longer of use
	dead  chan struct{}
	self  string // this program's path in the guest, once it is there
	once  sync.Once
}

// String says how the guest runs and how it came about.
func (m *Machine) String() string {
	how := "booted"
	if m.Restored {
		how = "restored"
	}
	files := ""
	if m.shared != "" {
		files = ", host's files by " + m.shared
	}
	return fmt.Sprintf("guest: kernel %s, %s, %s in %.2f s%s", m.Release, m.Accel, how, m.ReadyAfter.Seconds(), files)
}

// hostCall is a call under way, seen from the host.
type hostCall struct {
	stdout, stderr io.Writer
	credit         chan int
	reply          chan reply
	done           chan struct{}
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

// fail records why the machine is of no more use and ends all that waits for it.
func (m *Machine) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
		close(m.dead)
	}
}

// Err is why the machine is no longer of use: a *Report of the guest's kernel,
// or what became of QEMU; nil while all is well.
func (m *Machine) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

var errClosed = errors.New("the guest was shut down")

// withConsole adds the last lines of the console to err.
func (m *Machine) withConsole(err error) error {
	tail := m.console.tail()
	if tail == "" {
		return fmt.Errorf("%w\n    (nothing on the console)", err)
	}
	return fmt.Errorf("%w\n%s", err, indent(tail))
}

// explain prefers the reason why the machine died to a symptom of it: a channel
// breaks a moment before QEMU's end is known.
func (m *Machine) explain(err error) error {
	select {
	case <-m.dead:
		return m.Err()
	case <-time.After(2 * time.Second):
		return err
	}
}

// Console is the end of what the guest's kernel printed.
func (m *Machine) Console() string { return m.console.tail() }

// Close ends the guest and whatever belongs to it. It returns the complaint of
// the guest's kernel, if it had one.
func (m *Machine) Close() error {
	m.once.Do(func() {
		m.fail(errClosed)
		m.hv.kill()
		m.hv.console.Close()
		if m.files != nil {
			m.files.close()
		}
		m.ram.Close()
	})
	m.console.flush()
	var r *Report
	if errors.As(m.Err(), &r) {
		return r
	}
	return nil
}

// fresh gives a guest what it must not share with others: the time, and random
// numbers of its own. Its boot id is made from those when it is first read.
func (m *Machine) fresh(ctx context.Context) error {
	seed := make([]byte, 64)
	rand.Read(seed)
	_, err := m.call(ctx, request{Op: "fresh", Clock: time.Now().UnixNano(), Seed: seed}, nil, nil, nil)
	return err
}

// receive sorts what the agent sends.
func (m *Machine) receive() {
	r := bufio.NewReaderSize(m.hv.agent, 1<<20)
	for {
		f, err := readFrame(r)
		if err == nil {
			err = m.dispatch(f)
		}
		if err != nil {
			if errors.Is(err, errFrame) {
				m.fail(m.withConsole(fmt.Errorf("the agent's connection: %w", err)))
			}
			return // else QEMU ended, which says more
		}
	}
}

func (m *Machine) dispatch(f frame) error {
	m.mu.Lock()
	c := m.calls[f.call]
	m.mu.Unlock()
	switch f.kind {
	case kindReady:
		var h hello
		if err := json.Unmarshal(f.data, &h); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		select {
		case m.ready <- h:
		default:
		}
		return nil
	case kindRequest:
		var req request
		if err := json.Unmarshal(f.data, &req); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		go m.serveModules(f.call, req.Names)
		return nil
	}
	if c == nil {
		return nil // nobody waits any more
	}
	switch f.kind {
	case kindOutput:
		c.stdout.Write(f.data) // whose reader went away is told by the caller's own error
	case kindErrors:
		c.stderr.Write(f.data)
	case kindCredit:
		if len(f.data) != 4 {
			return fmt.Errorf("%w: credit of %d bytes", errFrame, len(f.data))
		}
		select {
		case c.credit <- int(binary.LittleEndian.Uint32(f.data)):
		case <-c.done:
		}
	case kindReply:
		var r reply
		if err := json.Unmarshal(f.data, &r); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		c.reply <- r
	default:
		return fmt.Errorf("%w: kind %d from the guest", errFrame, f.kind)
	}
	return nil
}

// call runs an operation in the guest. in, stdout and stderr may be nil.
func (m *Machine) call(ctx context.Context, req request, in io.Reader, stdout, stderr io.Writer) (reply, error) {
	return m.callResized(ctx, req, in, stdout, stderr, nil)
}

func (m *Machine) callResized(ctx context.Context, req request, in io.Reader, stdout, stderr io.Writer, resize <-chan [2]uint16) (reply, error) {
	b, err := json.Marshal(req)
	if err != nil {
		return reply{}, err
	}
	if len(b) > maxFrame {
		return reply{}, fmt.Errorf("%s: arguments and environment of %d bytes, at most %d", req.Op, len(b), maxFrame)
	}
	c := &hostCall{stdout: orDiscard(stdout), stderr: orDiscard(stderr), credit: make(chan int, 64), reply: make(chan reply, 1), done: make(chan struct{})}
	defer close(c.done)
	m.mu.Lock()
	m.next++
	id := m.next &^ guestCall
	m.calls[id] = c
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.calls, id)
		m.mu.Unlock()
	}()
	// A guest that hangs reads nothing: whatever is sent to it, nobody waits for that alone.
	inErr := make(chan error, 1)
	go func() {
		err := m.out.write(kindRequest, id, b)
		if err == nil {
			err = m.sendInput(c, id, in)
		}
		inErr <- err
	}()
	for {
		select {
		case r := <-c.reply:
			if m.console.settled(m.hv.console) {
				<-m.dead // once the report is whole
				return reply{}, m.Err()
			}
			if r.Error != "" {
				return r, fmt.Errorf("%s in the guest: %s", req.Op, r.Error)
			}
			return r, nil
		case err := <-inErr:
			if err != nil {
				go m.out.write(kindCancel, id, nil)
				return reply{}, m.explain(err)
			}
		case size := <-resize:
			b := binary.LittleEndian.AppendUint16(nil, size[0])
			go m.out.write(kindResize, id, binary.LittleEndian.AppendUint16(b, size[1]))
		case <-m.dead:
			return reply{}, m.Err()
		case <-ctx.Done():
			go m.out.write(kindCancel, id, nil)
			return reply{}, m.withConsole(context.Cause(ctx))
		}
	}
}

// sendInput feeds in to the call, never more than the guest has room for.
func (m *Machine) sendInput(c *hostCall, id uint32, in io.Reader) error {
	if in == nil {
		return m.out.write(kindInput, id, nil)
	}
	buf := make([]byte, maxFrame)
	room := inputWindow
	for {
		n, err := in.Read(buf)
		for n > room {
			select {
			case k := <-c.credit:
				room += k
			case <-c.done:
				return nil
			}
		}
		if n > 0 {
			if werr := m.out.write(kindInput, id, buf[:n]); werr != nil {
				return werr
			}
			room -= n
		}
		for more := true; more; {
			select {
			case k := <-c.credit:
				room += k
			case <-c.done:
				return nil
			default:
				more = false
			}
		}
		if err == io.EOF {
			return m.drainCredit(c, id)
		}
		if err != nil {
			return err
		}
	}
}

// drainCredit ends the input and takes the credit that still comes.
func (m *Machine) drainCredit(c *hostCall, id uint32) error {
	if err := m.out.write(kindInput, id, nil); err != nil {
		return err
	}
	for {
		select {
		case <-c.credit:
		case <-c.done:
			return nil
		}
	}
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// serveModules answers the guest's wish for modules: it sends them with all
// that they depend on, then the reply.
func (m *Machine) serveModules(id uint32, names []string) {
	var r reply
	if err := m.LoadModules(context.Background(), names...); err != nil {
		r = reply{Error: err.Error(), Missing: errors.Is(err, kernel.ErrNoModule)}
	}
	b, err := json.Marshal(r)
	if err == nil {
		_ = m.out.write(kindReply, id, b)
	}
}

// LoadModules loads modules of the guest's kernel, by name or alias, after all
// that they depend on. A module that is built in is reported as kernel.ErrNoModule.
func (m *Machine) LoadModules(ctx context.Context, names ...string) error {
	for _, n := range names {
		order, err := m.modules.Order(n)
		if err != nil {
			return err
		}
		var archive bytes.Buffer
		if err := packModules(&archive, m.modules, order); err != nil {
			return err
		}
		if _, err := m.call(ctx, request{Op: "modules"}, &archive, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Cmd is a command to run in the guest.
type Cmd struct {
	Args []string
	// Env is the whole environment; nil is a small one with a PATH.
	Env []string
	// Dir is where it runs; empty is /.
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal gives it a terminal of Size rows and columns, changed by what
	// Resize yields; output then comes on Stdout alone.
	Terminal bool
	Size     [2]uint16
	Resize   <-chan [2]uint16
}

var defaultEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}

// Run runs a command to its end and returns its exit code, 128 plus the signal
// if one ended it. An error says that the code is not known: the guest died
// (*Report if its kernel complained), or ctx ended.
func (m *Machine) Run(ctx context.Context, cmd Cmd) (exit int, err error) {
	if cmd.Env == nil {
		cmd.Env = defaultEnv
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	r, err := m.callResized(ctx, request{Op: "exec", Exec: &execRequest{
		Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, TTY: cmd.Terminal, Rows: cmd.Size[0], Cols: cmd.Size[1],
	}}, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Resize)
	if err != nil {
		return 0, err
	}
	return r.Exit, nil
}

// Push copies a file or a directory of the host to the path dst in the guest.
func (m *Machine) Push(ctx context.Context, src, dst string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(w, src, path.Base(dst))) }()
	defer r.Close()
	if _, err := m.call(ctx, request{Op: "push", Path: path.Dir(dst)}, r, nil, nil); err != nil {
		return fmt.Errorf("push %s: %w", src, err)
	}
	return nil
}

// pushStripped copies a program, without what only debuggers read.
func (m *Machine) pushStripped(ctx context.Context, src, dst string) error {
	b, err := readStripped(src)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(dst), Mode: 0o755, Size: int64(len(b))}); err != nil {
		return err
	}
	if _, err := tw.Write(b); err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	if _, err := m.call(ctx, request{Op: "push", Path: path.Dir(dst)}, &archive, nil, nil); err != nil {
		return fmt.Errorf("push %s: %w", src, err)
	}
	return nil
}

// Pull copies what is below the directory src of the guest into the directory dst of the host.
func (m *Machine) Pull(ctx context.Context, src, dst string) error {
	r, w := io.Pipe()
	extracted := make(chan error, 1)
	go func() {
		err := extract(r, dst)
		r.CloseWithError(err)
		extracted <- err
	}()
	_, err := m.call(ctx, request{Op: "pull", Path: src}, nil, w, nil)
	w.CloseWithError(err)
	if xerr := <-extracted; err == nil {
		err = xerr
	}
	if err != nil {
		return fmt.Errorf("pull %s: %w", src, err)
	}
	return nil
}

// PushSelf makes this very program runnable in the guest and returns its path
// there. A guest that was saved by the same build has it already.
func (m *Machine) PushSelf(ctx context.Context) (string, error) {
	m.mu.Lock()
	self := m.self
	m.mu.Unlock()
	if self != "" {
		return self, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	build, err := buildOf(exe)
	if err != nil {
		return "", err
	}
	self = agentPath
	if build != m.build {
		self = agentDir + "/seg6lab"
		if err := m.pushStripped(ctx, exe, self); err != nil {
			return "", err
		}
		if err := m.pushLibraries(ctx, exe); err != nil {
			return "", err
		}
	}
	m.mu.Lock()
	m.self = self
	m.mu.Unlock()
	return self, nil
}
