package port

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Settings are everything of a port that moving it to another namespace loses, or
// that a lab can change.
type Settings struct {
	Name      string
	Index     int
	AltNames  []string
	Alias     string
	MAC       string
	MTU       int // bytes
	TxQLen    int // packets
	Group     uint32
	Master    string
	Flags     uint32 // IFF_UP, IFF_PROMISC and the like
	Sysctls   map[string]string
	Features  map[string]bool // ethtool -k
	Channels  *ethtool.Channels
	Rings     *ethtool.Ring
	Coalesce  *ethtool.Coalesce
	Pause     *ethtool.Pause
	PrivFlags map[string]bool
	// Interrupts are the CPUs that may take each of them, nil where they were left
	// alone.
	Interrupts []string
	// Addresses, Neighbours, Routes and Qdiscs are those that somebody set.
	Addresses, Neighbours, Routes, Qdiscs []Item
	// At is when they were read, in nanoseconds since boot: lifetimes go on.
	At int64
}

// settableFlags are the flags that a user sets.
const settableFlags = unix.IFF_UP | unix.IFF_PROMISC | unix.IFF_ALLMULTI | unix.IFF_MULTICAST | unix.IFF_NOARP | unix.IFF_DYNAMIC | unix.IFF_DEBUG

// dev is a device of the namespace that the calling thread is in.
type dev struct {
	index int
	name  string
	pci   string
	link  netlink.Link
	tool  *ethtool.Ethtool
}

func openDev(index int) (*dev, error) {
	l, err := here.LinkByIndex(index)
	if err != nil {
		return nil, err
	}
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("ethtool socket: %w", err)
	}
	return &dev{index, l.Attrs().Name, facts(l, tool, nil).PCI, l, tool}, nil
}

func (d *dev) close() { d.tool.Close() }

// look reads the attributes of the link anew.
func (d *dev) look() (a *netlink.LinkAttrs, err error) {
	if d.link, err = here.LinkByIndex(d.index); err != nil {
		return nil, err
	}
	d.name = d.link.Attrs().Name
	return d.link.Attrs(), nil
}

// aspect is one of the settings: how it is read, what of Settings it is, and how it
// is set. Where the value is read-only or the driver has no such thing, of is nil
// both before and after, and set is not called.
type aspect struct {
	name string
	read func(d *dev, s *Settings) error
	of   func(s *Settings) any
	set  func(d *dev, was, now *Settings) error
	// same says that nothing is to be set; equality when nil.
	same func(was, now *Settings) bool
}

// attribute reads an aspect from the link's attributes.
func attr(f func(a *netlink.LinkAttrs, s *Settings)) func(*dev, *Settings) error {
	return func(d *dev, s *Settings) error {
		a, err := d.look()
		if err == nil {
			f(a, s)
		}
		return err
	}
}

// driver reads an aspect that not every driver has.
func driver[T any](get func(d *dev) (T, error), put func(s *Settings, v *T)) func(*dev, *Settings) error {
	return func(d *dev, s *Settings) error {
		v, err := get(d)
		// That is what drivers say for what they have not, or not while down.
		for _, has := range []error{unix.EOPNOTSUPP, unix.EINVAL, unix.ENODEV, unix.ENETDOWN} {
			if errors.Is(err, has) {
				return nil
			}
		}
		if err == nil {
			put(s, &v)
		}
		return err
	}
}

