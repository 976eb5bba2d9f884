package vm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// children starts processes and reaps every process of the guest: PID 1
// inherits orphans, so waiting for one child at a time would leave zombies.
type children struct {
	mu   sync.Mutex
	wait map[int]chan syscall.WaitStatus
}

func (c *children) start() {
	c.wait = map[int]chan syscall.WaitStatus{}
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, unix.SIGCHLD)
	go func() {
		for range sig {
			c.reap()
		}
	}()
}

func (c *children) reap() {
	for {
		var ws syscall.WaitStatus
		// The lock is held so that a child cannot end before spawn has noted it.
		c.mu.Lock()
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if pid > 0 {
			if ch := c.wait[pid]; ch != nil {
				ch <- ws
				delete(c.wait, pid)
			}
		}
		c.mu.Unlock()
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

func (c *children) spawn(path string, args []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := syscall.ForkExec(path, args, attr)
	if err != nil {
		return 0, nil, err
	}
	ch := make(chan syscall.WaitStatus, 1)
	c.wait[pid] = ch
	return pid, ch, nil
}

// Exit codes of a command that did not start, as shells give them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// exec runs the command of the call to its end.
func (c *call) exec() (reply, error) {
	req := c.req.Exec
	if req == nil || len(req.Args) == 0 {
		return reply{}, errors.New("no command")
	}
	p := c.agent.takePrepared(req)
	if p == nil {
		var exit int
		var err error
		if p, exit, err = c.spawn(req); p == nil {
			return reply{Exit: exit}, err
		}
	}
	ends := p.ends
	go func() {
		_, _ = io.Copy(ends.in, c.in)
		if !req.TTY {
			ends.in.Close()
		}
	}()
	var readers sync.WaitGroup
	readers.Go(func() { copyOut(c.stdout(), ends.out) })
	if ends.err != nil {
		readers.Go(func() { copyOut(c.stderr(), ends.err) })
	}
	ws := c.follow(p.pid, p.exited, ends)
	// Daemons may hold the pipes open for ever: take what is in them and leave.
	ends.out.SetReadDeadline(time.Now())
	if ends.err != nil {
		ends.err.SetReadDeadline(time.Now())
	}
	readers.Wait()
	ends.closeOurs()
	if ws.Signaled() {
		return reply{Exit: 128 + int(ws.Signal()), Signal: int(ws.Signal())}, nil
	}
	return reply{Exit: ws.ExitStatus()}, nil
}

// process is a command that has been started.
type process struct {
	req    *execRequest
	pid    int
	exited <-chan syscall.WaitStatus
	ends   *ends
}

// spawn starts a command. Without a process and an error it could not be
// started, and exit is the code for it.
func (c *call) spawn(req *execRequest) (p *process, exit int, err error) {
	path, err := lookPath(req.Args[0], req.Env)
	if err != nil {
		fmt.Fprintf(c.stderr(), "%s: %v\n", req.Args[0], err)
		return nil, exitNotFound, nil
	}
	ends, err := openEnds(req)
	if err != nil {
		return nil, 0, err
	}
	pid, exited, err := c.agent.children.spawn(path, req.Args, &syscall.ProcAttr{
		Dir: req.Dir, Env: req.Env, Files: []uintptr{ends.child[0].Fd(), ends.child[1].Fd(), ends.child[2].Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: req.TTY, Ctty: 0},
	})
	ends.closeChild()
	if err != nil {
		ends.closeOurs()
		fmt.Fprintf(c.stderr(), "%s: %v\n", path, err)
		return nil, exitNotExecutable, nil
	}
	// The agent is exempt from the OOM killer; its children are not.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("0"), 0)
	return &process{req, pid, exited, ends}, 0, nil
}

// prepareTimeout is how long a command may take until it reads its input.
const prepareTimeout = 30 * time.Second

// prepare starts the command of the call for a later exec of the same one, and
// returns once it waits for input: a saved guest then has its start behind it.
func (c *call) prepare() (reply, error) {
	p, _, err := c.spawn(c.req.Exec)
	if p == nil {
		return reply{}, errors.Join(errors.New("the prepared command does not start"), err)
	}
	for deadline := time.Now().Add(prepareTimeout); !readsInput(p.pid); {
		select {
		case <-p.exited:
			p.ends.closeOurs()
			return reply{}, errors.New("the prepared command ended")
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = unix.Kill(-p.pid, unix.SIGKILL)
			p.ends.closeOurs()
			return reply{}, fmt.Errorf("the prepared command reads no input within %v", prepareTimeout)
		}
	}
	c.agent.mu.Lock()
	c.agent.prepared = p
	c.agent.mu.Unlock()
	return reply{}, nil
}

// readsInput tells whether a thread of the process is in read(0, ...), by
// /proc/PID/task/TID/syscall (proc(5)).
func readsInput(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, t := range threads {
		b, _ := os.ReadFile(t)
		if strings.HasPrefix(string(b), fmt.Sprintf("%d 0x0 ", unix.SYS_READ)) {
			return true
		}
	}
	return false
}

// takePrepared gives the prepared process for the request it was prepared for.
func (a *agent) takePrepared(req *execRequest) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.prepared
	if p == nil || !reflect.DeepEqual(p.req, req) {
		return nil
	}
	a.prepared = nil
	return p
}

// dropPrepared ends the prepared process: what it was prepared in has changed.
func (a *agent) dropPrepared() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.prepared != nil {
		_ = unix.Kill(-a.prepared.pid, unix.SIGKILL)
		a.prepared.ends.closeOurs()
		a.prepared = nil
	}
}

