package forwarder_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"seg6lab/forwarder"
	"seg6lab/forwarder/port"
)

// Run forwards from port to port and ends with its context.
func TestRun(t *testing.T) {
	c := baseConfig()
	c.Routes = append(c.Routes, encapRoute("2001:db8:99::/64", "encap.red", "fc00:b::1"))
	f := newRouter(t, c)
	source, r0 := port.Pair("source", "r0")
	core, r1 := port.Pair("core", "r1")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	go func() { done <- f.Run(ctx, []port.Port{r0, r1}) }()

	s, err := source.Sender()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(bytesOf(t, etherIn+inner)); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(10*time.Second, core.Stop)
	defer guard.Stop()
	want := bytesOf(t, etherOut, "6abcdef1 0038 29 3f", tunsrc, segB, inner)
	if err := core.Queues()[0].Receive(func(got []byte) {
		if !bytes.Equal(got, want) {
			t.Errorf("got %x, want %x", got, want)
		}
	}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := f.Run(context.Background(), nil); err == nil {
		t.Error("Run without ports for its devices went on")
	}
}

// TestConfigErrors: every mistake is named, all of them at once.
func TestConfigErrors(t *testing.T) {
	c := baseConfig()
	c.Sysctls["net.ipv6.seg6_flowlabel"] = "yes"
	c.Neighbours = append(c.Neighbours, forwarder.Neighbour{To: addr("::1"), Dev: "r9"})
	c.Routes = append(c.Routes,
		encapRoute("2001:db8:10::/64", "encap.blue", "fc00:b::1"),
		encapRoute("2001:db8:11::/64", "encap"),
		encapRoute("10.11.0.0/24", "inline", "fc00:b::1"),
		localRoute("fc00:b::1/128", forwarder.Local{Action: "End.Z"}),
		localRoute("fc00:b::2/128", forwarder.Local{Action: "End.X"}),
		localRoute("fc00:b::3/128", forwarder.Local{Action: "End", Table: 7}),
		localRoute("fc00:b::4/128", forwarder.Local{Action: "End.DT46", VRFTable: 100}),
		localRoute("fc00:b::5/128", forwarder.Local{Action: "End", Flavors: []string{"next-csid"}, LBLen: 30}),
		localRoute("fc00:b::6/128", forwarder.Local{Action: "End.DT6"}),
		forwarder.Route{To: prefix("2001:db8:12::/64"), Via: addr("3001::1")},
	)
	_, err := forwarder.New(c)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`sysctl net.ipv6.seg6_flowlabel: "yes" is not a number`,
		`neighbour ::1: no device is called "r9"`,
		`route 2001:db8:10::/64: encap seg6: no mode is called "encap.blue"`,
		`route 2001:db8:11::/64: encap seg6 mode encap: no segments`,
		`route 10.11.0.0/24: encap seg6 mode inline: only for IPv6 routes`,
		`route fc00:b::1/128: encap seg6local: no action is called "End.Z"`,
		`route fc00:b::2/128: encap seg6local action End.X: needs nh6`,
		`route fc00:b::3/128: encap seg6local action End: takes no table`,
		`route fc00:b::4/128: encap seg6local action End.DT46: table 100 has no associated VRF device`,
		`route fc00:b::5/128: encap seg6local action End: `,
		`route fc00:b::6/128: encap seg6local action End.DT6: table or vrftable must be specified`,
		`route 2001:db8:12::/64: the gateway 3001::1 is in no connected prefix`,
	} {
		if !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

// TestRunOnDevices forwards between veth devices of a namespace, over every
// kind of port: the same bytes as without ports.
func TestRunOnDevices(t *testing.T) {
	needRoot(t)
	for _, kind := range []port.Kind{port.Packet, port.XDPGeneric, port.XDPNative} {
		t.Run(string(kind), func(t *testing.T) {
			c := baseConfig()
			c.Routes = append(c.Routes, encapRoute("2001:db8:99::/64", "encap", "fc00:b::1"))
			k := newSurrounded(t)
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
			go func() { done <- newRouter(t, c).Run(ctx, ports) }()
			for _, frame := range [][]byte{bytesOf(t, etherIn+inner), bytesOf(t, etherIn4+inner4), bytesOf(t, nsToRouter)} {
				if want, got := byPort(through(newRouter(t, c), 0, frame)), byPort(k.through(0, frame)); !slices.EqualFunc(want, got, sent.Equal) {
					t.Errorf("sent\n%v\nwant\n%v", got, want)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
