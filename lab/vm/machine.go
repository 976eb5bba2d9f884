// Package vm boots a kernel in QEMU and runs commands in it. The program that
// uses the package is itself PID 1 of the guest, where it takes work over a
// virtio-serial port. It knows nothing of labs: what a guest runs, it is told.
//
// A program that boots guests calls Main first thing in its main.
package vm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
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
