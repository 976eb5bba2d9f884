package traffic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// pair is a veth pair between two new namespaces, west:eth0 and east:eth0.
type pair struct{ west, east netns.NsHandle }

// inside runs f on a thread of its own in a namespace; the thread dies with it.
func inside(t *testing.T, ns netns.NsHandle, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func newPair(t *testing.T) *pair {
	t.Helper()
	needsRoot(t)
	p := &pair{}
	for _, ns := range []*netns.NsHandle{&p.west, &p.east} {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			var err error
			*ns, err = netns.New()
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns.Close() })
	}
	inside(t, p.west, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth0"
		attrs.MTU = 9000
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(p.east)})
	})
	for _, ns := range []netns.NsHandle{p.west, p.east} {
		inside(t, ns, func() error {
			// No IPv6, so that the kernel sends nothing of its own.
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", []byte("1"), 0); err != nil {
				return err
			}
			l, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(l)
		})
	}
	// Before the link is up for the kernel's link watch, its queue drops without a word.
	for _, ns := range []netns.NsHandle{p.west, p.east} {
		inside(t, ns, func() error {
			for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
				l, err := netlink.LinkByName("eth0")
				if err != nil || l.Attrs().OperState == netlink.OperUp {
					return err
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("eth0 is %v", l.Attrs().OperState)
				}
			}
		})
	}
	return p
}

func (p *pair) capture(t *testing.T, dir Direction) *Capture {
	t.Helper()
	c := NewCapture()
	t.Cleanup(func() { c.Close() })
	inside(t, p.west, func() error { return c.Add("west:eth0", "eth0", dir) })
	inside(t, p.east, func() error { return c.Add("east:eth0", "eth0", dir) })
	return c
}

func (p *pair) socket(t *testing.T) *Socket {
	t.Helper()
	var s *Socket
	inside(t, p.west, func() (err error) { s, err = Open("eth0"); return err })
	t.Cleanup(func() { s.Close() })
	return s
}

// ours tells the frames of the test from what the kernel sends.
func ours(f Frame) bool { return len(f.Data) > 12 && bytes.Equal(f.Data[:6], []byte{2, 0, 0, 0, 0, 2}) }

const udpFrame = `Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")%s/IPv6(src="fc00::1", dst="fc00::2")/SRH(addresses=["fc00::3", "fc00::2"])/UDP(sport=4000, dport=5000)/Raw(16)`

