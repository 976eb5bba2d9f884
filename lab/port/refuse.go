package port

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

// RefusedError says that a port is in use outside of the lab.
type RefusedError struct {
	Port    *Facts
	Reasons []string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("port %s is not taken: it %s (--force takes it all the same)", e.Port, strings.Join(e.Reasons, "; it "))
}

// surroundings are what of a namespace decides whether a port can be spared.
type surroundings struct {
	links     []*Facts
	addresses map[int][]netip.Addr // of devices that are up, by index
	defaults  map[int]bool         // devices that a default route leads through
	ssh       map[int]string       // devices that an SSH session uses, and whose
	nexthops  map[int]bool         // devices that nexthop objects name
}

// lookAround reads the namespace of the calling thread. What this kernel cannot
// tell it does not have, as far as we can see; what cannot be read is an error.
func lookAround() (*surroundings, error) {
	all, err := survey()
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	s := &surroundings{
		links: all, addresses: make(map[int][]netip.Addr), defaults: make(map[int]bool),
		ssh: make(map[int]string), nexthops: make(map[int]bool),
	}
	own := make(map[netip.Addr]int)
	messages, err := dump(unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg))
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, m := range messages {
		index := int(native.Uint32(m[4:]))
		if a, ok := addressOf(m); ok {
			own[a] = index
			s.addresses[index] = append(s.addresses[index], a)
		}
	}
	if messages, err = dump(unix.RTM_GETROUTE, make([]byte, unix.SizeofRtMsg)); err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, m := range messages {
		const destinationLength, kind = 1, 7 // in struct rtmsg
		if m[destinationLength] == 0 && m[kind] == unix.RTN_UNICAST {
			for _, index := range routeDevices(m) {
				s.defaults[index] = true
			}
		}
	}
	if err := s.sessions(own); err != nil {
		return nil, err
	}
	// struct nhmsg has eight bytes; kernels before 5.3 have no such objects.
	if messages, err = dump(unix.RTM_GETNEXTHOP, make([]byte, 8)); err == nil {
		for _, m := range messages {
			if oif := find(attributes(m[8:]), unix.NHA_OIF); len(oif) == 4 {
				s.nexthops[int(native.Uint32(oif))] = true
			}
		}
	}
	return s, nil
}

// connections are the SSH connections that this process was called through, by the
// environments of it and its ancestors: sudo takes the variable away.
func connections() []string {
	found := []string{os.Getenv("SSH_CONNECTION")}
	for pid := os.Getppid(); pid > 1; {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			break
		}
		for v := range strings.SplitSeq(string(environ), "\x00") {
			if c, ok := strings.CutPrefix(v, "SSH_CONNECTION="); ok {
				found = append(found, c)
			}
		}
		// The name of the program, in parentheses, may have any letter in it.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if err != nil || len(fields) < 2 {
			break
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			break
		}
	}
	return found
}

// sessions finds the devices that SSH uses: that of this session, and those of
// established connections to port 22.
func (s *surroundings) sessions(own map[netip.Addr]int) error {
	add := func(local, remote netip.Addr) {
		local, remote = local.Unmap().WithZone(""), remote.Unmap().WithZone("")
		if local.IsLoopback() {
			return
		}
		if index, ok := own[local]; ok {
			s.ssh[index] = remote.String()
		}
		// The answers may leave by another device than they came in.
		if routes, err := here.RouteGet(net.IP(remote.AsSlice())); err == nil && len(routes) > 0 {
			s.ssh[routes[0].LinkIndex] = remote.String()
		}
	}
	for _, c := range connections() {
		// Client address, client port, server address, server port.
		f := strings.Fields(c)
		if len(f) != 4 {
			continue
		}
		remote, e1 := netip.ParseAddr(f[0])
		local, e2 := netip.ParseAddr(f[2])
		if e1 == nil && e2 == nil {
			add(local, remote)
		}
	}
	for _, file := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile("/proc/thread-self/net/" + file)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("list TCP connections: %w", err)
		}
		for line := range strings.Lines(string(table)) {
			// Number, local address, remote address, state.
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != "01" {
				continue // the heading, or not TCP_ESTABLISHED
			}
			const ssh = 22
			local, port, ok1 := procAddress(f[1])
			remote, _, ok2 := procAddress(f[2])
			if ok1 && ok2 && port == ssh {
				add(local, remote)
			}
		}
	}
	return nil
}

// procAddress reads an address and a port as /proc/net/tcp has them: hexadecimal
// words of 32 bits in the byte order of this machine, and the port.
func procAddress(s string) (netip.Addr, uint64, bool) {
	address, port, ok := strings.Cut(s, ":")
	words, err := hex.DecodeString(address)
	n, e := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || e != nil {
		return netip.Addr{}, 0, false
	}
	for i := 0; i+4 <= len(words); i += 4 {
		native.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	a, ok := netip.AddrFromSlice(words)
	return a, n, ok
}

// take finds the port that is asked for, unless it is to be refused.
func (s *surroundings) take(p *topology.Port, force bool) (*Facts, error) {
	f, err := choose(s.links, p)
	if err != nil {
		return nil, err
	}
	f.Refused = s.refusals(f)
	if len(f.Refused) > 0 && !force {
		return nil, &RefusedError{f, f.Refused}
	}
	return f, nil
}

// refusals say why a port is not to be taken.
func (s *surroundings) refusals(f *Facts) []string {
	var why []string
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	a := f.link.Attrs()
	if s.defaults[f.index] {
		say("carries a default route")
	}
	reachable := func(a netip.Addr) bool { return !a.IsLinkLocalUnicast() && !a.IsLoopback() }
	if slices.ContainsFunc(s.addresses[f.index], reachable) {
		other := slices.ContainsFunc(s.links, func(l *Facts) bool {
			return l.index != f.index && l.Up && slices.ContainsFunc(s.addresses[l.index], reachable)
		})
		if !other {
			say("has the only address of this machine")
		}
	}
	if peer := s.ssh[f.index]; peer != "" {
		say("carries an SSH session from %s", peer)
	}
	if a.MasterIndex != 0 {
		say("belongs to %s", s.name(a.MasterIndex))
	}
	for _, l := range s.links {
		// A veth's peer in another namespace has an index of that.
		if p := l.link.Attrs(); p.ParentIndex == f.index && p.NetNsID < 0 && l.Kind != "veth" {
			say("has the device %s (%s) on top", l.Name, l.Kind)
		}
	}
	if a.Xdp != nil && a.Xdp.Attached {
		say("has an XDP program attached")
	}
	if lost, err := trafficControl(f.index); err != nil {
		say("does not tell its traffic control: %v", err)
	} else if len(lost) > 0 {
		say("has %s, which would not come back", strings.Join(lost, " and "))
	}
	if s.nexthops[f.index] {
		say("has nexthop objects, which would not come back")
	}
	return why
}

func (s *surroundings) name(index int) string {
	for _, l := range s.links {
		if l.index == index {
			return fmt.Sprintf("%s (%s)", l.Name, l.Kind)
		}
	}
	return fmt.Sprintf("device %d", index)
}
