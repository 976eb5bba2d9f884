package topology

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// End names a device of a node, written "node:dev".
type End struct {
	Node, Dev string
}

func (e End) String() string { return e.Node + ":" + e.Dev }

// MarshalText implements encoding.TextMarshaler.
func (e End) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *End) UnmarshalText(b []byte) error {
	node, dev, ok := strings.Cut(string(b), ":")
	if !ok || node == "" || dev == "" || strings.Contains(dev, ":") {
		return fmt.Errorf("%q is not an end: expected node:dev", b)
	}
	e.Node, e.Dev = node, dev
	return nil
}

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MarshalText implements encoding.TextMarshaler.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *MAC) UnmarshalText(b []byte) error {
	hw, err := net.ParseMAC(string(b))
	if err != nil || len(hw) != len(m) {
		return fmt.Errorf("%q is not an Ethernet address: expected six bytes such as 02:00:00:00:00:01", b)
	}
	copy(m[:], hw)
	return nil
}

// LinkMAC is the address of end 0 or 1 of the link at the given index of
// Topology.Links when the file gives none: locally administered, unique in the
// topology and the same every time, so that a case can write it down.
func LinkMAC(link, end int) MAC {
	return MAC{0x02, 0, 0, byte(link >> 8), byte(link), byte(end + 1)}
}

// Destination is the destination of a route: a prefix, an address (a prefix of
// full length) or "default".
type Destination struct {
	Prefix  netip.Prefix
	Default bool
}

func (d Destination) String() string {
	if d.Default {
		return "default"
	}
	return d.Prefix.String()
}

// MarshalText implements encoding.TextMarshaler.
func (d Destination) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Destination) UnmarshalText(b []byte) error {
	s := string(b)
	if s == "default" {
		*d = Destination{Default: true}
		return nil
	}
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		*d = Destination{Prefix: netip.PrefixFrom(addr, addr.BitLen())}
		return nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf(`%q is not a destination: expected a prefix, an address or "default"`, s)
	}
	if p != p.Masked() {
		return fmt.Errorf("%s has bits set beyond its length: did you mean %s?", p, p.Masked())
	}
	*d = Destination{Prefix: p}
	return nil
}

// Table is a routing table: a number from 1 to 4294967295, or one of the
// kernel's names "main", "local" and "default". 0 means that none was given.
type Table uint32

// The tables that the kernel names itself.
const (
	TableDefault Table = 253
	TableMain    Table = 254
	TableLocal   Table = 255
)

func (t Table) String() string {
	switch t {
	case TableDefault:
		return "default"
	case TableMain:
		return "main"
	case TableLocal:
		return "local"
	}
	return strconv.FormatUint(uint64(t), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (t Table) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Table) UnmarshalText(b []byte) error {
	for _, named := range []Table{TableDefault, TableMain, TableLocal} {
		if string(b) == named.String() {
			*t = named
			return nil
		}
	}
	n, err := strconv.ParseUint(string(b), 10, 32)
	if err != nil || n == 0 {
		return fmt.Errorf(`%q is not a routing table: expected 1 to 4294967295, "main", "local" or "default"`, b)
	}
	*t = Table(n)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration: expected a number with a unit, such as 10ms", b)
	}
	*d = Duration(v)
	return nil
}
