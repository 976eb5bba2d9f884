package vm

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The lines are as kernels print them: 6.12 unless the comment says otherwise.
func TestClassify(t *testing.T) {
	for _, tt := range []struct{ line, kind string }{
		{"[    1.234567] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100", "panic"},
		{"[    3.015846] Kernel panic - not syncing: No working init found.  Try passing init= option to kernel.", "panic"},
		{"BUG: kernel NULL pointer dereference, address: 0000000000000008", "oops"},
		{"BUG: unable to handle page fault for address: ffffa2d5c0021000", "oops"},
		{"Oops: 0002 [#1] PREEMPT SMP NOPTI", "oops"},
		{"Oops: general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP", "oops"},
		{"general protection fault, probably for non-canonical address 0x6b6b6b6b6b6b6b6b: 0000 [#1]", "oops"}, // 6.1
		{"kernel BUG at net/core/skbuff.c:192!", "oops"},
		{"BUG: scheduling while atomic: ip/412/0x00000201", "oops"},
		{"BUG: sleeping function called from invalid context at mm/slab.h:306", "oops"},
		{"WARNING: CPU: 0 PID: 412 at net/core/dev.c:6789 __netif_receive_skb_core+0x1f/0x40", "warning"},
		{"WARNING: net/core/dev.c:6789 at __netif_receive_skb_core+0x1f/0x40, CPU#0: ip/412", "warning"}, // 6.19
		{"WARNING: possible circular locking dependency detected", "lockdep"},
		{"WARNING: possible recursive locking detected", "lockdep"},
		{"WARNING: inconsistent lock state", "lockdep"},
		{"WARNING: suspicious RCU usage", "lockdep"},
		{"WARNING: lock held when returning to user space!", "lockdep"},
		{"WARNING: bad unlock balance detected!", "lockdep"},
		{"INFO: trying to register non-static key.", "lockdep"},
		{"BUG: spinlock bad magic on CPU#0, ip/412", "lockdep"},
		{"BUG: KASAN: slab-out-of-bounds in seg6_do_srh_encap+0x1a2/0x4b0", "KASAN"},
		{"BUG: KASAN: slab-use-after-free in dst_release+0x2c/0x90", "KASAN"},
		{"BUG: KFENCE: out-of-bounds write in seg6_do_srh+0x12/0x80", "KFENCE"},
		{"BUG: KCSAN: data-race in fib6_add / rt6_select", "KCSAN"},
		{"UBSAN: array-index-out-of-bounds in net/ipv6/seg6_iptunnel.c:123:4", "UBSAN"},
		{"BUG kmalloc-512 (Not tainted): Right Redzone overwritten", "slab corruption"},
		{"BUG: Bad page state in process ip  pfn:12345", "page state"},
		{"ip invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0", "out of memory"},
		{"Out of memory: Killed process 77 (agent) total-vm:1238016kB, anon-rss:301232kB", "out of memory"},
		{"Memory cgroup out of memory: Killed process 77 (x)", "out of memory"},
		{"INFO: task ip:412 blocked for more than 120 seconds.", "hung task"},
		{"watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [ip:412]", "soft lockup"},
		{"rcu: INFO: rcu_preempt self-detected stall on CPU", "RCU stall"},
		{"rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "RCU stall"},
		{"unregister_netdevice: waiting for veth0 to become free. Usage count = 2", "reference leak"},
		{"kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)", "memory leak"},

		{"[    1.216014] acpi PNP0A03:00: fail to add MMCONFIG information, can't access extended configuration space under this bridge", ""},
		{"[    1.982951] amd_pstate: the _CPC object is not present in SBIOS or ACPI disabled", ""},
		{"virtio-fs: tag <host> not found", ""},
		{"ip (412) used greatest stack depth: 12345 bytes left", ""},
		{"Warning: Strict mode for VRF is disabled.", ""},
		{"random: crng init done", ""},
		{"evm: overlay not supported", ""},
		{"IPv6: ADDRCONF(NETDEV_CHANGE): veth0: link becomes ready", ""},
		{"a test prints DEBUG: Oopsie", ""},
	} {
		got, _ := classify(tt.line)
		if got != tt.kind {
			t.Errorf("%q is %q, want %q", tt.line, got, tt.kind)
		}
	}
}

const oopsLog = `[    5.1] eth0: link up
[    6.100000] ------------[ cut here ]------------
[    6.200000] WARNING: CPU: 0 PID: 9 at net/ipv6/seg6.c:1 f+0x1/0x2
[    6.300000] Modules linked in: vrf veth
[    6.400000]  f+0x1/0x2
[    6.500000] ---[ end trace 0000000000000000 ]---
`

func TestConsoleShowsTheLogAroundAReport(t *testing.T) {
	found := make(chan *Report, 2)
	c := &console{found: func(r *Report) { found <- r }}
	// As bytes come from a serial line: cut anywhere, with carriage returns.
	wire := strings.ReplaceAll(oopsLog, "\n", "\r\n")
	for i := 0; i < len(wire); i += 7 {
		c.add([]byte(wire[i:min(i+7, len(wire))]))
	}
	var r *Report
	select {
	case r = <-found:
	case <-time.After(10 * time.Second):
		t.Fatal("no report")
	}
	if r.Kind != "warning" || r.Line != "WARNING: CPU: 0 PID: 9 at net/ipv6/seg6.c:1 f+0x1/0x2" {
		t.Errorf("report %q: %q", r.Kind, r.Line)
	}
	if want := strings.TrimSuffix(oopsLog, "\n"); r.Log != want {
		t.Errorf("the log is\n%s\nwant\n%s", r.Log, want)
	}
	c.add([]byte("WARNING: CPU: 0 PID: 9 at net/ipv6/seg6.c:1 f+0x1/0x2\n"))
	c.flush()
	if len(found) != 0 {
		t.Error("the second report was told too")
	}
}

func TestConsoleReportsAtItsEnd(t *testing.T) {
	found := make(chan *Report, 1)
	c := &console{found: func(r *Report) { found <- r }}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.WriteString("[ 1.0] Kernel panic - not syncing: sysrq triggered crash\n[ 1.1] CPU: 0\n")
	w.Close()
	c.follow(r)
	select {
	case r := <-found:
		if r.Kind != "panic" || !strings.Contains(r.Log, "CPU: 0") {
			t.Errorf("report %+v", r)
		}
	default:
		t.Error("no report although the console ended")
	}
}

func TestConsoleKeepsLittle(t *testing.T) {
	c := &console{found: func(*Report) {}}
	for range 100 {
		c.add([]byte(strings.Repeat("x", 4095) + "\n"))
	}
	if len(c.text) > consoleKeep {
		t.Errorf("%d bytes kept", len(c.text))
	}
	if n := strings.Count(c.tail(), "\n") + 1; n > tailLines {
		t.Errorf("%d lines in the tail", n)
	}
}
