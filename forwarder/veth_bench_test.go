package forwarder_test

import (
	"context"
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"seg6lab/forwarder"
	"seg6lab/forwarder/port"
)

// BenchmarkVeth forwards between veth devices, by the kernel's seg6 and by the
// forwarder over each kind of port, with one generator on one CPU. For each
// router it reports the processor time per packet, generator, softirqs and
// whoever waits for the packet included, and, as "of-kernel", how many packets
// the router makes of a CPU-second where the kernel makes one.
//
// Two rows are bounds. "nothing" receives a batch by AF_XDP and sends it as it
// is: no forwarder over veth and AF_XDP is faster. "two-sends" is twice the
// generator and the receiver with no router between them: a frame that user space
// forwards is sent twice, so no forwarder is faster whatever it receives with.
func BenchmarkVeth(b *testing.B) {
	needRoot(b)
	for _, row := range []struct {
		name  string
		route forwarder.Route
	}{
		{"H.Encaps", encapRoute("2001:db8:99::/64", "encap", "fc00:b::1")},
		{"H.Encaps.L2", encapRoute("2001:db8:99::/64", "l2encap", "fc00:b::1")},
	} {
		b.Run(row.name, func(b *testing.B) {
			onOneCPU(b)
			c := baseConfig()
			c.Routes = append(c.Routes, row.route)
			routers := []*benchRouter{{name: "kernel", around: newKernelRouter(b, c)}}
			for _, kind := range []port.Kind{port.XDPGeneric, port.XDPNative, port.Packet} {
				k, ports := portRouter(b, c, kind)
				serve(b, func(ctx context.Context) error { return newRouter(b, c).Run(ctx, ports) })
				routers = append(routers, &benchRouter{name: string(kind), around: k})
			}
			k, ports := portRouter(b, c, port.XDPGeneric)
			serve(b, func(ctx context.Context) error { return passOn(ctx, ports) })
			routers = append(routers, &benchRouter{name: "nothing", around: k})
			k, ports = portRouter(b, c, port.XDPGeneric)
			b.Cleanup(func() { closePorts(ports) })
			routers = append(routers, &benchRouter{name: "two-sends", around: k, from: ports[1]})
			benchmarkRouters(b, routers)
		})
	}
}

// portRouter is the devices of a router that is not the kernel, and its ports.
func portRouter(b *testing.B, c forwarder.Config, kind port.Kind) (*kernelRouter, []port.Port) {
	k := newSurrounded(b)
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
	return k, ports
}

// serve runs a router until the benchmark ends.
func serve(b *testing.B, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
}

// passOn sends what the first port receives to the second, as it is.
func passOn(ctx context.Context, ports []port.Port) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // As the forwarder's, the thread ends with its class.
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}, 0)
		done <- func() error {
			s, err := ports[1].Sender()
			if err != nil {
				return err
			}
			var failed error
			take := func(frame []byte) { failed = s.Send(frame) }
			for failed == nil {
				if err := ports[0].Queues()[0].Receive(take); err != nil {
					return nil // It was stopped.
				}
				if err := s.Flush(); err != nil {
					return err
				}
			}
			return failed
		}()
	}()
	<-ctx.Done()
	ports[0].Stop()
	err := <-done
	closePorts(ports)
	return err
}

func closePorts(ports []port.Port) {
	for _, p := range ports {
		p.Close()
	}
}

// benchRouter is one of the routers that are compared.
type benchRouter struct {
	name   string
	around *kernelRouter
	// from is where the generator sends, instead of in front of the router: what
	// is measured then is half of it.
	from      port.Port
	generator port.Sender
	receiver  int
	ns        []float64 // per packet, by round
}

// A round sends windows of frames. The receiver sees nothing but the last
// frame of a window, which the generator waits for: so it takes no
// processor time from the router, and a queue never overflows.
const (
	window  = 512
	windows = 10
	last    = 0xee
)

// benchmarkRouters takes rounds in turn, so that what disturbs the machine
// meets all routers, and reports the median.
func benchmarkRouters(b *testing.B, routers []*benchRouter) {
	for _, r := range routers {
		r.open(b)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	frame := bytesOf(b, etherIn+inner)
	for b.Loop() {
		for _, r := range routers {
			r.round(b, frame)
		}
	}
	b.ReportMetric(0, "ns/op") // Of all routers together.
	var kernel float64
	for _, r := range routers {
		slices.Sort(r.ns)
		median := r.ns[len(r.ns)/2]
		b.ReportMetric(median, r.name+"-ns/packet")
		if kernel == 0 {
			kernel = median
			continue
		}
		b.ReportMetric(kernel/median, r.name+"-of-kernel")
	}
}

// open prepares generator and receiver. AF_XDP is the cheapest generator, and
// no socket of the test takes part but the receiver's.
func (r *benchRouter) open(b *testing.B) {
	r.around.around.do(func() (err error) {
		from := r.from
		if from == nil {
			if from, err = port.Open("p0", port.XDPGeneric); err != nil {
				return err
			}
			b.Cleanup(func() { from.Close() })
		}
		r.generator, err = from.Sender()
		return err
	})
	if err := r.around.exchange.Close(); err != nil {
		b.Fatal(err)
	}
	r.around.around.do(func() (err error) {
		all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
		if r.receiver, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		b.Cleanup(func() { unix.Close(r.receiver) })
		onlyLastByte(b, r.receiver, last)
		if err := unix.SetsockoptInt(r.receiver, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
		return unix.Bind(r.receiver, &unix.SockaddrLinklayer{Protocol: all, Ifindex: r.around.around.link("p1").Attrs().Index})
	})
}

func (r *benchRouter) round(b *testing.B, frame []byte) {
	answer := make([]byte, 2048)
	start := cpuTime(b)
	for range windows {
		for i := range window {
			frame[len(frame)-1] = 0
			if i == window-1 {
				frame[len(frame)-1] = last
			}
			if err := r.generator.Send(frame); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.generator.Flush(); err != nil {
			b.Fatal(err)
		}
		if _, err := unix.Read(r.receiver, answer); err != nil {
			b.Fatalf("%s: wait for the last frame of a window: %v", r.name, err)
		}
	}
	ns := float64(cpuTime(b)-start) / (window * windows)
	if r.from != nil {
		ns *= 2
	}
	r.ns = append(r.ns, ns)
}

// onOneCPU keeps all threads of the process on one CPU for the benchmark.
func onOneCPU(b *testing.B) {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		b.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	set := func(cpus *unix.CPUSet) {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			b.Fatal(err)
		}
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				_ = unix.SchedSetaffinity(id, cpus) // It may have ended.
			}
		}
	}
	set(&one)
	b.Cleanup(func() { set(&before) })
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
