package vm

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A mount of the guest. Optional ones are left out where the kernel lacks them.
type mount struct {
	fstype, target string
	flags          uintptr
	data           string
	optional       bool
}

// kernelMounts are the kernel's own file systems, in the order in which they go on.
var kernelMounts = []mount{
	{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", false},
	{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", false},
	{"devtmpfs", "/dev", unix.MS_NOSUID, "mode=0755", false},
	{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,ptmxmode=0666", true},
	{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", true},
	{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755", false},
	{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", false},
	{"cgroup2", "/sys/fs/cgroup", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", true},
	{"debugfs", "/sys/kernel/debug", 0, "mode=0755", true},
	{"tracefs", "/sys/kernel/tracing", 0, "", true},
	{"bpf", "/sys/fs/bpf", 0, "mode=0700", true},
	{"securityfs", "/sys/kernel/security", 0, "", true},
}

func setUpGuest() error {
	for _, m := range kernelMounts {
		err := os.MkdirAll(m.target, 0o755)
		if err == nil {
			err = unix.Mount(m.fstype, m.target, m.fstype, m.flags, m.data)
		}
		if err != nil && !m.optional {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for link, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2", "/dev/ptmx": "pts/ptmx",
	} {
		os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := os.MkdirAll(agentDir, 0o755); err != nil {
		return err
	}
	for _, p := range []string{agentPath, modprobePath} {
		if err := bindAgent(p); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/kernel/modprobe", []byte(modprobePath), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("announce the modprobe helper: %w", err)
	}
	// A memory shortage must hit the commands, not the agent that reports it.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil {
		return err
	}
	return raiseLoopback()
}

// bindAgent makes the agent's own program visible at path, also after the root changed.
func bindAgent(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	f.Close()
	if err := unix.Mount("/proc/self/exe", path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the agent to %s: %w", path, err)
	}
	return nil
}

func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raise lo: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("raise lo: %w", err)
	}
	return nil
}

// reseed credits seed to the kernel's generator and makes it take it up at
// once, instead of within a minute (random(4)).
func reseed(seed []byte) error {
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct rand_pool_info: entropy in bits, size of the buffer in bytes, the buffer.
	info := binary.NativeEndian.AppendUint32(nil, uint32(8*len(seed)))
	info = binary.NativeEndian.AppendUint32(info, uint32(len(seed)))
	info = append(info, seed...)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&info[0]))); e != 0 {
		return fmt.Errorf("RNDADDENTROPY: %w", e)
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDRESEEDCRNG, 0); e != 0 {
		return fmt.Errorf("RNDRESEEDCRNG: %w", e)
	}
	return nil
}

// loadInitModules loads the modules of the initramfs, whose names sort in the order of loading.
func loadInitModules() error {
	files, err := filepath.Glob(initModules + "/*")
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := insert(filepath.Base(f), b); err != nil {
			return err
		}
	}
	return nil
}

// parameters keep modules from making devices that nobody asked for, whose
// names a test may want.
var parameters = map[string]string{"dummy": "numdummies=0", "ifb": "numifbs=0"}

func insert(name string, module []byte) error {
	if err := unix.InitModule(module, parameters[name]); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", name, err)
	}
	return nil
}

// loadModules loads the modules of the archive that is the call's input, in its order.
func (c *call) loadModules() (reply, error) {
	tr := tar.NewReader(c.in)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return reply{}, nil
		}
		if err != nil {
			return reply{}, err
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			return reply{}, err
		}
		if err := insert(h.Name, b); err != nil {
			return reply{}, err
		}
	}
}
