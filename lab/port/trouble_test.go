package port

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

// TestNameTaken: where another device has the port's names by now, everything else
// comes back, the error says so, and the names come back once they are free.
func TestNameTaken(t *testing.T) {
	for _, c := range []struct{ name, taken, free, want string }{
		{"name", "ip link add p0 type veth peer name other", "ip link del p0", "name: another device is called p0"},
		{"altname", "ip link property add dev cable altname enp9s0", "ip link property del dev cable altname enp9s0", "alternative names: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.rich()
			was := b.settled()
			if _, err := Bind(b.binding()); err != nil {
				t.Fatal(err)
			}
			b.ip("%s", c.taken)
			var incomplete *RestoreError
			if err := b.release(); !errors.As(err, &incomplete) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if out, err := exec.Command("ip", "addr", "show", "to", "192.0.2.1").Output(); err != nil || len(out) == 0 {
				t.Errorf("the address is not back: %v", err)
			}
			b.ip("%s", c.free)
			if err := b.release(); err != nil {
				t.Fatal(err)
			}
			b.same(was)
			b.nothingLeft()
		})
	}
}

// TestNamespaceLost: the namespace has no name any more, but a process is in it.
func TestNamespaceLost(t *testing.T) {
	b := newBench(t)
	was := b.settled()
	if _, err := Bind(b.binding()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nsenter", "--net="+filepath.Join(NetnsDir, "s6.lab.r"), "sh", "-c", "echo inside; cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	b.node.close()
	b.node = nil
	b.ip("ip netns del s6.lab.r")
	if f, err := List(false); err != nil || len(f) != 1 || f[0].Name != "p0" || f[0].State != Lost {
		t.Errorf("%+v, %v", f, err)
	}
	if err := b.release(); err != nil {
		t.Fatal(err)
	}
	b.same(was)
	b.nothingLeft()
}

// TestMissing: the port is gone for good, as a veth is with its namespace. Its record
// stays until somebody says otherwise.
func TestMissing(t *testing.T) {
	b := newBench(t)
	if _, err := Bind(b.binding()); err != nil {
		t.Fatal(err)
	}
	b.node.close()
	b.node = nil
	b.ip("ip netns del s6.lab.r")
	// The kernel removes the namespace later.
	b.ip("for i in $(seq 100); do ip link show cable >/dev/null 2>&1 || exit 0; sleep 0.1; done; exit 1")
	for range 2 {
		var missing *MissingError
		if err := b.release(); !errors.As(err, &missing) {
			t.Fatalf("got %v", err)
		}
	}
	if f, err := List(false); err != nil || len(f) != 1 || f[0].Name != "p0" || f[0].State != Missing || f[0].End != "r:in" {
		t.Errorf("%+v, %v", f, err)
	}
	// Another port of that name is not it.
	b.ip("ip link add p0 type veth peer name cable && ip link set p0 mtu 1444")
	var missing *MissingError
	if err := b.release(); !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
	records, _ := Records()
	if lost, err := records[0].Forget(); !errors.As(lost, &missing) || err != nil {
		t.Errorf("got %v, %v", lost, err)
	}
	b.nothingLeft()
	b.ip("ip link show dev p0 | grep -q 'mtu 1444'")
}

// TestNextBoot: what was recorded before the machine started anew is of no use, and
// keeps nobody from the port.
func TestNextBoot(t *testing.T) {
	b := newBench(t)
	reboot := func() {
		t.Helper()
		if _, err := Bind(b.binding()); err != nil {
			t.Fatal(err)
		}
		b.ip(`nsenter --net=/run/netns/s6.lab.r ip link set in name p0 netns $$ alias ''
			boot=$(cat /proc/sys/kernel/random/boot_id)
			sed -i "s/$boot/00000000-0000-0000-0000-000000000000/" $SEG6LAB_STATE/ports/*.json`)
	}
	reboot()
	binding := b.binding()
	binding.Force = false
	if err := Check(map[string]*topology.Port{"r:in": binding.Port}, false); err != nil {
		t.Error(err)
	}
	if f, err := List(true); err != nil {
		t.Error(err)
	} else if p, err := choose(f, binding.Port); err != nil || p.State != Free {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Bind(binding); err != nil {
		t.Fatal(err)
	}
	if err := b.release(); err != nil {
		t.Error(err)
	}
	b.nothingLeft()
	reboot()
	now := b.look()
	if err := b.release(); err != nil {
		t.Error(err)
	}
	b.same(now)
	b.nothingLeft()
}

// TestTwoAtOnce: of two labs that want a port, one gets it.
func TestTwoAtOnce(t *testing.T) {
	b := newBench(t)
	was := b.settled()
	b.ip("ip netns add s6.other.x")
	other, err := openNamespace(filepath.Join(NetnsDir, "s6.other.x"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	bindings := []Binding{b.binding(), b.binding()}
	bindings[1].Lab, bindings[1].Netns = "other", "s6.other.x"
	bindings[1].Handle = handle(other)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range bindings {
		bindings[i].Force = false
		wg.Go(func() { _, errs[i] = Bind(bindings[i]) })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("%v, %v", errs[0], errs[1])
	}
	loser := 0
	if errs[0] == nil {
		loser = 1
	}
	var inUse *InUseError
	if !errors.As(errs[loser], &inUse) || inUse.Record.Lab != bindings[1-loser].Lab {
		t.Errorf("got %v", errs[loser])
	}
	// By force it changes hands, and still knows what it was.
	bindings[loser].Force = true
	if _, err := Bind(bindings[loser]); err != nil {
		t.Error(err)
	}
	if err := b.release(); err != nil {
		t.Error(err)
	}
	b.same(was)
	b.nothingLeft()
}

// TestDamagedRecord: it is told of, and keeps nobody else from a port.
func TestDamagedRecord(t *testing.T) {
	b := newBench(t)
	if _, err := Bind(b.binding()); err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(Dir(), "*.json"))
	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"", string(whole[:len(whole)/2]), "{}", strings.Replace(string(whole), `"Version": 1`, `"Version": 2`, 1), "\x00\x00"} {
		if err := os.WriteFile(paths[0], []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		var bad *DamagedError
		if err := b.release(); !errors.As(err, &bad) || !strings.Contains(err.Error(), paths[0]) {
			t.Errorf("got %v", err)
		}
		if _, err := Bind(b.binding()); err == nil || !strings.Contains(err.Error(), paths[0]) {
			t.Errorf("bind gives %v", err)
		}
		binding := b.binding()
		binding.Port, binding.End.Dev = &topology.Port{Name: "cable"}, "cable"
		if _, err := Bind(binding); err != nil {
			t.Errorf("another port: %v", err)
		}
		if err := b.release(); !errors.As(err, &bad) {
			t.Errorf("got %v", err)
		}
		b.ip("ip link show dev cable")
	}
	// Somebody brought the port home, so that nothing but its alias speaks of the lab.
	b.ip("nsenter --net=/run/netns/s6.lab.r ip link set in name p0 netns $$")
	if _, err := Bind(b.binding()); err == nil || !strings.Contains(err.Error(), paths[0]) {
		t.Errorf("bind gives %v", err)
	}
	if _, err := os.Stat(paths[0]); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(paths[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.release(); err != nil {
		t.Error(err)
	}
	b.nothingLeft()
}

// TestDiskFull: without a record nothing is changed.
func TestDiskFull(t *testing.T) {
	b := newBench(t)
	b.rich()
	was := b.settled()
	if err := os.MkdirAll(Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("test", Dir(), "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(Dir(), unix.MNT_DETACH)
	_, err := Bind(b.binding())
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("got %v", err)
	}
	b.same(was)
	b.nothingLeft()
}

// TestCannotMove: the node has a device of the name.
func TestCannotMove(t *testing.T) {
	b := newBench(t)
	b.rich()
	was := b.settled()
	b.ip("ip -n s6.lab.r link add in type veth peer name x")
	if _, err := Bind(b.binding()); err == nil || !strings.Contains(err.Error(), "p0") || !strings.Contains(err.Error(), "node r as in") {
		t.Errorf("got %v", err)
	}
	b.same(was)
	b.nothingLeft()
}
