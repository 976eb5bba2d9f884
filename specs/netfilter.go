package specs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"seg6lab/lab/feature"
)

// lwtunnelHooks is the feature of netfilter hooks around encapsulation and
// decapsulation. The switch is one for the whole kernel and stays on until the
// next boot (nf_hooks_lwtunnel_sysctl_handler), so a case turns it on only in a
// guest, which no other case shares.
const lwtunnelHooks = "netfilter.lwtunnel"

func init() {
	feature.Register(feature.Feature{
		Name:   lwtunnelHooks,
		About:  "netfilter hooks in lightweight tunnels, to be turned on for good",
		Since:  "5.16",
		Config: "CONFIG_NF_CONNTRACK and CONFIG_LWTUNNEL",
		Module: "nf_conntrack",
		Probe:  probeLwtunnelHooks,
	})
}

func probeLwtunnelHooks() error {
	const path = "/proc/sys/net/netfilter/nf_hooks_lwtunnel"
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && inGuest.Load() {
		if err := loadModule("nf_conntrack"); err != nil {
			return err
		}
		b, err = os.ReadFile(path)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return feature.Absent(err)
	case err != nil:
		return fmt.Errorf("read the switch: %w", err)
	case strings.TrimSpace(string(b)) != "1" && !inGuest.Load():
		return feature.Absent(fmt.Errorf("%s is 0, and once set it stays 1 until the next boot: only guests are changed", path))
	}
	return nil
}

// loadModule asks for a module as the kernel would (call_modprobe). That there
// is none is no error.
func loadModule(name string) error {
	helper, err := os.ReadFile("/proc/sys/kernel/modprobe")
	if err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	err = exec.Command(strings.TrimSpace(string(helper)), "-q", "--", name).Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("load %s: %w", name, err)
	}
	return nil
}
