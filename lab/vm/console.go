package vm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Report is what the guest's kernel complained about.
type Report struct {
	Kind string // panic, oops, warning, lockdep, KASAN, out of memory, ...
	Line string // the line that says so
	Log  string // the console around it
}

func (r *Report) Error() string {
	return fmt.Sprintf("guest kernel: %s: %s\n%s", r.Kind, r.Line, indent(r.Log))
}

// complaints are the reports that fail a run, in the words of the kernel. The
// first row that matches a line names it.
var complaints = []struct{ kind, pattern string }{
	{"KASAN", `BUG: KASAN: `},                                   // mm/kasan/report.c
	{"KCSAN", `BUG: KCSAN: `},                                   // kernel/kcsan/report.c
	{"KFENCE", `BUG: KFENCE: `},                                 // mm/kfence/report.c
	{"KMSAN", `BUG: KMSAN: `},                                   // mm/kmsan/report.c
	{"UBSAN", `UBSAN: `},                                        // lib/ubsan.c
	{"memory leak", `kmemleak: \d+ new suspected memory leaks`}, // mm/kmemleak.c
	{"panic", `Kernel panic - not syncing`},                     // kernel/panic.c
	{"soft lockup", `watchdog: BUG: soft lockup`},               // kernel/watchdog.c
	{"hard lockup", `Watchdog detected hard LOCKUP`},            // kernel/watchdog.c
	{"oops", `BUG: (unable to handle|kernel NULL pointer|scheduling while atomic|sleeping function|workqueue)`},     // arch/x86/mm/fault.c, kernel/sched/core.c
	{"oops", `(kernel BUG at |Oops: |general protection fault|Internal error:|stack-protector:|divide error:)`},     // lib/bug.c, arch/x86/kernel/traps.c
	{"slab corruption", `BUG [\w.-]+ ?(\(.*\))?: `},                                                                 // mm/slub.c, slab_bug
	{"page state", `BUG: Bad (page|rss)`},                                                                           // mm/page_alloc.c
	{"lockdep", `WARNING: (possible|inconsistent|suspicious|bad unlock|nested lock|held lock|lock held|Nested)`},    // kernel/locking/lockdep.c
	{"lockdep", `(INFO: trying to register non-static key|BUG: .*lock.* (bad magic|wrong|recursion|lockup))`},       // kernel/locking
	{"warning", `WARNING: (CPU: \d+ PID: \d+ at |\S+:\d+ at )`},                                                     // kernel/panic.c, __warn
	{"hung task", `INFO: task .* blocked (for more than|in I/O wait for more than)`},                                // kernel/hung_task.c
	{"RCU stall", `rcu: INFO: .* (self-)?detected (expedited )?stall`},                                              // kernel/rcu/tree_stall.h
	{"out of memory", `(invoked oom-killer|Out of memory: |Memory cgroup out of memory: |System is deadlocked on)`}, // mm/oom_kill.c
	{"reference leak", `unregister_netdevice: waiting for `},                                                        // net/core/dev.c
}

// patterns are those of complaints. They are compiled when the first console is
// read, for the agent, which reads none, starts under emulation.
var patterns = sync.OnceValue(func() (compiled []*regexp.Regexp) {
	for _, c := range complaints {
		compiled = append(compiled, regexp.MustCompile(c.pattern))
	}
	return compiled
})

// stamp is what printk.time puts before a line.
var stamp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\[ *\d+\.\d+\] ?)?`) })

func classify(line string) (kind string, ok bool) {
	for i, p := range patterns() {
		if p.MatchString(line) {
			return complaints[i].kind, true
		}
	}
	return "", false
}

const (
	consoleKeep  = 64 << 10               // bytes of console kept
	reportBefore = 10                     // lines shown before the complaint
	reportAfter  = 100                    // lines shown from it on
	reportQuiet  = 300 * time.Millisecond // a report is whole once the console was quiet for so long
	tailLines    = 25                     // lines shown when a guest says nothing of itself
)

// console follows what the guest's kernel prints.
type console struct {
	// found is called once, after the first complaint is whole.
	found func(*Report)

	mu      sync.Mutex
	text    []byte // the last consoleKeep bytes
	partial []byte // a line that has not ended
	kind    string
	line    string
	timer   *time.Timer
	told    bool
}

// follow reads the console to its end. A read and what comes of it are one
// step for whoever holds the lock, so that settled can tell that all is seen.
func (c *console) follow(f *os.File) {
	defer c.flush()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 16<<10)
	for end := false; !end; {
		err := raw.Read(func(fd uintptr) (done bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			n, err := unix.Read(int(fd), buf)
			if n > 0 {
				c.add(buf[:n])
			}
			end = n == 0 || (err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR))
			return !errors.Is(err, unix.EAGAIN)
		})
		end = end || err != nil
	}
}

// settled waits until all that the guest has printed so far is seen, and says
// whether there is a complaint among it.
func (c *console) settled(f *os.File) bool {
	raw, err := f.SyscallConn()
	for err == nil {
		unread, complaint := 0, false
		err = raw.Control(func(fd uintptr) {
			c.mu.Lock()
			defer c.mu.Unlock()
			unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			complaint = c.kind != ""
		})
		if unread == 0 {
			return complaint
		}
		runtime.Gosched()
	}
	return false
}

// add takes what was printed. The lock is held.
func (c *console) add(b []byte) {
	b = bytes.ReplaceAll(b, []byte{'\r'}, nil)
	if c.text = append(c.text, b...); len(c.text) > consoleKeep {
		c.text = append(c.text[:0], c.text[len(c.text)-consoleKeep:]...)
	}
	c.partial = append(c.partial, b...)
	for {
		line, rest, ok := bytes.Cut(c.partial, []byte{'\n'})
		if !ok {
			break
		}
		c.look(string(line))
		c.partial = append(c.partial[:0], rest...)
	}
	if c.timer != nil {
		c.timer.Reset(reportQuiet)
	}
}

func (c *console) look(line string) {
	if c.kind != "" {
		return
	}
	if kind, ok := classify(line); ok {
		c.kind, c.line = kind, stamp().ReplaceAllString(line, "")
		c.timer = time.AfterFunc(reportQuiet, c.flush)
	}
}

// flush tells of a complaint, if there is one.
func (c *console) flush() {
	c.mu.Lock()
	r := c.report()
	tell := r != nil && !c.told
	c.told = c.told || tell
	c.mu.Unlock()
	if tell {
		c.found(r)
	}
}

func (c *console) report() *Report {
	if c.kind == "" {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(c.text), "\n"), "\n")
	at := 0
	for i, l := range lines {
		if strings.HasSuffix(l, c.line) {
			at = i
			break
		}
	}
	return &Report{Kind: c.kind, Line: c.line, Log: strings.Join(lines[max(0, at-reportBefore):min(len(lines), at+reportAfter)], "\n")}
}

// tail is the end of what was printed.
func (c *console) tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.Split(strings.TrimRight(string(c.text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }
