package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command prepares a command that will run inside the node's namespace, with
// /sys showing the namespace's devices. Start it with Node.Run.
func (n *Node) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "SEG6LAB_NODE="+n.Name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// Run starts a command of Node.Command and waits for its end. Its child
// processes that still run then are the lab's and end with it.
func (n *Node) Run(cmd *exec.Cmd) error { return n.withSys(cmd.Run) }

// Start starts a command of Node.Command and does not wait for it: the caller
// does, or lets it go. It must not be tied to the life of the starting thread,
// as SysProcAttr.Pdeathsig does.
func (n *Node) Start(cmd *exec.Cmd) error { return n.withSys(cmd.Start) }

// withSys runs f inside the namespace, with /sys showing the namespace's
// devices.
func (n *Node) withSys(f func() error) error {
	return n.Do(func() error {
		// A mount namespace for this thread and its children alone, as `ip netns
		// exec` makes it.
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("new mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "none", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		// What is mounted below /sys must not be listed as still being there: ip
		// would look for a BPF file system in vain.
		if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount /sys: %w", err)
		}
		if err := unix.Mount(n.Name, "/sys", "sysfs", 0, ""); err != nil {
			return fmt.Errorf("mount /sys: %w", err)
		}
		return f()
	})
}

// CommandError is a command line that failed in a node.
type CommandError struct {
	Line   string
	Output string // standard output and error
	Err    error
}

func (e *CommandError) Error() string {
	s := fmt.Sprintf("run %q: %v", e.Line, e.Err)
	if out := strings.TrimSpace(e.Output); out != "" {
		s += ": " + strings.ReplaceAll(out, "\n", "; ")
	}
	return s
}

func (e *CommandError) Unwrap() error { return e.Err }

// Shell executes a command line in the node with the shell and returns its
// standard output and error. A line that fails is a *CommandError.
func (n *Node) Shell(ctx context.Context, line string) (string, error) {
	var out strings.Builder
	cmd := n.Command(ctx, "sh", "-c", line)
	cmd.Stdout = io.Writer(&out)
	cmd.Stderr = cmd.Stdout
	err := n.Run(cmd)
	// A child in the background may keep the output open.
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return out.String(), nil
	}
	return out.String(), &CommandError{Line: line, Output: out.String(), Err: err}
}

func inode(fd int) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Ino, err
}

// killProcessesIn ends every process in the network namespaces and waits until
// they are gone.
func killProcessesIn(inodes []uint64) error {
	if len(inodes) == 0 {
		return nil
	}
	// A process can fork while we look: look until none is found.
	for {
		pids, err := processesIn(inodes)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := kill(pid); err != nil {
				return fmt.Errorf("end process %d: %w", pid, err)
			}
		}
	}
}

func processesIn(inodes []uint64) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		var st unix.Stat_t
		if unix.Stat("/proc/"+e.Name()+"/ns/net", &st) == nil && slices.Contains(inodes, st.Ino) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// kill ends a process and returns once it has left its namespaces.
func kill(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			err = errors.New("it does not end")
		}
		return err
	}
}
