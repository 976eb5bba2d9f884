package port_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/forwarder/port"
)

func frame(n int) []byte {
	b := make([]byte, n)
	copy(b, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
	for i := 14; i < n; i++ {
		b[i] = byte(i)
	}
	return b
}

// exchange sends frames of every size class from a to b.
func exchange(t *testing.T, a, b port.Port) {
	t.Helper()
	s, err := a.Sender()
	if err != nil {
		t.Fatal(err)
	}
	var want [][]byte
	for i := range 200 {
		want = append(want, frame(60+i))
	}
	want = append(want, frame(1514), frame(3000))
	for _, f := range want {
		if err := s.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	guard := time.AfterFunc(10*time.Second, b.Stop)
	defer guard.Stop()
	for len(got) < len(want) {
		if err := b.Queues()[0].Receive(func(f []byte) {
			if bytes.Equal(f[12:14], []byte{0x88, 0xb5}) {
				got = append(got, bytes.Clone(f))
			}
		}); err != nil {
			t.Fatalf("after %d of %d frames: %v", len(got), len(want), err)
		}
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("frame %d: got %x, want %x", i, got[i], want[i])
		}
	}
}

func TestMemory(t *testing.T) {
	a, b := port.Pair("a", "b")
	exchange(t, a, b)
	exchange(t, b, a)
	stops(t, a)
}

func TestDevices(t *testing.T) {
	for _, kind := range []port.Kind{port.Packet, port.XDPGeneric, port.XDPNative} {
		t.Run(string(kind), func(t *testing.T) { testDevices(t, kind) })
	}
}

func testDevices(t *testing.T, kind port.Kind) {
	inNamespace(t, func() {
		a, b := open(t, "a", kind), open(t, "b", kind)
		exchange(t, a, b)
		exchange(t, b, a)
		stops(t, a)
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		if _, err := port.Open("nosuch", kind); err == nil {
			t.Error("a device that does not exist was opened")
		}
	})
}

// TestQueues: each queue of a device is served, and what is sent on one is received
// on the other end's queue of the same number, as a veth does with native XDP.
func TestQueues(t *testing.T) {
	for _, row := range []struct{ receive, transmit int }{{3, 3}, {3, 1}} {
		t.Run(fmt.Sprintf("%d,%d", row.receive, row.transmit), func(t *testing.T) {
			inNamespace(t, func() { testQueues(t, row.receive, row.transmit) })
		})
	}
}

func testQueues(t *testing.T, receive, transmit int) {
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "d", PeerNumTxQueues: uint32(transmit), PeerNumRxQueues: uint32(receive)}
	v.Name, v.NumTxQueues, v.NumRxQueues = "c", transmit, receive
	if err := netlink.LinkAdd(v); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c", "d"} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c, d := open(t, "c", port.XDPNative), open(t, "d", port.XDPNative)
	want := "(copy, 1 queue)"
	if receive > 1 {
		want = fmt.Sprintf("(copy, %d queues)", receive)
	}
	if !strings.HasSuffix(d.String(), want) {
		t.Errorf("the port is %s, want %s", d, want)
	}
	guard := time.AfterFunc(10*time.Second, d.Stop)
	defer guard.Stop()
	for i := range receive {
		s, err := c.Sender()
		if err != nil {
			t.Fatal(err)
		}
		want := frame(100 + i)
		if err := errors.Join(s.Send(want), s.Flush()); err != nil {
			t.Fatal(err)
		}
		on := i % min(receive, transmit)
		for found := false; !found; {
			if err := d.Queues()[on].Receive(func(f []byte) {
				if bytes.Equal(f[12:14], want[12:14]) {
					found = true
					if !bytes.Equal(f, want) {
						t.Errorf("queue %d: got %x, want %x", on, f, want)
					}
				}
			}); err != nil {
				t.Fatalf("queue %d: %v", on, err)
			}
		}
	}
	if err := errors.Join(c.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestPartialChecksum: the kernel leaves the checksum of what its sockets send to
// a veth device, which has none to compute.
func TestPartialChecksum(t *testing.T) {
	inNamespace(t, func() {
		a, err := netlink.LinkByName("a")
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range []string{"10.0.0.1/24", "2001:db8::1/64"} {
			parsed, err := netlink.ParseAddr(addr)
			if err != nil {
				t.Fatal(err)
			}
			parsed.Flags = unix.IFA_F_NODAD
			if err := netlink.AddrAdd(a, parsed); err != nil {
				t.Fatal(err)
			}
		}
		for _, to := range []string{"10.0.0.2", "2001:db8::2"} {
			neighbour := &netlink.Neigh{LinkIndex: a.Attrs().Index, IP: net.ParseIP(to), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2}, State: netlink.NUD_PERMANENT}
			if err := netlink.NeighSet(neighbour); err != nil {
				t.Fatal(err)
			}
		}
		b := open(t, "b", port.Packet)
		defer b.Close()
		guard := time.AfterFunc(10*time.Second, b.Stop)
		defer guard.Stop()
		for _, row := range []struct {
			to, payload  string
			ip, checksum int // offsets of the addresses and of the checksum
			length       int // of the addresses
		}{
			{"10.0.0.2", "even", 26, 40, 8}, {"10.0.0.2", "odd", 26, 40, 8},
			{"2001:db8::2", "even", 22, 60, 32}, {"2001:db8::2", "odd", 22, 60, 32},
		} {
			conn, err := net.Dial("udp", net.JoinHostPort(row.to, "9"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte(row.payload)); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			for found := false; !found; {
				if err := b.Queues()[0].Receive(func(f []byte) {
					if !bytes.HasSuffix(f, []byte(row.payload)) {
						return
					}
					found = true
					// The sum over pseudo header and datagram (RFC 768) is 0xffff.
					datagram := f[row.ip+row.length:]
					sum := uint32(17 + len(datagram))
					for _, part := range [][]byte{f[row.ip : row.ip+row.length], datagram} {
						for i, x := range part {
							sum += uint32(x) << (8 * (1 - i%2))
						}
					}
					for sum > 0xffff {
						sum = sum>>16 + sum&0xffff
					}
					if sum != 0xffff {
						t.Errorf("to %s: checksum %x of %x: the sum is %#x", row.to, f[row.checksum:row.checksum+2], f, sum)
					}
				}); err != nil {
					t.Fatalf("receive what was sent to %s: %v", row.to, err)
				}
			}
		}
	})
}

// stops: Stop ends a Receive that waits, and later ones.
func stops(t *testing.T, p port.Port) {
	t.Helper()
	done := make(chan error)
	go func() { done <- p.Queues()[0].Receive(func([]byte) {}) }()
	p.Stop()
	for range 2 {
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, port.ErrStopped) {
				t.Errorf("%s: %v", p, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: Stop did not end Receive", p)
		}
		go func() { done <- p.Queues()[0].Receive(func([]byte) {}) }()
	}
	<-done
}

func open(t *testing.T, device string, kind port.Kind) port.Port {
	t.Helper()
	p, err := port.Open(device, kind)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inNamespace runs f on a thread in a new namespace with a veth pair a, b.
func inNamespace(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	done := make(chan error)
	go func() {
		defer close(done)      // A failed test leaves in the middle.
		runtime.LockOSThread() // The thread ends with the goroutine.
		done <- func() error {
			h, err := netns.New()
			if err != nil {
				return fmt.Errorf("new namespace: %w", err)
			}
			defer h.Close()
			v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "b"}
			v.Name, v.MTU = "a", 3400
			if err := netlink.LinkAdd(v); err != nil {
				return fmt.Errorf("veth pair: %w", err)
			}
			for _, name := range []string{"a", "b"} {
				l, err := netlink.LinkByName(name)
				if err != nil {
					return err
				}
				if err := errors.Join(netlink.LinkSetMTU(l, 3400), netlink.LinkSetUp(l)); err != nil {
					return fmt.Errorf("raise %s: %w", name, err)
				}
			}
			f()
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
