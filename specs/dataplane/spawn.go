package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"seg6lab/lab"
	"seg6lab/lab/topology"
)

// ForwardCommand is the subcommand of this program that forwards.
const ForwardCommand = "forward"

// Spawn runs a process of its own for every node with a forwarder, inside the
// node's namespace, where it stays until the lab is taken down. ref is the
// topology's name or path. When Spawn returns, the forwarders take frames; said is
// what each prints, a line each.
func Spawn(l *lab.Lab, t *topology.Topology, ref string, means Means) (said []string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, name := range forwarding(t) {
		node, err := l.Node(name)
		if err != nil {
			return nil, err
		}
		line, err := spawn(node, exe, ref, t, means)
		if err != nil {
			return nil, fmt.Errorf("node %s: start the forwarder: %w", name, err)
		}
		said = append(said, name+": "+line)
	}
	return said, nil
}

func spawn(node *lab.Node, exe, ref string, t *topology.Topology, means Means) (line string, err error) {
	args := []string{ForwardCommand, "--node", node.Name, "--detach", ref}
	for _, end := range slices.Sorted(maps.Keys(t.Ports)) {
		// They may be from the command line, and say what is outside equipment.
		args = append(args, "--bound", end+"="+t.Ports[end].String())
	}
	for _, k := range means.Kinds {
		args = append(args, "--port", string(k))
	}
	for _, cpu := range means.CPUs {
		args = append(args, "--cpus", strconv.Itoa(cpu))
	}
	cmd := node.Command(context.Background(), exe, args...)
	cmd.Args[0] = os.Args[0] // a test's binary is several programs
	// A session of its own, which outlives this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := node.Start(cmd); err != nil {
		return "", err
	}
	// It closes its output once it forwards.
	out, err := io.ReadAll(said)
	if err == nil && !strings.HasPrefix(string(out), "forwarding") {
		err = cmd.Wait()
		if why := strings.TrimPrefix(strings.TrimSpace(complaint.String()), "seg6lab: "); why != "" {
			err = errors.New(why)
		}
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), cmd.Process.Release()
}
