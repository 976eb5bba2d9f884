package forwarder_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/forwarder"
	"seg6lab/forwarder/port"
)

// hostConfig has the sockets of 2001:db8:1::2 behind port 2.
func hostConfig() forwarder.Config {
	c := baseConfig()
	c.Devices = append(c.Devices, forwarder.Device{Name: "host", MAC: [6]byte{2, 0, 0, 0, 3, 2}})
	c.Host = "host"
	return c
}

// udpToRouter is from port 1234 of 2001:db8:1::1 to port 9 of the router, with
// its checksum.
const udpToRouter = etherIn + "60000000 0010 11 40" + host + routerAddr + "04d2 0009 0010 8f68 0102030405060708"

// What is for a socket goes to the host, what comes from it is sent as it is.
func TestHost(t *testing.T) {
	f := newRouter(t, hostConfig())
	for _, row := range []struct {
		name  string
		port  int
		in    string
		out   int
		frame string
	}{
		{"UDP", 0, udpToRouter, 2, "020000000302 020000000303 86dd" + udpToRouter[len(etherIn):]},
		{"echo request", 0, etherIn + "60000000 0008 3a 40" + host + routerAddr + "8000 2443 0001 0002", 0,
			"020000000101 020000000102 86dd 60000000 0008 3a 40" + routerAddr + host + "8100 2343 0001 0002"},
		{"echo reply", 0, etherIn + "60000000 0008 3a 40" + host + routerAddr + "8100 2343 0001 0002", 2,
			"020000000302 020000000303 86dd 60000000 0008 3a 40" + host + routerAddr + "8100 2343 0001 0002"},
		{"from the host", 2, "020000000303 020000000302 86dd 60000000 0010 11 01" + routerAddr + far + udp, 1,
			etherOut + "60000000 0010 11 01" + routerAddr + far + udp},
		{"ARP of the host", 2, "ffffffffffff 020000000302 0806 0001 0800 06 04 0001 020000000302 0a000102 000000000000 0a000101", 2,
			"020000000302 020000000303 0806 0001 0800 06 04 0002 020000000303 0a000101 020000000302 0a000102"},
	} {
		out := through(f, row.port, bytesOf(t, row.in))
		want := sent{Port: row.out, Frame: bytesOf(t, row.frame)}
		if len(out) != 1 || !out[0].Equal(want) {
			t.Errorf("%s: sent\n%v\nwant\n%v\ndrops %v", row.name, out, want, f.Drops())
		}
	}
}

// TestHostOnTAP lets a socket of the kernel answer through the forwarder.
func TestHostOnTAP(t *testing.T) {
	needRoot(t)
	n := newNamespace(t)
	n.sysctl("net.ipv6.conf.default.addr_gen_mode", "1")
	var tap port.Port
	var socket *net.UDPConn
	n.do(func() (err error) {
		tap, err = port.Open("host", port.TAP)
		return err
	})
	l := n.link("host")
	n.check(n.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 3, 2}), "address of host")
	n.check(n.LinkSetUp(l), "raise host")
	n.check(n.AddrAdd(l, &netlink.Addr{IPNet: ipNet(prefix("2001:db8:1::2/64")), Flags: unix.IFA_F_NODAD}), "address")
	n.awaitLocal(addr("2001:db8:1::2"))
	n.do(func() (err error) {
		socket, err = net.ListenUDP("udp6", &net.UDPAddr{IP: net.ParseIP("2001:db8:1::2"), Port: 9})
		return err
	})
	defer socket.Close()

	source, r0 := port.Pair("source", "r0")
	_, r1 := port.Pair("core", "r1")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- newRouter(t, hostConfig()).Run(ctx, []port.Port{r0, r1, tap}) }()
	s, err := source.Sender()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(bytesOf(t, udpToRouter)); err != nil {
		t.Fatal(err)
	}
	if err := socket.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	size, from, err := socket.ReadFromUDPAddrPort(b)
	if err != nil {
		t.Fatal(err)
	}
	if from.Addr() != addr("2001:db8:1::1") || from.Port() != 1234 || !bytes.Equal(b[:size], []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("the socket read %x from %v", b[:size], from)
	}
	if _, err := socket.WriteToUDPAddrPort([]byte("answer"), from); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(10*time.Second, source.Stop)
	defer guard.Stop()
	for answered := false; !answered; {
		if err := source.Queues()[0].Receive(func(frame []byte) {
			answered = answered || bytes.HasSuffix(frame, []byte("answer")) && binary.BigEndian.Uint16(frame[54+2:]) == 1234
		}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
