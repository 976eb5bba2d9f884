package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// RunHere runs a command in the guest as if it were run here: with this
// process's input, output, environment and working directory, on a terminal if
// this process has one. Where the host's files could not be shared, the command
// and the files that its arguments name are copied first.
func (m *Machine) RunHere(ctx context.Context, args []string) (exit int, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	for _, hidden := range carried {
		if dir == hidden || strings.HasPrefix(dir, hidden+"/") {
			dir = "/"
		}
	}
	cmd := Cmd{Args: args, Env: os.Environ(), Dir: dir, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if m.shared == "" {
		cmd.Dir = "/"
		if cmd.Args, err = m.pushCommand(ctx, args); err != nil {
			return 0, err
		}
	}
	in, out := int(os.Stdin.Fd()), int(os.Stdout.Fd())
	if !term.IsTerminal(in) || !term.IsTerminal(out) {
		return m.Run(ctx, cmd)
	}
	state, err := term.MakeRaw(in)
	if err != nil {
		return 0, fmt.Errorf("terminal: %w", err)
	}
	defer term.Restore(in, state)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	resize := make(chan [2]uint16, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case <-changed:
				select {
				case resize <- windowSize(out):
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	cmd.Terminal, cmd.Size, cmd.Resize = true, windowSize(out), resize
	return m.Run(ctx, cmd)
}

// windowSize is the terminal's size in rows and columns.
func windowSize(fd int) [2]uint16 {
	cols, rows, err := term.GetSize(fd)
	if err != nil {
		return [2]uint16{24, 80}
	}
	return [2]uint16{uint16(rows), uint16(cols)}
}

// PushProgram copies a program of the host into the guest, to the path that it
// has on the host, with the libraries or the interpreter that it needs. It
// returns that path.
func (m *Machine) PushProgram(ctx context.Context, name string) (string, error) {
	p, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	if p, err = filepath.Abs(p); err != nil {
		return "", err
	}
	program := p
	if interpreter := shebang(p); interpreter != "" {
		if err := m.Push(ctx, p, p); err != nil {
			return "", err
		}
		program = interpreter
	}
	if err := m.pushLibraries(ctx, program); err != nil {
		return "", err
	}
	return p, m.pushFollowing(ctx, program)
}

func (m *Machine) pushLibraries(ctx context.Context, program string) error {
	libraries, err := Closure(program)
	if err != nil {
		return err
	}
	for _, l := range libraries {
		if err := m.pushFollowing(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// pushFollowing copies what a link leads to, to the place of the link.
func (m *Machine) pushFollowing(ctx context.Context, file string) error {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	return m.Push(ctx, real, file)
}

// shebang is the interpreter of a script, or empty.
func shebang(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 256)
	n, _ := f.Read(b)
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	rest, ok := strings.CutPrefix(line, "#!")
	if fields := strings.Fields(rest); ok && len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// pushCommand copies a command and the regular files among its arguments, and
// returns the command by its path.
func (m *Machine) pushCommand(ctx context.Context, args []string) ([]string, error) {
	p, err := m.PushProgram(ctx, args[0])
	if errors.Is(err, exec.ErrNotFound) {
		return args, nil // the guest says that it is not there
	}
	if err != nil {
		return nil, err
	}
	out := []string{p}
	for _, a := range args[1:] {
		if st, err := os.Stat(a); err == nil && st.Mode().IsRegular() {
			if a, err = filepath.Abs(a); err != nil {
				return nil, err
			}
			if err := m.pushFollowing(ctx, a); err != nil {
				return nil, err
			}
		}
		out = append(out, a)
	}
	return out, nil
}

// Shell is the user's shell, or the one that every system has.
func Shell() string {
	if s := os.Getenv("SHELL"); s != "" {
		return s
	}
	return "/bin/sh"
}
