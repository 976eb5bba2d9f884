package vm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// filesTag names the share in the guest.
const filesTag = "host"

// fileServers are where distributions keep virtiofsd: Debian 12 has it with QEMU.
var fileServers = []string{"/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd"}

func findFileServer() (string, error) {
	for _, p := range fileServers {
		if st, err := os.Stat(p); err == nil && st.Mode().Perm()&0o111 != 0 {
			return p, nil
		}
	}
	return "", errors.New("no virtiofsd on this machine: apt-get install qemu-system-common (Debian 12) or virtiofsd")
}

// fileServerName is the argument zero under which this program becomes the file server's wrapper.
const fileServerName = "seg6lab-files"

func isFileServer() bool { return len(os.Args) == 2 && os.Args[0] == fileServerName }

// fileServer makes all that this process sees read-only, then becomes
// virtiofsd: a guest is root, so a read-only mount in the guest would protect nothing.
func fileServer() {
	err := becomeFileServer(os.Args[1])
	fmt.Fprintf(os.Stderr, "%s: %v\n", fileServerName, err)
	os.Exit(1)
}

func becomeFileServer(program string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("part from the host's mounts: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make the mounts read-only: %w", err)
	}
	return syscall.Exec(program, []string{program, "--fd=3", "-f", "-o", "source=/", "-o", "sandbox=chroot", "-o", "cache=always",
		"-o", "log_level=err", "-o", "no_posix_lock"}, os.Environ())
}

// fileServerProcess is a running virtiofsd.
type fileServerProcess struct {
	process *os.Process
	exited  chan struct{}
	stderr  bytes.Buffer // to be read after exited
}

func (p *fileServerProcess) close() {
	_ = p.process.Kill()
	<-p.exited
}

// startFileServer returns a connection to a virtiofsd that serves the host's root.
func startFileServer() (*fileServerProcess, *os.File, error) {
	program, err := findFileServer()
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	// An abstract address leaves no file; the one connection that is served is made here.
	addr := &net.UnixAddr{Name: "@seg6lab-" + rand.Text(), Net: "unix"}
	l, err := net.ListenUnix("unix", addr)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	conn, err := net.DialUnix("unix", nil, addr)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	listener, err := l.File()
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	p := &fileServerProcess{exited: make(chan struct{})}
	cmd := &exec.Cmd{Path: self, Args: []string{fileServerName, program}, ExtraFiles: []*os.File{listener}, Stderr: &p.stderr,
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}}
	if err := startBound(cmd, func() { close(p.exited) }); err != nil {
		return nil, nil, fmt.Errorf("start the file server: %w", err)
	}
	p.process = cmd.Process
	f, err := conn.File()
	if err != nil {
		p.close()
		return nil, nil, err
	}
	return p, f, nil
}

// nineArgs let QEMU itself serve the host's files, for kernels without virtiofs.
var nineArgs = []string{"-fsdev", "local,id=files9,path=/,security_model=none,readonly=on,multidevs=remap"}

// errNotShared says that one way of sharing does not work here; the next is tried.
var errNotShared = errors.New("not possible here")

// sharings are the ways to show the host's files, the best first.
var sharings = []struct {
	name string
	plug func(*Machine, context.Context) error
}{
	{"virtiofs", (*Machine).plugVirtiofs},
	{"9p", (*Machine).plugNine},
}

// shareHost plugs the host's files into the running guest and makes them its
// root. A guest that holds such a device could not be saved, so it comes only
// now. If the guest's kernel knows no way, the guest goes without: Shared is
// empty then.
func (m *Machine) shareHost(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 60*time.Second, errors.New("the host's files did not appear in the guest"))
	defer cancel()
	for _, s := range sharings {
		err := s.plug(m, ctx)
		if errors.Is(err, errNotShared) {
			continue
		}
		if err != nil {
			return fmt.Errorf("share the host's files: %w", err)
		}
		m.shared = s.name
		return nil
	}
	return nil
}

// Shared is how the guest sees the host's files: virtiofs, 9p, or not at all.
func (m *Machine) Shared() string { return m.shared }

func (m *Machine) plugVirtiofs(ctx context.Context) error {
	// As another user than root virtiofsd fails at setgroups(2), also in a user namespace.
	if _, err := findFileServer(); err != nil || os.Geteuid() != 0 {
		return errNotShared
	}
	server, conn, err := startFileServer()
	if err != nil {
		return err
	}
	m.files = server
	defer conn.Close()
	q := m.hv.monitor
	if err := q.doWith(ctx, conn, "getfd", map[string]any{"fdname": "files"}, nil); err != nil {
		return err
	}
	if err := q.do(ctx, "chardev-add", map[string]any{"id": "files", "backend": map[string]any{"type": "socket", "data": map[string]any{
		"server": false, "addr": map[string]any{"type": "fd", "data": map[string]any{"str": "files"}}}}}, nil); err != nil {
		return err
	}
	if err := q.do(ctx, "device_add", map[string]any{"driver": "vhost-user-fs-pci", "id": "files", "chardev": "files", "tag": filesTag}, nil); err != nil {
		select {
		case <-server.exited:
			return fmt.Errorf("%w: the file server ended: %s", err, strings.TrimSpace(server.stderr.String()))
		default:
			return err
		}
	}
	return m.enterRoot(ctx, "virtiofs")
}

func (m *Machine) plugNine(ctx context.Context) error {
	if err := m.hv.monitor.do(ctx, "device_add", map[string]any{"driver": "virtio-9p-pci", "id": "files9", "fsdev": "files9", "mount_tag": filesTag}, nil); err != nil {
		return err
	}
	return m.enterRoot(ctx, "9p")
}

// enterRoot makes a share the root; errNotShared if the kernel lacks the file system.
func (m *Machine) enterRoot(ctx context.Context, fstype string) error {
	r, err := m.call(ctx, request{Op: "root", Names: []string{fstype, filesTag}}, nil, nil, nil)
	if r.Missing {
		return errNotShared
	}
	return err
}
