package forwarder_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"seg6lab/forwarder"
	"seg6lab/forwarder/port"
)

// BenchmarkVeth forwards between veth devices, by the kernel and by the
// forwarder over each kind of port, from the same generator. CPU-ns/packet is
// the processor time of generator, router and softirqs together per packet
// that came out; its inverse is packets per CPU-second.
func BenchmarkVeth(b *testing.B) {
	for _, row := range []struct {
		name  string
		route forwarder.Route
	}{
		{"H.Encaps", encapRoute("2001:db8:99::/64", "encap", "fc00:b::1")},
		{"H.Encaps.L2", encapRoute("2001:db8:99::/64", "l2encap", "fc00:b::1")},
	} {
		for _, kind := range []port.Kind{"kernel", port.XDPNative, port.XDPGeneric, port.Packet} {
			b.Run(row.name+"/"+string(kind), func(b *testing.B) {
				c := baseConfig()
				c.Routes = append(c.Routes, row.route)
				benchmarkVeth(b, c, kind)
			})
		}
	}
}

func benchmarkVeth(b *testing.B, c forwarder.Config, kind port.Kind) {
	needRoot(b)
	var k *kernelRouter
	if kind == "kernel" {
		k = newKernelRouter(b, c)
	} else {
		k = &kernelRouter{t: b, router: newNamespace(b), around: newNamespace(b)}
		for _, n := range []*namespace{k.router, k.around} {
			n.sysctl("net.ipv6.conf.default.disable_ipv6", "1")
		}
		var ports []port.Port
		for i, d := range c.Devices {
			k.addDevice(i, d)
			k.router.do(func() error {
				p, err := port.Open(d.Name, kind)
				ports = append(ports, p)
				return err
			})
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- newRouter(b, c).Run(ctx, ports) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				b.Error(err)
			}
		}()
	}
	var generator port.Sender
	k.around.do(func() error {
		p, err := port.Open("p0")
		if err != nil {
			return err
		}
		b.Cleanup(func() { p.Close() })
		generator, err = p.Sender()
		return err
	})
	// The sockets of the test see nothing but the last frame of a window, which
	// the generator sleeps for: so it takes no processor time from the router,
	// and a queue never overflows.
	const window, last = 512, 0xee
	for _, fd := range k.sockets {
		onlyLastByte(b, fd, last)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	frame := bytesOf(b, etherIn+inner)
	start, started := cpuTime(b), time.Now()
	windows := max(1, b.N/window)
	answer := make([]byte, 2048)
	for range windows {
		for i := range window {
			frame[len(frame)-1] = 0
			if i == window-1 {
				frame[len(frame)-1] = last
			}
			if err := generator.Send(frame); err != nil {
				b.Fatal(err)
			}
		}
		if err := generator.Flush(); err != nil {
			b.Fatal(err)
		}
		if _, err := unix.Read(k.sockets[1], answer); err != nil {
			b.Fatalf("wait for the last frame of a window: %v", err)
		}
	}
	sent := float64(windows * window)
	b.ReportMetric(float64(cpuTime(b)-start)/sent, "CPU-ns/packet")
	b.ReportMetric(sent/time.Since(started).Seconds()/1000, "kpps")
}

// onlyLastByte has a packet socket receive frames that end with the byte only,
// and give up after 5 s without.
func onlyLastByte(b *testing.B, fd int, last uint32) {
	b.Helper()
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtLen},
		bpf.ALUOpConstant{Op: bpf.ALUOpSub, Val: 1},
		bpf.TAX{},
		bpf.LoadIndirect{Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: last, SkipFalse: 1},
		bpf.RetConstant{Val: 2048},
		bpf.RetConstant{},
	})
	if err != nil {
		b.Fatal(err)
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		b.Fatalf("attach a filter: %v", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		b.Fatal(err)
	}
}

// cpuTime is the processor time of this process, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