// aspects in the order in which they are set again: names first, then what needs
// the device down, then what needs it up.
var aspects = []aspect{
	{
		name: "name",
		read: attr(func(a *netlink.LinkAttrs, s *Settings) { s.Name = a.Name }),
		of:   func(s *Settings) any { return s.Name },
		set: func(d *dev, was, _ *Settings) error {
			err := whileDown(d.index, func() error { return here.LinkSetName(d.link, was.Name) })
			if errors.Is(err, unix.EEXIST) {
				err = fmt.Errorf("another device is called %s: %w", was.Name, err)
			}
			return err
		},
	}, {
		name: "alternative names",
		read: attr(func(a *netlink.LinkAttrs, s *Settings) { s.AltNames = a.AltNames }),
		of:   func(s *Settings) any { return s.AltNames },
		set: func(d *dev, was, now *Settings) error {
			// All of them, for their order.
			var errs []error
			for _, name := range now.AltNames {
				errs = append(errs, here.LinkDelAltName(d.link, name))
			}
			for _, name := range was.AltNames {
				if err := here.LinkAddAltName(d.link, name); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", name, err))
				}
			}
			return errors.Join(errs...)
		},
	}, {
		name: "Ethernet address",
		read: attr(func(a *netlink.LinkAttrs, s *Settings) { s.MAC = a.HardwareAddr.String() }),
		of:   func(s *Settings) any { return s.MAC },
		set: func(d *dev, was, _ *Settings) error {
			mac, err := net.ParseMAC(was.MAC)
			if err != nil {
				return err
			}
			return setMAC(d.index, mac)
		},
	}, {
		name: "MTU",
		read: attr(func(a *netlink.LinkAttrs, s *Settings) { s.MTU = a.MTU }),
		of:   func(s *Settings) any { return s.MTU },
		set:  func(d *dev, was, _ *Settings) error { return here.LinkSetMTU(d.link, was.MTU) },
	}, {
		name: "transmit queue length",
		read: attr(func(a *netlink.LinkAttrs, s *Settings) { s.TxQLen = a.TxQLen }),
		of:   func(s *Settings) any { return s.TxQLen },
		set:  func(d *dev, was, _ *Settings) error { return here.LinkSetTxQLen(d.link, was.TxQLen) },
	}, {
		name: "group",
		read: attr(func(a *netlink.LinkAttrs, s *Settings) { s.Group = a.Group }),
		of:   func(s *Settings) any { return s.Group },
		set:  func(d *dev, was, _ *Settings) error { return here.LinkSetGroup(d.link, int(was.Group)) },
	}, {
		name: "private flags",
		read: driver(func(d *dev) (map[string]bool, error) { return d.tool.PrivFlags(d.name) },
			func(s *Settings, v *map[string]bool) { s.PrivFlags = *v }),
		of: func(s *Settings) any { return s.PrivFlags },
		set: func(d *dev, was, now *Settings) error {
			return d.tool.UpdatePrivFlags(d.name, changed(was.PrivFlags, now.PrivFlags))
		},
	}, {
		name: "channels",
		read: driver(func(d *dev) (ethtool.Channels, error) { return d.tool.GetChannels(d.name) },
			func(s *Settings, v *ethtool.Channels) { v.Cmd = 0; s.Channels = v }),
		of:  func(s *Settings) any { return s.Channels },
		set: func(d *dev, was, _ *Settings) error { _, err := d.tool.SetChannels(d.name, *was.Channels); return err },
	}, {
		name: "rings",
		read: driver(func(d *dev) (ethtool.Ring, error) { return d.tool.GetRing(d.name) },
			func(s *Settings, v *ethtool.Ring) { v.Cmd = 0; s.Rings = v }),
		of:  func(s *Settings) any { return s.Rings },
		set: func(d *dev, was, _ *Settings) error { _, err := d.tool.SetRing(d.name, *was.Rings); return err },
	}, {
		name: "coalescing",
		read: driver(func(d *dev) (ethtool.Coalesce, error) { return d.tool.GetCoalesce(d.name) },
			func(s *Settings, v *ethtool.Coalesce) { v.Cmd = 0; s.Coalesce = v }),
		of:  func(s *Settings) any { return s.Coalesce },
		set: func(d *dev, was, _ *Settings) error { _, err := d.tool.SetCoalesce(d.name, *was.Coalesce); return err },
		same: func(was, now *Settings) bool {
			return reflect.DeepEqual(steady(was.Coalesce), steady(now.Coalesce))
		},
	}, {
		name: "pause frames",
		read: driver(func(d *dev) (ethtool.Pause, error) { return d.tool.GetPause(d.name) },
			func(s *Settings, v *ethtool.Pause) { v.Cmd = 0; s.Pause = v }),
		of:  func(s *Settings) any { return s.Pause },
		set: func(d *dev, was, _ *Settings) error { _, err := d.tool.SetPause(d.name, *was.Pause); return err },
		// Of what is negotiated, drivers tell the outcome, which needs a link.
		same: func(was, now *Settings) bool {
			negotiated := func(s *Settings) bool { return s.Pause != nil && s.Pause.Autoneg != 0 }
			return negotiated(was) && negotiated(now) || reflect.DeepEqual(was.Pause, now.Pause)
		},
	}, {
		name: "offloads",
		read: driver(func(d *dev) (map[string]bool, error) { return d.tool.Features(d.name) },
			func(s *Settings, v *map[string]bool) { s.Features = *v }),
		of: func(s *Settings) any { return s.Features },
		set: func(d *dev, was, now *Settings) error {
			return d.tool.Change(d.name, changed(was.Features, now.Features))
		},
	}, {
		name: "sysctls",
		read: func(d *dev, s *Settings) error { s.Sysctls = readSysctls(d.name); return nil },
		of:   func(s *Settings) any { return s.Sysctls },
		set: func(d *dev, was, now *Settings) error {
			var errs []error
			different := changed(was.Sysctls, now.Sysctls)
			for _, key := range slices.Sorted(maps.Keys(different)) {
				if err := os.WriteFile(sysctlPath(key, d.name), []byte(different[key]), 0); err != nil {
					errs = append(errs, err)
				}
			}
			return errors.Join(errs...)
		},
	}, {
		name: "master",
		read: func(d *dev, s *Settings) error {
			a, err := d.look()
			if err != nil || a.MasterIndex == 0 {
				return err
			}
			master, err := here.LinkByIndex(a.MasterIndex)
			if err == nil {
				s.Master = master.Attrs().Name
			}
			return err
		},
		of: func(s *Settings) any { return s.Master },
		set: func(d *dev, was, _ *Settings) error {
			if was.Master == "" {
				return here.LinkSetNoMaster(d.link)
			}
			master, err := here.LinkByName(was.Master)
			if err != nil {
				return err
			}
			return here.LinkSetMaster(d.link, master)
		},
	}, {
		name: "flags",
		read: attr(func(a *netlink.LinkAttrs, s *Settings) { s.Flags = a.RawFlags & settableFlags }),
		of:   func(s *Settings) any { return s.Flags },
		set:  func(d *dev, was, _ *Settings) error { return setFlags(d.index, was.Flags, settableFlags) },
	}, {
		// Drivers ask for interrupts when they are set up.
		name: "interrupts",
		read: func(d *dev, s *Settings) (err error) { _, s.Interrupts, err = affinities(d.pci); return err },
		of:   func(s *Settings) any { return s.Interrupts },
		set: func(d *dev, was, _ *Settings) error {
			numbers, now, err := affinities(d.pci)
			errs := []error{err}
			for i := range min(len(numbers), len(was.Interrupts)) {
				if now[i] != was.Interrupts[i] {
					errs = append(errs, setAffinity(numbers[i], was.Interrupts[i]))
				}
			}
			return errors.Join(errs...)
		},
		same: func(was, now *Settings) bool {
			return was.Interrupts == nil || now.Interrupts == nil || slices.Equal(was.Interrupts, now.Interrupts)
		},
	}, {
		name: "qdiscs",
		read: func(d *dev, s *Settings) (err error) { s.Qdiscs, err = readQdiscs(d.index); return err },
		of:   func(s *Settings) any { return texts(s.Qdiscs) },
		set:  setQdiscs,
		same: func(was, now *Settings) bool { return len(missingQdiscs(was, now)) == 0 },
	}, {
		name: "addresses",
		read: func(d *dev, s *Settings) (err error) { s.Addresses, err = readAddresses(d.index); return err },
		of:   func(s *Settings) any { return texts(s.Addresses) },
		set:  setAddresses,
		same: func(was, now *Settings) bool { return len(missingAddresses(was, now)) == 0 },
	}, {
		name: "neighbours",
		read: func(d *dev, s *Settings) (err error) { s.Neighbours, err = readNeighbours(d.index); return err },
		of:   func(s *Settings) any { return texts(s.Neighbours) },
		set: func(d *dev, was, now *Settings) error {
			return addAll(unix.RTM_NEWNEIGH, missingNeighbours(was, now))
		},
		same: func(was, now *Settings) bool { return len(missingNeighbours(was, now)) == 0 },
	}, {
		name: "routes",
		read: func(d *dev, s *Settings) (err error) { s.Routes, err = readRoutes(d.index); return err },
		of:   func(s *Settings) any { return texts(s.Routes) },
		set:  setRoutes,
		same: func(was, now *Settings) bool { return len(missingRoutes(was, now)) == 0 },
	},
}

