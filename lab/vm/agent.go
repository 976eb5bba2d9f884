package vm

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Places in the guest.
const (
	agentDir      = "/run/seg6lab"
	agentPath     = agentDir + "/agent"    // the agent's program
	modprobePath  = agentDir + "/modprobe" // the same, by the name that makes it modprobe
	modulesSocket = agentDir + "/modules.sock"
	initModules   = "/modules" // of the initramfs
)

// guestVariable is set by the kernel command line in the environment of PID 1,
// so that a seg6lab that is PID 1 of a container does not take itself for the agent.
const guestVariable = "SEG6LAB_GUEST"

// IsInit says whether this process is PID 1 of a guest, and then has to call
// nothing but Init.
func IsInit() bool { return os.Getpid() == 1 && os.Getenv(guestVariable) != "" }

// Init is the guest's PID 1: it sets the guest up, then serves the host until
// the host goes away or says so. It never returns.
func Init() {
	err := runAgent()
	// What the console shows is all that the host can show of a failed agent.
	fmt.Fprintf(os.Stderr, "seg6lab agent: %v\n", err)
	powerOff()
}

func powerOff() {
	unix.Sync()
	for {
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
		time.Sleep(time.Second) // without ACPI the call returns; PID 1 must not
	}
}

// agent is the guest's side of the connection.
type agent struct {
	out      *frameWriter
	children children

	mu      sync.Mutex
	calls   map[uint32]*call
	waiting map[uint32]chan reply // calls that the guest opened
	nextOwn atomic.Uint32

	prepared *process // started before it was asked for, under mu
}

// call is one operation under way.
type call struct {
	agent  *agent
	id     uint32
	req    request
	in     *inbox
	resize chan [2]uint16
	cancel chan struct{}
	once   sync.Once
}

func (c *call) stop() {
	c.once.Do(func() { close(c.cancel) })
	c.in.close(errors.New("cancelled by the host"))
}

func (c *call) stdout() io.Writer { return stream{c.agent.out, kindOutput, c.id} }
func (c *call) stderr() io.Writer { return stream{c.agent.out, kindErrors, c.id} }

// operations are what the host can ask for.
var operations = map[string]func(*call) (reply, error){
	"exec":     (*call).exec,
	"prepare":  (*call).prepare,
	"push":     (*call).push,
	"pull":     (*call).pull,
	"modules":  (*call).loadModules,
	"fresh":    (*call).fresh,
	"root":     (*call).enterRoot,
	"shutdown": (*call).shutdown,
}

func runAgent() error {
	if err := setUpGuest(); err != nil {
		return err
	}
	if err := loadInitModules(); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	a := &agent{out: &frameWriter{w: port}, calls: map[uint32]*call{}, waiting: map[uint32]chan reply{}}
	a.children.start()
	if err := a.serveModprobe(); err != nil {
		return err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	build, err := buildOf("/proc/self/exe")
	if err != nil {
		return err
	}
	b, err := json.Marshal(hello{Release: unix.ByteSliceToString(uts.Release[:]), Build: build})
	if err != nil {
		return err
	}
	if err := a.out.write(kindReady, 0, b); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return a.serve(bufio.NewReaderSize(port, maxFrame))
}

// virtioPort is the character device of the port. Its reads block in the
// kernel: a port whose host is away reports end of file at once, which Go's
// poller would take for readiness.
type virtioPort int

func (p virtioPort) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(p), b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			err = io.EOF
		}
		return max(n, 0), err
	}
}

