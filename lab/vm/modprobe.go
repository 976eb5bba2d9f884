package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// IsModprobe says whether this process is the guest's modprobe, which the
// kernel starts when it wants a module, and then has to call nothing but Modprobe.
func IsModprobe() bool {
	if filepath.Base(os.Args[0]) != "modprobe" {
		return false
	}
	_, err := os.Stat(modulesSocket)
	return err == nil
}

// Modprobe asks the host, through the agent, for the modules that are named on
// the command line, in the manner of modprobe(8), and exits.
func Modprobe() {
	quiet, err := modprobe(os.Args[1:])
	if err == nil {
		os.Exit(0)
	}
	if !quiet {
		fmt.Fprintf(os.Stderr, "modprobe: %v\n", err)
	}
	os.Exit(1)
}

// modprobe understands the options that scripts use: -r removes, -n does
// nothing, -q is quiet about missing modules, -a takes every word as a module.
// Module parameters are refused: the agent does not pass them on.
func modprobe(args []string) (quiet bool, err error) {
	var names []string
	remove, dry, all := false, false, false
	for i, a := range args {
		switch {
		case a == "--":
			names = append(names, args[i+1:]...)
			args = nil
		case strings.HasPrefix(a, "--"):
			quiet = quiet || a == "--quiet"
			remove = remove || a == "--remove"
			dry = dry || a == "--dry-run" || a == "--show"
			all = all || a == "--all"
		case strings.HasPrefix(a, "-"):
			quiet = quiet || strings.Contains(a, "q")
			remove = remove || strings.Contains(a, "r")
			dry = dry || strings.Contains(a, "n")
			all = all || strings.Contains(a, "a")
		default:
			names = append(names, a)
		}
		if args == nil {
			break
		}
	}
	switch {
	case len(names) == 0:
		return quiet, errors.New("no module named")
	case len(names) > 1 && !all && !remove:
		return quiet, fmt.Errorf("module %s: parameters are not supported in the guest: %s", names[0], strings.Join(names[1:], " "))
	case dry:
		return quiet, nil
	case remove:
		for _, n := range names {
			if err := unix.DeleteModule(strings.ReplaceAll(n, "-", "_"), unix.O_NONBLOCK); err != nil {
				return quiet, fmt.Errorf("remove module %s: %w", n, err)
			}
		}
		return quiet, nil
	}
	return askModules(quiet, names)
}

func askModules(quiet bool, names []string) (bool, error) {
	conn, err := net.Dial("unix", modulesSocket)
	if err != nil {
		return quiet, err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(names); err != nil {
		return quiet, err
	}
	var r reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the agent is gone")
		}
		return quiet, err
	}
	if r.Error != "" {
		return quiet && r.Missing, errors.New(r.Error)
	}
	return quiet, nil
}