func TestNothingIsLost(t *testing.T) {
	p := newPair(t)
	c, s := p.capture(t, Both), p.socket(t)
	back, err := OneCPU() // A sender that changes its CPU can overtake itself.
	if err != nil {
		t.Fatal(err)
	}
	defer back()
	const n = 100_000
	frame := mustBytes(t, mustParse(t, fmt.Sprintf(udpFrame, "")))
	for i := range n {
		frame[len(frame)-4], frame[len(frame)-3], frame[len(frame)-2] = byte(i>>16), byte(i>>8), byte(i)
		if err := s.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	for _, f := range c.Frames(0) {
		if !ours(f) {
			continue
		}
		if f.Out != (f.End == "west:eth0") {
			t.Fatalf("frame at %s: out %v", f.End, f.Out)
		}
		if k := len(f.Data); k != len(frame) || int(f.Data[k-4])<<16|int(f.Data[k-3])<<8|int(f.Data[k-2]) != next[f.End] {
			t.Fatalf("frame %d at %s is %x", next[f.End], f.End, f.Data)
		}
		next[f.End]++
	}
	if next["west:eth0"] != n || next["east:eth0"] != n {
		t.Errorf("captured %v, sent %d", next, n)
	}
}

func TestVLANTagsAreKept(t *testing.T) {
	p := newPair(t)
	c, s := p.capture(t, Incoming), p.socket(t)
	var sent [][]byte
	for _, tags := range []string{
		"", "/Dot1Q(vlan=100, prio=5)", "/Dot1Q(vlan=0)", "/Dot1AD(vlan=7)/Dot1Q(vlan=100)", "/Dot1Q(vlan=4095)/Dot1Q(vlan=1)",
	} {
		f := mustBytes(t, mustParse(t, fmt.Sprintf(udpFrame, tags)))
		if tags == "" {
			f = mustBytes(t, mustParse(t, `Ether(dst="02:00:00:00:00:02", type=0x88b5)/Raw(9000)`)) // as long as the MTU allows
		}
		sent = append(sent, f)
		if err := s.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var got []Frame
	err := c.Wait(ctx, 0, func(fs []Frame) bool {
		for _, f := range fs {
			if ours(f) {
				got = append(got, f)
			}
		}
		return len(got) == len(sent)
	})
	if err != nil {
		t.Fatalf("%d of %d frames: %v", len(got), len(sent), err)
	}
	for i, f := range got {
		if !bytes.Equal(f.Data, sent[i]) || f.Out || f.End != "east:eth0" || time.Since(f.Time) > time.Hour {
			t.Errorf("at %s %v: %s, sent %s", f.End, f.Time, Dissect(f.Data), Dissect(sent[i]))
		}
	}
}

func TestLossIsAnError(t *testing.T) {
	p := newPair(t)
	c, s := p.capture(t, Incoming), p.socket(t)
	raw, err := c.ends[1].file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var small error // room for a frame or two
	if err := raw.Control(func(fd uintptr) { small = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }); err != nil || small != nil {
		t.Fatal(err, small)
	}
	frame := mustBytes(t, mustParse(t, `Ether(dst="02:00:00:00:00:02")/Raw(1400)`))
	for range 20_000 {
		if err := s.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "capture at east:eth0 lost") {
		t.Errorf("error %v, want a loss", err)
	}
}

func TestWaitEnds(t *testing.T) {
	p := newPair(t)
	c := p.capture(t, Incoming)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Wait(ctx, 0, func([]Frame) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

func TestPcapng(t *testing.T) {
	for _, tool := range []string{"tshark", "capinfos"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s (Debian package tshark)", tool)
		}
	}
	p := newPair(t)
	c, s := p.capture(t, Both), p.socket(t)
	live := filepath.Join(t.TempDir(), "live.pcapng")
	out, err := os.Create(live)
	if err != nil {
		t.Fatal(err)
	}
	exprs := []string{
		fmt.Sprintf(udpFrame, ""), fmt.Sprintf(udpFrame, "/Dot1Q(vlan=100)"),
		`Ether(dst="02:00:00:00:00:02")/IPv6(src="fc00::1", dst="fc00::2", hlim=63)/SRH(addresses=["fc00::2"], hmac=1, tlv_objects=[TLVHMAC(hmackeyid=7)])/Ether()/IP(src="192.0.2.1", dst="192.0.2.2")/ICMP()/Raw(20)`,
		`Ether(dst="02:00:00:00:00:02")/IPv6(src="fc00::1", dst="fc00::2")/ICMPv6TimeExceeded()/IPv6(src="fc00::2", dst="fc00::3", hlim=1)/UDP(sport=4000, dport=5000)/Raw(8)`,
	}
	for _, e := range exprs {
		if err := s.Send(mustBytes(t, mustParse(t, e))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "whole.pcapng")
	f, err := os.Create(whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.WritePcapng(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	frames := c.Len()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what is there is written all the same
	if err := errors.Join(c.Stream(ctx, out), out.Close()); err != nil {
		t.Fatal(err)
	}
	if c.Len() != 0 {
		t.Errorf("%d frames are left after Stream", c.Len())
	}
	for _, file := range []string{whole, live} {
		info := run(t, "capinfos", "-M", file)
		if !strings.Contains(info, fmt.Sprintf("Number of packets:   %d", frames)) || !strings.Contains(info, "pcapng") || !strings.Contains(info, "west:eth0") || !strings.Contains(info, "east:eth0") {
			t.Errorf("%d frames, capinfos says:\n%s", frames, info)
		}
		if bad := run(t, "tshark", "-n", "-r", file, "-Y", "_ws.malformed"); bad != "" {
			t.Errorf("tshark calls malformed:\n%s", bad)
		}
		tagged := run(t, "tshark", "-n", "-r", file, "-Y", "vlan.id == 100 && ipv6.routing.type == 4", "-T", "fields", "-e", "frame.interface_name")
		if tagged != "west:eth0\neast:eth0\n" && tagged != "east:eth0\nwest:eth0\n" {
			t.Errorf("the tagged frame is at %q, want both ends", tagged)
		}
	}
}

// TestStreamEnds: frames that passed before the context ended are written, also those
// that nobody had read then.
func TestStreamEnds(t *testing.T) {
	p := newPair(t)
	c, s := p.capture(t, Both), p.socket(t)
	const frames = 500
	for range frames {
		if err := s.Send(mustBytes(t, mustParse(t, fmt.Sprintf(udpFrame, "")))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := c.Stream(ctx, &out); err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewNgReader(&out, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for {
		if _, _, err := r.ReadPacketData(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got++
	}
	if got != 2*frames {
		t.Errorf("%d frames at two ends, want %d", got, 2*frames)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", cmd, err, &stderr)
	}
	return string(out)
}

type failingWriter struct {
	room  int
	short bool
}

func (w *failingWriter) Write(b []byte) (int, error) {
	if len(b) <= w.room {
		w.room -= len(b)
		return len(b), nil
	}
	if w.short {
		return w.room, nil
	}
	return w.room, errors.New("no space left on device")
}

func TestFullDisk(t *testing.T) {
	for _, w := range []*failingWriter{{room: 200}, {room: 200, short: true}, {room: 0}} {
		c := NewCapture()
		c.ends = []*end{{name: "a:b"}}
		c.closed = 1
		c.add([]Frame{{Data: make([]byte, 9000)}}, nil)
		err := c.WritePcapng(w)
		if err == nil || !strings.Contains(err.Error(), "space") && !strings.Contains(err.Error(), "short write") {
			t.Errorf("%+v: error %v", w, err)
		}
		if err := c.Stream(context.Background(), w); err == nil {
			t.Errorf("%+v: Stream did not fail", w)
		}
	}
}

func TestSendErrors(t *testing.T) {
	p := newPair(t)
	s := p.socket(t)
	if err := s.Send(make([]byte, 9100)); err == nil || !strings.Contains(err.Error(), "longer than the MTU") {
		t.Errorf("long frame: %v", err)
	}
	if err := s.Send([]byte{1, 2, 3}); err == nil {
		t.Error("a frame of 3 bytes was sent")
	}
	inside(t, p.west, func() error {
		if _, err := Open("nope"); err == nil || !strings.Contains(err.Error(), "interface nope") {
			return fmt.Errorf("open: %v", err)
		}
		if err := NewCapture().Add("west:nope", "nope", Both); err == nil || !strings.Contains(err.Error(), "west:nope") {
			return fmt.Errorf("capture: %v", err)
		}
		return nil
	})
}
