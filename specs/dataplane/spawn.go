package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"seg6lab/lab"
	"seg6lab/lab/topology"
)

// ForwardCommand is the subcommand of this program that forwards.
const ForwardCommand = "forward"

// Spawn runs a process of its own for every node with a forwarder, inside the
// node's namespace, where it stays until the lab is taken down. ref is the
// topology's name or path. When Spawn returns, the forwarders take frames.
func Spawn(l *lab.Lab, t *topology.Topology, ref string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range forwarding(t) {
		node, err := l.Node(name)
		if err != nil {
			return err
		}
		if err := spawn(node, exe, ref, t); err != nil {
			return fmt.Errorf("node %s: start the forwarder: %w", name, err)
		}
	}
	return nil
}

func spawn(node *lab.Node, exe, ref string, t *topology.Topology) error {
	args := []string{ForwardCommand, "--node", node.Name, "--detach", ref}
	for _, end := range slices.Sorted(maps.Keys(t.Ports)) {
		// They may be from the command line, and say what is outside equipment.
		args = append(args, "--bound", end+"="+t.Ports[end].String())
	}
	cmd := node.Command(context.Background(), exe, args...)
	// A session of its own, which outlives this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := node.Start(cmd); err != nil {
		return err
	}
	// It closes its output once it forwards.
	out, err := io.ReadAll(said)
	if err == nil && !strings.HasPrefix(string(out), "forwarding") {
		err = errors.Join(cmd.Wait(), errors.New(strings.TrimSpace(complaint.String())))
	}
	if err != nil {
		return err
	}
	return cmd.Process.Release()
}
