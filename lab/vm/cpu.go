package vm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// DefaultCPU is the model of guests that count instructions.
const DefaultCPU = "Haswell-v4"

// ErrNoCPU says that this QEMU does not have a model of CPU.
var ErrNoCPU = errors.New("no such CPU here")

// CheckCPU tells whether QEMU has a model of CPU. Features may follow it, as in
// Haswell-v4,-erms; what they are called is not checked.
func CheckCPU(ctx context.Context, model string) error {
	qemu, err := findQEMU()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, qemu, "-cpu", "help").Output()
	if err != nil {
		return fmt.Errorf("list QEMU's CPUs: %w", err)
	}
	name, _, _ := strings.Cut(model, ",")
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "x86" && f[1] == name {
			return nil
		}
	}
	return fmt.Errorf("%w: QEMU knows no %q (%s -cpu help lists what it knows)", ErrNoCPU, name, qemuProgram)
}