// steady is a coalescing without what an adaptive one changes on its own.
func steady(c *ethtool.Coalesce) *ethtool.Coalesce {
	if c == nil {
		return nil
	}
	own := *c
	if c.UseAdaptiveRxCoalesce != 0 {
		own.RxCoalesceUsecs, own.RxMaxCoalescedFrames = 0, 0
	}
	if c.UseAdaptiveTxCoalesce != 0 {
		own.TxCoalesceUsecs, own.TxMaxCoalescedFrames = 0, 0
	}
	return &own
}

// readSettings reads the settings of a device of the namespace of the calling
// thread.
func readSettings(index int) (*Settings, error) {
	d, err := openDev(index)
	if err != nil {
		return nil, err
	}
	defer d.close()
	s := &Settings{Index: index, At: sinceBoot()}
	for _, a := range aspects {
		if err := a.read(d, s); err != nil {
			return nil, fmt.Errorf("read its %s: %w", a.name, err)
		}
	}
	s.Interrupts = nil // until they are to be moved
	// A mark is there where somebody deleted the record.
	if alias := d.link.Attrs().Alias; !strings.HasPrefix(alias, markPrefix) {
		s.Alias = alias
	}
	return s, nil
}

// restore sets what is not as it was, in the namespace of the calling thread, and
// reads it again. The error joins one for each aspect that is still not as it was.
func (was *Settings) restore(index int) error {
	d, err := openDev(index)
	if err != nil {
		return err
	}
	defer d.close()
	// Some drivers tell and take certain settings only when up, which the device
	// may not be yet the first time.
	for range 2 {
		var errs []error
		for _, a := range aspects {
			if e := a.restore(d, was); e != nil {
				errs = append(errs, fmt.Errorf("%s: %w", a.name, e))
			}
		}
		if err = errors.Join(errs...); err == nil {
			return nil
		}
	}
	return err
}

