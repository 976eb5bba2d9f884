package specs

import (
	"context"
	"os"
	"runtime"
	"strings"

	"seg6lab/lab/vm"
)

// Machine is what guests were executed by.
type Machine struct {
	// CPU is the processor's name, and how many of them there are.
	CPU  string `json:",omitempty"`
	CPUs int
	// Kernel is the release of the machine's own.
	Kernel string
	// QEMU is its version, Accel what executes a guest; empty where there is no
	// QEMU.
	QEMU  string   `json:",omitempty"`
	Accel vm.Accel `json:",omitempty"`
}

// thisMachine describes the machine; what it cannot find out is left empty.
func thisMachine(ctx context.Context) Machine {
	m := Machine{CPUs: runtime.NumCPU(), Kernel: release(), CPU: cpuModel()}
	m.QEMU, _ = vm.Version(ctx)
	m.Accel, _, _ = vm.KnownAccel()
	return m
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(model), " ")
		}
	}
	return ""
}
