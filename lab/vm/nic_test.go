package vm

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseNIC(t *testing.T) {
	for s, want := range map[string]NIC{
		"e1000e": {Model: "e1000e"}, "vmxnet3@left": {"vmxnet3", "left"},
		"": {}, "e1000f": {}, "e1000e@": {}, "@a": {},
	} {
		n, err := ParseNIC(s)
		if n != want || (err != nil) != (want == NIC{}) {
			t.Errorf("%q: %v, %v", s, n, err)
		}
		if err == nil && n.String() != s {
			t.Errorf("%q is printed as %q", s, n)
		}
	}
}

// TestNICArgs: what has the same cable is on one hub, and nothing else is.
func TestNICArgs(t *testing.T) {
	args := nicArgs([]NIC{{"e1000e", "a"}, {"e1000e", ""}, {"vmxnet3", "b"}, {"vmxnet3", "a"}, {"vmxnet3", ""}})
	var hubs []string
	for i := 1; i < len(args); i += 4 {
		_, hub, _ := strings.Cut(args[i], "hubid=")
		hubs = append(hubs, hub)
	}
	if len(hubs) != 5 || hubs[0] != hubs[3] {
		t.Fatalf("hubs %v", hubs)
	}
	if alone := []string{hubs[0], hubs[1], hubs[2], hubs[4]}; len(slices.Compact(slices.Sorted(slices.Values(alone)))) != 4 {
		t.Errorf("hubs %v", hubs)
	}
}

// TestNICs: frames cross a cable, a cable can be pulled and a device unplugged.
func TestNICs(t *testing.T) {
	needRoot(t)
	k := testKernel(t)
	if _, err := Boot(t.Context(), Config{Kernel: k, NICs: []NIC{{Model: "e1000e"}}}); !errors.Is(err, ErrNoNIC) {
		t.Errorf("a driver that the cloud kernel lacks: %v", err)
	}
	m := bootTest(t, Config{Kernel: k, HostFiles: true, NICs: []NIC{{"vmxnet3", "a"}, {"virtio-net-pci", "a"}, {Model: "virtio-net-pci"}}})
	shell := func(line string) string {
		t.Helper()
		var out bytes.Buffer
		exit, err := m.Run(t.Context(), Cmd{Args: []string{"/bin/sh", "-c", line}, Stdout: &out, Stderr: &out})
		if err != nil || exit != 0 {
			t.Fatalf("%s: exit %d, %v\n%s", line, exit, err, &out)
		}
		return strings.TrimSpace(out.String())
	}
	until := func(line, want string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; {
			got := shell(line)
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %q, want %q", line, got, want)
			}
		}
	}
	for i, dev := range []string{"eth0", "eth1", "eth2"} {
		if got := shell("cat /sys/class/net/" + dev + "/address"); got != NICMAC(i) {
			t.Errorf("%s has the address %s, want %s", dev, got, NICMAC(i))
		}
	}
	shell("ip netns add far && ip link set eth1 netns far && ip link set eth0 up && ip -n far link set eth1 up")
	shell("ip -6 addr add fd00::1/64 dev eth0 nodad && ip -n far -6 addr add fd00::2/64 dev eth1 nodad")
	until("ping -q -c 1 -W 1 fd00::2 >/dev/null; echo $?", "0")

	if err := m.SetCarrier(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}
	until("cat /sys/class/net/eth0/carrier", "0")
	if err := m.SetCarrier(t.Context(), 0, true); err != nil {
		t.Fatal(err)
	}
	until("cat /sys/class/net/eth0/carrier", "1")

	if err := m.Unplug(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	until("ls -d /sys/class/net/eth2 2>/dev/null; true", "")
}
