package forwarder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"seg6lab/forwarder/fib"
)

// compiler turns a Config into a Forwarder.
type compiler struct {
	*Forwarder
	c       *Config
	sysctl  sysctlReader
	byName  map[string]*device
	vrfs    map[string]*domain
	shared  map[dstKey]*dst
	tunnels map[tunnelKey]*dst
	errs    []error
}

func (c *compiler) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func compile(config *Config) (*Forwarder, error) {
	c := &compiler{
		Forwarder: &Forwarder{
			quirks: LinuxQuirks(), now: time.Now, model: config.Model, cpus: config.CPUs, seed: rand.Uint32(),
			fib4: fib.New[*dst](), fib6: fib.New[*dst](),
			hmac: map[uint32]*hmacKey{}, own: ownAddresses{set: map[netip.Addr]bool{}, anycast: map[netip.Addr]bool{}, broadcast: map[[4]byte]bool{}},
		},
		c: config, byName: map[string]*device{}, vrfs: map[string]*domain{},
		shared: map[dstKey]*dst{}, tunnels: map[tunnelKey]*dst{},
		sysctl: sysctlReader{values: config.Sysctls},
	}
	if config.Quirks != nil {
		c.quirks = *config.Quirks
	}
	if config.Now != nil {
		c.now = config.Now
	}
	c.sys = c.sysctl.read()
	c.limit.init(c.now, &c.sys)
	c.neigh.init()
	c.compileDevices()
	c.compileVRFs()
	c.compileAddresses()
	c.compileSeg6()
	if config.Host != "" {
		if c.host = c.device(config.Host, "host"); c.host != nil {
			c.hostLink = linkOf(c.host.mac)
			c.host.mac = routerSide(c.host.mac)
		}
	}
	for _, n := range config.Neighbours {
		if d := c.device(n.Dev, "neighbour "+n.To.String()); d != nil {
			c.neigh.get(neighKey{d.index, n.To}).setPermanent(n.LLAddr)
		}
	}
	c.compileRules()
	for i := range config.Routes {
		if err := c.compileRoute(&config.Routes[i]); err != nil {
			c.errs = append(c.errs, &RouteError{Index: i, To: config.Routes[i].To, Err: err})
		}
	}
	c.resolveTables()
	c.byDestination = c.fib4.ByDestination() && c.fib6.ByDestination()
	if err := errors.Join(append(c.sysctl.errs, c.errs...)...); err != nil {
		return nil, err
	}
	return c.Forwarder, nil
}

// RouteError is what is wrong with a route of a Config.
type RouteError struct {
	Index int // in Config.Routes
	To    netip.Prefix
	Err   error
}

func (e *RouteError) Error() string { return fmt.Sprintf("route %s: %v", e.To, e.Err) }

func (e *RouteError) Unwrap() error { return e.Err }

func (c *compiler) device(name, whose string) *device {
	d := c.byName[name]
	if d == nil {
		c.fail("%s: no device is called %q", whose, name)
	}
	return d
}

// compileRules adds the kernel's own rules and the configured ones.
func (c *compiler) compileRules() {
	for _, f := range []*fib.FIB[*dst]{c.fib4, c.fib6} {
		f.AddRule(fib.Rule{Priority: 0, Table: TableLocal})
		if len(c.c.VRFs) > 0 {
			f.AddRule(fib.Rule{Priority: 1000, L3Domain: true})
		}
		f.AddRule(fib.Rule{Priority: 32766, Table: TableMain})
	}
	c.fib4.AddRule(fib.Rule{Priority: 32767, Table: TableDefault})
	for i, r := range c.c.Rules {
		if r.Table == 0 {
			c.fail("rule %d: it names no table", i)
			continue
		}
		n := fib.Rule{Priority: r.Priority, From: r.From, To: r.To, Table: r.Table}
		if r.IIF != "" {
			d := c.device(r.IIF, fmt.Sprintf("rule %d", i))
			if d == nil {
				continue
			}
			n.IIF = d.index
		}
		f := c.fib6
		if r.Family == "inet" || r.From.Addr().Is4() || r.To.Addr().Is4() {
			f = c.fib4
		}
		f.AddRule(n)
	}
}