func (p virtioPort) Write(b []byte) (n int, err error) {
	for n < len(b) {
		m, err := unix.Write(int(p), b[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

const portName = "seg6lab"

// openPort waits for the port to appear and for the host to be at its end.
func openPort() (virtioPort, error) {
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			if b, err := os.ReadFile(n); err != nil || strings.TrimSpace(string(b)) != portName {
				continue
			}
			fd, err := unix.Open("/dev/"+filepath.Base(filepath.Dir(n)), unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return 0, fmt.Errorf("open the virtio-serial port: %w", err)
			}
			if err := waitHost(fd, deadline); err != nil {
				return 0, err
			}
			return virtioPort(fd), nil
		}
		time.Sleep(2 * time.Millisecond) // sysfs announces nothing that could be waited for
	}
	return 0, errors.New("no virtio-serial port: the kernel lacks VIRTIO_CONSOLE or VIRTIO_PCI")
}

// waitHost returns once the port is connected: until then it reports a hang-up.
func waitHost(fd int, deadline time.Time) error {
	for time.Now().Before(deadline) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, err := unix.Poll(p, 100); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if p[0].Revents&unix.POLLHUP == 0 && p[0].Revents&unix.POLLOUT != 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("nobody at the other end of the virtio-serial port")
}

func (a *agent) serve(r *bufio.Reader) error {
	for {
		f, err := readFrame(r)
		if err != nil {
			return fmt.Errorf("read from the host: %w", err)
		}
		if err := a.dispatch(f); err != nil {
			return err
		}
	}
}

func (a *agent) dispatch(f frame) error {
	a.mu.Lock()
	c := a.calls[f.call]
	w := a.waiting[f.call]
	a.mu.Unlock()
	switch f.kind {
	case kindRequest:
		return a.open(f)
	case kindReply:
		var r reply
		if err := json.Unmarshal(f.data, &r); err != nil {
			return fmt.Errorf("%w: reply: %w", errFrame, err)
		}
		if w != nil {
			w <- r
		}
	case kindInput, kindResize, kindCancel:
		if c != nil { // else it was on its way when the call ended
			return c.take(f)
		}
	default:
		return fmt.Errorf("%w: kind %d from the host", errFrame, f.kind)
	}
	return nil
}

func (c *call) take(f frame) error {
	switch f.kind {
	case kindInput:
		return c.in.put(f.data)
	case kindResize:
		if len(f.data) != 4 {
			return fmt.Errorf("%w: resize of %d bytes", errFrame, len(f.data))
		}
		select {
		case c.resize <- [2]uint16{binary.LittleEndian.Uint16(f.data), binary.LittleEndian.Uint16(f.data[2:])}:
		default: // a newer size follows a drag of the window
		}
	case kindCancel:
		c.stop()
	}
	return nil
}

func (a *agent) open(f frame) error {
	c := &call{agent: a, id: f.call, resize: make(chan [2]uint16, 4), cancel: make(chan struct{})}
	c.in = newInbox(func(n int) error {
		return a.out.write(kindCredit, c.id, binary.LittleEndian.AppendUint32(nil, uint32(n)))
	})
	if err := json.Unmarshal(f.data, &c.req); err != nil {
		return fmt.Errorf("%w: request: %w", errFrame, err)
	}
	op := operations[c.req.Op]
	if op == nil {
		return a.finish(c.id, reply{Error: "the agent knows no operation " + c.req.Op})
	}
	a.mu.Lock()
	a.calls[c.id] = c
	a.mu.Unlock()
	go func() {
		r, err := op(c)
		if err != nil {
			r.Error = err.Error()
		}
		a.mu.Lock()
		delete(a.calls, c.id)
		a.mu.Unlock()
		c.stop()
		if err := a.finish(c.id, r); err != nil {
			fmt.Fprintf(os.Stderr, "seg6lab agent: answer call %d: %v\n", c.id, err)
		}
	}()
	return nil
}

func (a *agent) finish(id uint32, r reply) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return a.out.write(kindReply, id, b)
}

// askHost opens a call to the host and waits for its reply.
func (a *agent) askHost(req request) (reply, error) {
	b, err := json.Marshal(req)
	if err != nil {
		return reply{}, err
	}
	id := a.nextOwn.Add(1) | guestCall
	answer := make(chan reply, 1)
	a.mu.Lock()
	a.waiting[id] = answer
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.waiting, id)
		a.mu.Unlock()
	}()
	if err := a.out.write(kindRequest, id, b); err != nil {
		return reply{}, err
	}
	return <-answer, nil
}

func (c *call) shutdown() (reply, error) {
	c.agent.finish(c.id, reply{})
	powerOff()
	return reply{}, nil
}

// fresh makes what two guests restored from one image must not share.
func (c *call) fresh() (reply, error) {
	tv := unix.NsecToTimeval(c.req.Clock)
	if err := unix.Settimeofday(&tv); err != nil {
		return reply{}, fmt.Errorf("set the clock: %w", err)
	}
	if err := reseed(c.req.Seed); err != nil {
		return reply{}, fmt.Errorf("seed the random number generator: %w", err)
	}
	return reply{}, nil
}

// serveModprobe answers the modprobe helper, in which the kernel and commands ask for modules.
func (a *agent) serveModprobe() error {
	l, err := net.Listen("unix", modulesSocket)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				fmt.Fprintf(os.Stderr, "seg6lab agent: modules: %v\n", err)
				return
			}
			go a.serveModules(conn)
		}
	}()
	return nil
}

func (a *agent) serveModules(conn net.Conn) {
	defer conn.Close()
	var names []string
	if err := json.NewDecoder(conn).Decode(&names); err != nil {
		return
	}
	r, err := a.askHost(request{Op: "modules", Names: names})
	if err != nil {
		r.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(r)
}
