package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const qemuProgram = "qemu-system-x86_64"

// ErrNoQEMU says that guests cannot run at all and what installs QEMU.
var ErrNoQEMU = errors.New("no " + qemuProgram + " on this machine: apt-get install qemu-system-x86")

func findQEMU() (string, error) {
	path, err := exec.LookPath(qemuProgram)
	if err != nil {
		return "", ErrNoQEMU
	}
	return path, nil
}

// hypervisor is a running QEMU and our ends of its channels.
type hypervisor struct {
	monitor *qmp
	agent   *net.UnixConn
	console *os.File
	exited  chan struct{} // closed when the process is gone
	process *os.Process
	stderr  bytes.Buffer // to be read after exited
	status  string       // to be read after exited
}

// files collects the descriptors that a child inherits.
type files []*os.File

// add returns the path at which the child finds f.
func (fs *files) add(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", fs.number(f)) }

func (fs *files) number(f *os.File) int {
	*fs = append(*fs, f)
	return 2 + len(*fs)
}

func (fs files) close() {
	for _, f := range fs {
		f.Close()
	}
}

// socketPair returns our end of a stream and the child's.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	theirs := os.NewFile(uintptr(fds[1]), "theirs")
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// machineArgs are the arguments that make two QEMUs the same machine, so that
// one can restore what the other saved. The i440FX machine is taken since its
// one bus takes devices while it runs.
func machineArgs(cfg *Config, accel Accel, ram string) []string {
	args := []string{
		"-no-user-config", "-nodefaults", "-display", "none", "-no-reboot", "-S",
		"-machine", "pc,memory-backend=ram,usb=off,vmport=off",
		"-object", fmt.Sprintf("memory-backend-file,id=ram,size=%dM,mem-path=%s,share=on", cfg.MemoryMB, ram),
		"-smp", strconv.Itoa(cfg.CPUs),
	}
	args = append(args, nicArgs(cfg.NICs)...)
	switch {
	case cfg.CountInstructions:
		args = append(args, "-accel", "tcg", "-cpu", cfg.CPU, "-icount", "shift=0,sleep=off")
	case accel == KVM:
		args = append(args, "-accel", "kvm", "-cpu", "host")
	default:
		args = append(args, "-accel", "tcg,thread=multi", "-cpu", "max")
	}
	return args
}

// startQEMU starts QEMU with its monitor, a serial console and the agent's
// port. All channels are inherited descriptors: nothing is left in the file
// system, whatever ends. fs belong to the child and are closed here.
func startQEMU(path string, args []string, fs files) (*hypervisor, error) {
	defer func() { fs.close() }()
	monitor, m, err := socketPair()
	if err != nil {
		return nil, err
	}
	agent, a, err := socketPair()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args = append(args,
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", fs.number(m)), "-mon", "chardev=monitor,mode=control",
		"-chardev", "file,id=console,path="+fs.add(w), "-serial", "chardev:console",
		"-chardev", fmt.Sprintf("socket,id=agent,fd=%d", fs.number(a)),
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name="+portName,
	)
	h := &hypervisor{monitor: newQMP(monitor), agent: agent, console: r, exited: make(chan struct{})}
	cmd := exec.Command(path, args...)
	cmd.ExtraFiles = fs
	cmd.Stderr = &h.stderr
	if err := startBound(cmd, func() {
		h.status = cmd.ProcessState.String()
		close(h.exited)
	}); err != nil {
		monitor.Close()
		agent.Close()
		r.Close()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	h.process = cmd.Process
	return h, nil
}

// startBound starts a child that dies with this process, however that dies,
// and calls done when the child is gone. The kernel binds a child's life to
// the thread that made it, so that thread is kept for as long as the child.
func startBound(cmd *exec.Cmd, done func()) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// Not the terminal's Ctrl-C: who started the child ends it.
	cmd.SysProcAttr.Setpgid = true
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // done reads how it ended
			done()
		}
	}()
	return <-started
}

// failure is what QEMU itself said when it ended.
func (h *hypervisor) failure() string {
	select {
	case <-h.exited:
		return strings.TrimSpace(h.status + " " + h.stderr.String())
	default:
		return ""
	}
}

// kill ends QEMU and waits for its end.
func (h *hypervisor) kill() {
	_ = h.process.Kill()
	<-h.exited
	h.monitor.conn.Close()
	h.agent.Close()
}

// memory makes the guest's memory: a file without a name, which goes with the last process that holds it.
func memory(name string, bytes int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for the guest: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(bytes); err != nil {
		f.Close()
		return nil, fmt.Errorf("memory for the guest: %w", err)
	}
	return f, nil
}

// apartMemory makes migration leave the guest's memory alone: it is saved as it is, apart from the devices.
func (q *qmp) apartMemory(ctx context.Context) error {
	return q.do(ctx, "migrate-set-capabilities", map[string]any{"capabilities": []map[string]any{{"capability": "x-ignore-shared", "state": true}}}, nil)
}

func (q *qmp) cont(ctx context.Context) error { return q.do(ctx, "cont", nil, nil) }
