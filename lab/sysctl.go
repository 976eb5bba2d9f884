package lab

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sysctlPath is the file of a sysctl, by the rule of sysctl(8): whichever of
// "." and "/" comes first separates, and the other stands for a dot in a name,
// as in net.ipv6.conf.eth0/100.forwarding.
func sysctlPath(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '.' {
		name = strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, name)
	}
	return filepath.Join("/proc/sys", name)
}

// setSysctl writes a sysctl of the namespace that the calling thread is in.
func setSysctl(name, value string) error {
	path := sysctlPath(name)
	if !strings.HasPrefix(path, "/proc/sys/net/") {
		return fmt.Errorf("sysctl %s: only those below net belong to a network namespace", name)
	}
	err := os.WriteFile(path, []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sysctl %s: this kernel has no such sysctl in a network namespace", name)
	}
	if err != nil {
		return fmt.Errorf("sysctl %s = %s: %w", name, value, errors.Unwrap(err))
	}
	return nil
}

// sysctlNeedsDevices tells the sysctls of a device, which exist once it does,
// from those that shape devices yet to come.
func sysctlNeedsDevices(name string) bool {
	path := sysctlPath(name)
	if strings.HasPrefix(path, "/proc/sys/net/vrf/") {
		return true // strict_mode appears with the VRF module
	}
	for _, dir := range []string{"/conf/", "/neigh/"} {
		if _, rest, ok := strings.Cut(path, dir); ok {
			dev, _, _ := strings.Cut(rest, "/")
			return dev != "all" && dev != "default"
		}
	}
	return false
}

// setSysctls sets those that need the node's devices, or those that do not.
func setSysctls(sysctls map[string]string, needDevices bool) error {
	for _, name := range slices.Sorted(maps.Keys(sysctls)) {
		if sysctlNeedsDevices(name) != needDevices {
			continue
		}
		if err := setSysctl(name, sysctls[name]); err != nil {
			return err
		}
	}
	return nil
}
