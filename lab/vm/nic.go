package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"seg6lab/lab/kernel"
)

// NIC is a network device of hardware that QEMU emulates and that the guest's
// own driver drives. It leads nowhere but to other NICs of the same guest.
type NIC struct {
	// Model is one of NICModels.
	Model string
	// Cable joins the NICs that name the same one; empty is none. More than two
	// hear each other as on a hub.
	Cable string
}

func (n NIC) String() string {
	if n.Cable == "" {
		return n.Model
	}
	return n.Model + "@" + n.Cable
}

// nicDriver is what drives a model in the guest: a module, or built in by the option.
type nicDriver struct{ module, option string }

var nicDrivers = map[string]nicDriver{
	"e1000":          {"e1000", "CONFIG_E1000"},
	"e1000e":         {"e1000e", "CONFIG_E1000E"},
	"igb":            {"igb", "CONFIG_IGB"},
	"vmxnet3":        {"vmxnet3", "CONFIG_VMXNET3"},
	"virtio-net-pci": {"virtio_net", "CONFIG_VIRTIO_NET"},
}

// NICModels are the models of NICs, by QEMU's names.
func NICModels() []string { return slices.Sorted(maps.Keys(nicDrivers)) }

// ErrNoNIC says that this QEMU or this kernel does not have a model of NIC.
var ErrNoNIC = errors.New("no such network device here")

// ParseNIC reads MODEL or MODEL@CABLE.
func ParseNIC(s string) (NIC, error) {
	model, cable, cabled := strings.Cut(s, "@")
	if _, ok := nicDrivers[model]; !ok {
		return NIC{}, fmt.Errorf("no network device is called %q: expected %s, with @ and a word for the cable", model, strings.Join(NICModels(), ", "))
	}
	if cabled && cable == "" {
		return NIC{}, fmt.Errorf("%q: expected a word for the cable after @", s)
	}
	return NIC{model, cable}, nil
}

// NICMAC is the Ethernet address of a guest's NIC by its place in Config.NICs.
func NICMAC(i int) string { return fmt.Sprintf("52:54:00:00:%02x:%02x", (i+1)>>8, (i+1)&0xff) }

// nicID is what the monitor knows a NIC by.
func nicID(i int) string { return fmt.Sprintf("nic%d", i) }

// nicArgs are QEMU's arguments for the NICs of a guest.
func nicArgs(nics []NIC) []string {
	var args []string
	hubs := map[string]int{}
	for i, n := range nics {
		hub, ok := hubs[n.Cable]
		if !ok || n.Cable == "" {
			hub = len(args) // any number that no other has
			hubs[n.Cable] = hub
		}
		args = append(args,
			"-netdev", fmt.Sprintf("hubport,id=cable%d,hubid=%d", i, hub),
			"-device", fmt.Sprintf("%s,id=%s,netdev=cable%d,mac=%s", n.Model, nicID(i), i, NICMAC(i)))
	}
	return args
}

// checkNICs tells whether QEMU and the kernel have what the NICs need.
func checkNICs(ctx context.Context, qemu string, k *kernel.Kernel, mods *kernel.Modules, nics []NIC) error {
	checked := map[string]bool{}
	for _, n := range nics {
		if checked[n.Model] {
			continue
		}
		checked[n.Model] = true
		d, ok := nicDrivers[n.Model]
		if !ok {
			return fmt.Errorf("%w: QEMU's models of network devices are %s, not %q", ErrNoNIC, strings.Join(NICModels(), ", "), n.Model)
		}
		if !mods.Has(d.module) && !builtIn(k.Config, d.option) {
			return fmt.Errorf("%w: the kernel has no driver %s (Debian's with every driver are called debian:VERSION:full)", ErrNoNIC, d.module)
		}
		// QEMU's exit code does not tell.
		if out, err := exec.CommandContext(ctx, qemu, "-device", n.Model+",help").Output(); err != nil || len(out) == 0 {
			return fmt.Errorf("%w: this QEMU has no %s", ErrNoNIC, n.Model)
		}
	}
	return nil
}

// builtIn tells whether a kernel's configuration has the option as y. Of a kernel
// without one nothing is known, and nothing refused.
func builtIn(config, option string) bool {
	f, err := os.Open(config)
	if err != nil {
		return config == ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if s.Text() == option+"=y" {
			return true
		}
	}
	return false
}

// loadDrivers loads the drivers of the guest's NICs: nobody in the guest does,
// and what is built in needs none.
func (m *Machine) loadDrivers(ctx context.Context) error {
	for _, n := range m.cfg.NICs {
		if err := m.LoadModules(ctx, nicDrivers[n.Model].module); err != nil && !errors.Is(err, kernel.ErrNoModule) {
			return err
		}
	}
	return nil
}

// SetCarrier takes the cable out of the guest's NIC i, counted from 0 in
// Config.NICs, or puts it back. QEMU 7.2's e1000e does not tell its driver.
func (m *Machine) SetCarrier(ctx context.Context, i int, up bool) error {
	return m.hv.monitor.do(ctx, "set_link", map[string]any{"name": nicID(i), "up": up}, nil)
}

// Unplug takes the guest's NIC i, counted from 0 in Config.NICs, out of its
// slot, and returns once the guest's kernel has let go of it.
func (m *Machine) Unplug(ctx context.Context, i int) error {
	if err := m.hv.monitor.do(ctx, "device_del", map[string]any{"id": nicID(i)}, nil); err != nil {
		return err
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		var devices []struct{ Name string }
		if err := m.hv.monitor.do(ctx, "qom-list", map[string]any{"path": "/machine/peripheral"}, &devices); err != nil {
			return err
		}
		if !slices.ContainsFunc(devices, func(d struct{ Name string }) bool { return d.Name == nicID(i) }) {
			return nil
		}
		select {
		case <-m.dead:
			return m.Err()
		case <-ctx.Done():
			return fmt.Errorf("unplug %s: the guest keeps it: %w", nicID(i), context.Cause(ctx))
		case <-poll.C:
		}
	}
}
