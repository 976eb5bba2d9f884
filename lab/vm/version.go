package vm

import (
	"context"
	"os/exec"
	"strings"
)

// Version is what QEMU says it is: its first line for --version. The error is
// ErrNoQEMU where there is none.
func Version(ctx context.Context) (string, error) {
	qemu, err := findQEMU()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, qemu, "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line, err
}
