package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/nsthread"
	"seg6lab/lab/port"
)

// netnsDir is where iproute2 looks for named namespaces.
const netnsDir = port.NetnsDir

// namePrefix starts the name of every namespace of a lab: s6.LAB.NODE. Names
// of labs and nodes have no dots.
const namePrefix = "s6."

func netnsName(lab, node string) string { return namePrefix + lab + "." + node }

func splitNetnsName(name string) (lab, node string, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return "", "", false
	}
	lab, node, ok = strings.Cut(rest, ".")
	return lab, node, ok && lab != "" && node != ""
}

// mark is written to the alias of a namespace's loopback device. It is what
// makes a namespace ours.
type mark struct {
	lab, node string
	owner     process // zero for a lab that outlives the command
}

const markPrefix = "seg6lab "

func (m mark) String() string {
	s := markPrefix + m.lab + " " + m.node
	if m.owner != (process{}) {
		s += " " + m.owner.String()
	}
	return s
}

func parseMark(alias string) (m mark, ok bool) {
	rest, ok := strings.CutPrefix(alias, markPrefix)
	if !ok {
		return mark{}, false
	}
	fields := strings.Fields(rest)
	if len(fields) < 2 || len(fields) > 3 {
		return mark{}, false
	}
	m.lab, m.node = fields[0], fields[1]
	if len(fields) == 3 {
		if m.owner, ok = parseProcess(fields[2]); !ok {
			return mark{}, false
		}
	}
	return m, true
}

// process is a process that no later one can be taken for: its pid and its
// start time in clock ticks since boot.
type process struct {
	pid   int
	start uint64
}

func (p process) String() string { return fmt.Sprintf("%d@%d", p.pid, p.start) }

func parseProcess(s string) (process, bool) {
	pid, start, ok := strings.Cut(s, "@")
	p, err1 := strconv.Atoi(pid)
	t, err2 := strconv.ParseUint(start, 10, 64)
	return process{p, t}, ok && err1 == nil && err2 == nil
}

// findProcess reads the start time of a running process.
func findProcess(pid int) (process, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The second field is the command in parentheses and may hold anything.
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	const startTime = 22 - 3 // proc(5) counts from 1, and two fields are cut off
	if len(fields) <= startTime {
		return process{}, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	start, err := strconv.ParseUint(fields[startTime], 10, 64)
	return process{pid, start}, err
}

func (p process) alive() bool {
	now, err := findProcess(p.pid)
	return err == nil && now == p
}

// here speaks to the kernel for the namespace that the calling thread is in. It
// has no sockets: the netlink library then opens one for each request, and only
// on such a socket does it ask for the kernel's extack text.
var here = &netlink.Handle{}

// createNetns makes a namespace, marks it, mounts it under netnsDir and leaves
// its setup to f, which runs inside. The mark comes before the mount, so that
// a name is never seen without one.
func createNetns(m mark, f func() (*Node, error)) (*Node, error) {
	path := filepath.Join(netnsDir, netnsName(m.lab, m.node))
	// The file is the claim to the name: of two labs of one name, one gets it. Until the
	// namespace hides what it holds, that says whose it is.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if errors.Is(err, os.ErrExist) {
		return nil, &ExistsError{Lab: m.lab}
	}
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(m.String())
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(path)
		return nil, err
	}

	var n *Node
	err = nsthread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if n, err = f(); err != nil {
			return err
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, ""); err != nil {
			n.close()
			return fmt.Errorf("mount %s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	return n, nil
}

// removeNetns takes the name of a namespace away. The namespace itself ends
// with its last process, socket or descriptor.
func removeNetns(name string) error {
	path := filepath.Join(netnsDir, name)
	for {
		// A name can be mounted on twice, as by a first `ip netns add` after ours:
		// it can be removed once nothing is left on it.
		unmounted := unix.Unmount(path, unix.MNT_DETACH)
		err := os.Remove(path)
		switch {
		case err == nil, errors.Is(err, os.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EBUSY):
			return err
		case unmounted != nil:
			return fmt.Errorf("unmount %s: %w", path, unmounted)
		}
	}
}

// prepareNetnsDir does what the first `ip netns add` does: it makes netnsDir a
// shared mount of its own. Without that, the first `ip netns add` after ours
// would copy our mounts below a new one and keep our namespaces alive.
func prepareNetnsDir() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(netnsDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", netnsDir, err)
	}
	err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := unix.Mount(netnsDir, netnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", netnsDir, err)
	}
	return unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
}

// openNetns opens a named namespace and reads its mark. ok is false when it is
// not a namespace or not ours.
func openNetns(name string) (h netns.NsHandle, m mark, ok bool, err error) {
	fd, err := unix.Open(filepath.Join(netnsDir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, m, false, nil
	}
	if err != nil {
		return -1, m, false, err
	}
	h = netns.NsHandle(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		h.Close()
		return -1, m, false, err
	}
	err = nsthread.In(h, func() error {
		lo, err := here.LinkByIndex(1)
		if err == nil {
			m, ok = parseMark(lo.Attrs().Alias)
		}
		return err
	})
	if !ok {
		h.Close()
		return -1, m, false, err
	}
	return h, m, true, nil
}