// follow passes window sizes on until the command has ended.
func (c *call) follow(pid int, exited <-chan syscall.WaitStatus, ends *ends) syscall.WaitStatus {
	cancel := c.cancel
	for {
		select {
		case ws := <-exited:
			return ws
		case size := <-c.resize:
			if ends.err == nil {
				setSize(ends.out, size)
			}
		case <-cancel:
			_ = unix.Kill(-pid, unix.SIGKILL)
			cancel = nil
		}
	}
}

func setSize(terminal *os.File, size [2]uint16) {
	// Not through Fd, which would make the descriptor block.
	if raw, err := terminal.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size[0], Col: size[1]})
		})
	}
}

// ends are both sides of a command's standard streams. With a terminal, in and
// out are the same file and err is nil.
type ends struct {
	in, out, err *os.File
	child        [3]*os.File
}

func openEnds(req *execRequest) (*ends, error) {
	if req.TTY {
		return openTerminal(req.Rows, req.Cols)
	}
	e := &ends{}
	var err error
	if e.child[0], e.in, err = os.Pipe(); err != nil {
		return nil, err
	}
	if e.out, e.child[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	if e.err, e.child[2], err = os.Pipe(); err != nil {
		return nil, err
	}
	return e, nil
}

func openTerminal(rows, cols uint16) (*ends, error) {
	fd, err := unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("number of the terminal: %w", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		return nil, fmt.Errorf("size of the terminal: %w", err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "ptmx")
	return &ends{in: f, out: f, child: [3]*os.File{tty, tty, tty}}, nil
}

func (e *ends) closeChild() {
	for _, f := range e.child {
		f.Close()
	}
}

func (e *ends) closeOurs() {
	e.in.Close()
	e.out.Close()
	if e.err != nil {
		e.err.Close()
	}
}

// copyOut copies until the end of file; once the read deadline has passed, only
// what can be read without waiting.
func copyOut(w io.Writer, f *os.File) {
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return // EOF, or EIO once the terminal's other side is closed
		}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			n, err := unix.Read(int(fd), buf)
			if n <= 0 || err != nil {
				return
			}
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
		}
	})
}

// lookPath finds the program by the PATH of the command, not by the agent's.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, v := range env {
		if dirs, ok := strings.CutPrefix(v, "PATH="); ok {
			for dir := range strings.SplitSeq(dirs, ":") {
				p := dir + "/" + name
				if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
					return p, nil
				}
			}
		}
	}
	return "", exec.ErrNotFound
}