func (a *aspect) restore(d *dev, was *Settings) error {
	same := a.same
	if same == nil {
		same = func(was, now *Settings) bool { return reflect.DeepEqual(a.of(was), a.of(now)) }
	}
	now := &Settings{Index: d.index, At: sinceBoot()}
	if err := a.read(d, now); err != nil || same(was, now) {
		return err
	}
	setErr := a.set(d, was, now)
	now = &Settings{Index: d.index, At: sinceBoot()}
	if err := a.read(d, now); err != nil {
		return errors.Join(setErr, err)
	}
	switch {
	case same(was, now):
		return nil
	case setErr != nil:
		return setErr
	}
	return fmt.Errorf("now %s", difference(a.of(was), a.of(now)))
}

// difference tells what a value is and what it was, of maps only the entries that
// are not the same.
func difference(was, now any) string {
	w, n := reflect.ValueOf(was), reflect.ValueOf(now)
	if w.Kind() == reflect.Pointer && !w.IsNil() && !n.IsNil() {
		w, n = w.Elem(), n.Elem()
	}
	if w.Kind() != reflect.Map {
		return fmt.Sprintf("%+v, was %+v", n, w)
	}
	var all []string
	for _, key := range w.MapKeys() {
		if v := n.MapIndex(key); !v.IsValid() || !v.Equal(w.MapIndex(key)) {
			all = append(all, fmt.Sprintf("%v %v, was %v", key, v, w.MapIndex(key)))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func sinceBoot() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // cannot fail for a clock that there is
	return ts.Nano()
}

// changed are the entries of was that now has with another value.
func changed[V comparable](was, now map[string]V) map[string]V {
	different := make(map[string]V)
	for key, v := range was {
		if n, ok := now[key]; ok && n != v {
			different[key] = v
		}
	}
	return different
}

// whileDown does what most drivers, or the kernel, want a device to be down for.
func whileDown(index int, f func() error) error {
	err := f()
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := setFlags(index, 0, unix.IFF_UP); err != nil {
		return err
	}
	return errors.Join(f(), setFlags(index, unix.IFF_UP, unix.IFF_UP))
}

func setMAC(index int, mac net.HardwareAddr) error {
	return whileDown(index, func() error { return here.LinkSetHardwareAddr(device(index), mac) })
}

const sysctlNet = "/proc/sys/net"

// sysctlPath is the file of a sysctl of a device; key is such as ipv6/conf/forwarding.
func sysctlPath(key, device string) string {
	dir, file := filepath.Split(key)
	return filepath.Join(sysctlNet, dir, device, file)
}

// readSysctls reads what of /proc/sys is of a device. A few files can only be
// written, such as a stable secret that is not set: they are left out.
func readSysctls(device string) map[string]string {
	values := make(map[string]string)
	for _, kind := range []string{"ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh", "mpls/conf"} {
		dir := filepath.Join(sysctlNet, kind, device)
		files, err := os.ReadDir(dir)
		if err != nil {
			continue // a protocol that the kernel has not
		}
		for _, f := range files {
			if b, err := os.ReadFile(filepath.Join(dir, f.Name())); err == nil {
				values[kind+"/"+f.Name()] = strings.TrimSuffix(string(b), "\n")
			}
		}
	}
	return values
}

func texts(items []Item) []string {
	var all []string
	for _, i := range items {
		all = append(all, i.Text)
	}
	return all
}

// addAll sends items back to the kernel. What is there by now is no error: it is
// compared afterwards.
func addAll(kind int, items []Item) error {
	var errs []error
	for _, i := range items {
		err := send(kind, unix.NLM_F_CREATE|unix.NLM_F_EXCL, i.Message)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			errs = append(errs, fmt.Errorf("%s: %w", i.Text, err))
		}
	}
	return errors.Join(errs...)
}

// missing are the items of was that now has no equal of. adapt says how an item of
// was looks on the device of now; plain is what of an item is compared.
func missing(was, now []Item, adapt func([]byte) ([]byte, bool), plain func([]byte) []byte) []Item {
	var left []Item
	for _, i := range was {
		m, ok := adapt(i.Message)
		if ok && !slices.ContainsFunc(now, func(n Item) bool { return bytes.Equal(plain(n.Message), plain(m)) }) {
			left = append(left, Item{i.Text, m})
		}
	}
	return left
}

func missingAddresses(was, now *Settings) []Item {
	return missing(was.Addresses, now.Addresses, func(m []byte) ([]byte, bool) {
		return aged(withIndex(m, was.Index, now.Index), was.secondsUntil(now))
	}, ageless)
}

// setAddresses adds addresses. Those that are there with something else about them
// go first: the kernel gives IPv4 addresses other labels when a device is renamed.
func setAddresses(d *dev, was, now *Settings) error {
	for _, m := range missingAddresses(was, now) {
		address, _ := addressOf(m.Message)
		for _, n := range now.Addresses {
			if other, _ := addressOf(n.Message); other != address || n.Text != m.Text {
				continue
			}
			// One may have gone with another already.
			if err := send(unix.RTM_DELADDR, 0, n.Message); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
				return fmt.Errorf("%s: remove: %w", n.Text, err)
			}
		}
	}
	left, err := readAddresses(d.index)
	if err != nil {
		return err
	}
	return addAll(unix.RTM_NEWADDR, missingAddresses(was, &Settings{Index: now.Index, At: now.At, Addresses: left}))
}

