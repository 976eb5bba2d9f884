package port

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/nsthread"
)

// namespace is an open network namespace.
type namespace struct {
	file   *os.File
	cookie uint64
}

// openNamespace opens the namespace of a file, and reads its cookie, which no
// other namespace has before the machine starts anew.
func openNamespace(path string) (*namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	ns := &namespace{file: file}
	err = ns.do(func() error {
		ns.cookie, err = netnsCookie()
		return err
	})
	if err != nil {
		file.Close()
		return nil, err
	}
	return ns, nil
}

// home is the namespace that the process is in.
func home() (*namespace, error) {
	var ns *namespace
	err := nsthread.Do(func() (err error) {
		ns, err = openNamespace("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open this network namespace: %w", err)
	}
	return ns, nil
}

func (ns *namespace) close() { ns.file.Close() }

// do runs f inside the namespace.
func (ns *namespace) do(f func() error) error {
	return nsthread.In(netns.NsHandle(ns.file.Fd()), f)
}

// soNetnsCookie is SO_NETNS_COOKIE of include/uapi/asm-generic/socket.h, since
// Linux 5.14.
const soNetnsCookie = 71

// netnsCookie is the cookie of the namespace of the calling thread.
func netnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, soNetnsCookie)
	if err != nil {
		return 0, fmt.Errorf("network namespace cookie: %w", err)
	}
	return cookie, nil
}

// namespaces calls f for every namespace that can be found, each once: that of a
// name first, then that of the process, that of process 1, those with a name, and
// those that a process is in. It stops when f says so.
func namespaces(first string, f func(*namespace) (more bool)) {
	paths := []string{filepath.Join(NetnsDir, first), "/proc/self/ns/net", "/proc/1/ns/net"}
	for _, pattern := range []string{NetnsDir + "/*", "/proc/[0-9]*/ns/net"} {
		found, _ := filepath.Glob(pattern)
		paths = append(paths, found...)
	}
	type id struct{ dev, ino uint64 }
	seen := make(map[id]bool)
	for _, path := range paths {
		// Processes end meanwhile, and a name may have nothing mounted on it.
		var st unix.Stat_t
		var fs unix.Statfs_t
		if unix.Stat(path, &st) != nil || seen[id{st.Dev, st.Ino}] ||
			unix.Statfs(path, &fs) != nil || fs.Type != unix.NSFS_MAGIC {
			continue
		}
		seen[id{st.Dev, st.Ino}] = true
		ns, err := openNamespace(path)
		if err != nil {
			continue
		}
		more := f(ns)
		ns.close()
		if !more {
			return
		}
	}
}