func missingNeighbours(was, now *Settings) []Item {
	return missing(was.Neighbours, now.Neighbours, func(m []byte) ([]byte, bool) {
		return withIndex(m, was.Index, now.Index), true
	}, bytes.Clone)
}

func missingRoutes(was, now *Settings) []Item {
	return missing(was.Routes, now.Routes, func(m []byte) ([]byte, bool) {
		return agedRoute(routeWithIndex(m, was.Index, now.Index), was.secondsUntil(now))
	}, timelessRoute)
}

// secondsUntil is the time from one reading to a later one.
func (was *Settings) secondsUntil(now *Settings) uint32 {
	return uint32((now.At - was.At) / int64(time.Second))
}

// setRoutes adds routes. Some need others to be there, or an IPv6 address that the
// kernel still looks for duplicates of: those are tried again as long as routes
// come back, and until the address is usable.
func setRoutes(d *dev, was, now *Settings) error {
	deadline := time.Now().Add(addressTimeout)
	left := missingRoutes(was, now)
	for {
		var failed []Item
		var errs []error
		for _, r := range left {
			err := send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, r.Message)
			if errors.Is(err, unix.EEXIST) && find(attributes(r.Message[unix.SizeofRtMsg:]), unix.RTA_MULTIPATH) != nil {
				// Of several ways the others stayed.
				err = send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, r.Message)
			}
			if err != nil {
				failed = append(failed, r)
				errs = append(errs, fmt.Errorf("%s: %w", r.Text, err))
			}
		}
		if len(failed) == 0 {
			return nil
		}
		if len(failed) == len(left) {
			tentative, err := waitTentative(d.index, deadline)
			if err != nil || !tentative {
				return errors.Join(append(errs, err)...)
			}
		}
		left = failed
	}
}

// addressTimeout bounds the wait for duplicate address detection, which takes a
// second or two where the link is up.
const addressTimeout = 5 * time.Second

// waitTentative waits for the end of duplicate address detection on a device, and
// says whether there was one to wait for.
func waitTentative(index int, deadline time.Time) (was bool, err error) {
	events, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return false, fmt.Errorf("address events: %w", err)
	}
	defer events.Close()
	for {
		addrs, err := here.AddrList(device(index), netlink.FAMILY_V6)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return was, err
		}
		left := time.Until(deadline)
		if !slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 }) || left <= 0 {
			return was, nil
		}
		was = true
		tv := unix.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
		if err := events.SetReceiveTimeout(&tv); err != nil {
			return was, err
		}
		if _, _, err := events.Receive(); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
			return was, fmt.Errorf("address events: %w", err)
		}
	}
}

// missingQdiscs are the queueing disciplines that somebody chose and that are not
// there. Those without a handle the kernel chooses when the device is set up, and it
// may choose otherwise than it did, by net.core.default_qdisc.
func missingQdiscs(was, now *Settings) []Item {
	chosen := slices.DeleteFunc(slices.Clone(was.Qdiscs), func(i Item) bool {
		if qdiscHandle(i.Message) != 0 {
			return false
		}
		return was.Flags&unix.IFF_UP == 0 || qdiscParent(i.Message) != netlink.HANDLE_ROOT ||
			slices.ContainsFunc(now.Qdiscs, func(n Item) bool {
				return qdiscParent(n.Message) == netlink.HANDLE_ROOT && qdiscKind(n.Message) == qdiscKind(i.Message)
			})
	})
	return missing(chosen, now.Qdiscs, func(m []byte) ([]byte, bool) {
		return withIndex(m, was.Index, now.Index), true
	}, func(m []byte) []byte {
		if qdiscKind(m) == "htb" {
			return slices.Clone(m[:sizeofTcMsg]) // its options count packets
		}
		return m
	})
}

func setQdiscs(d *dev, was, now *Settings) error {
	var errs []error
	// One that was put there since goes first.
	for _, n := range now.Qdiscs {
		if qdiscParent(n.Message) == netlink.HANDLE_ROOT && qdiscHandle(n.Message) != 0 {
			m := slices.Clone(n.Message[:sizeofTcMsg])
			errs = append(errs, send(unix.RTM_DELQDISC, 0, m))
		}
	}
	for _, q := range missingQdiscs(was, now) {
		if err := send(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, q.Message); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", q.Text, err))
		}
	}
	return errors.Join(errs...)
}
