package vm

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"seg6lab/lab/kernel"
)

// serveModules answers the guest's wish for modules: it sends them with all
// that they depend on, then the reply.
func (m *Machine) serveModules(id uint32, names []string) {
	var r reply
	if err := m.LoadModules(context.Background(), names...); err != nil {
		r = reply{Error: err.Error(), Missing: errors.Is(err, kernel.ErrNoModule)}
	}
	b, err := json.Marshal(r)
	if err == nil {
		_ = m.out.write(kindReply, id, b)
	}
}

// LoadModules loads modules of the guest's kernel, by name or alias, after all
// that they depend on. A module that is built in is reported as kernel.ErrNoModule.
func (m *Machine) LoadModules(ctx context.Context, names ...string) error {
	for _, n := range names {
		order, err := m.modules.Order(n)
		if err != nil {
			return err
		}
		var archive bytes.Buffer
		if err := packModules(&archive, m.modules, order); err != nil {
			return err
		}
		if _, err := m.call(ctx, request{Op: "modules"}, &archive, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Cmd is a command to run in the guest.
type Cmd struct {
	Args []string
	// Env is the whole environment; nil is a small one with a PATH.
	Env []string
	// Dir is where it runs; empty is /.
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal gives it a terminal of Size rows and columns, changed by what
	// Resize yields; output then comes on Stdout alone.
	Terminal bool
	Size     [2]uint16
	Resize   <-chan [2]uint16
}

var defaultEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}

// Run runs a command to its end and returns its exit code, 128 plus the signal
// if one ended it. An error says that the code is not known: the guest died
// (*Report if its kernel complained), or ctx ended.
func (m *Machine) Run(ctx context.Context, cmd Cmd) (exit int, err error) {
	if cmd.Env == nil {
		cmd.Env = defaultEnv
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	r, err := m.callResized(ctx, request{Op: "exec", Exec: &execRequest{
		Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, TTY: cmd.Terminal, Rows: cmd.Size[0], Cols: cmd.Size[1],
	}}, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Resize)
	if err != nil {
		return 0, err
	}
	return r.Exit, nil
}

// Push copies a file or a directory of the host to the path dst in the guest.
func (m *Machine) Push(ctx context.Context, src, dst string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(w, src, path.Base(dst))) }()
	defer r.Close()
	if _, err := m.call(ctx, request{Op: "push", Path: path.Dir(dst)}, r, nil, nil); err != nil {
		return fmt.Errorf("push %s: %w", src, err)
	}
	return nil
}

// pushStripped copies a program, without what only debuggers read.
func (m *Machine) pushStripped(ctx context.Context, src, dst string) error {
	b, err := readStripped(src)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(dst), Mode: 0o755, Size: int64(len(b))}); err != nil {
		return err
	}
	if _, err := tw.Write(b); err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	if _, err := m.call(ctx, request{Op: "push", Path: path.Dir(dst)}, &archive, nil, nil); err != nil {
		return fmt.Errorf("push %s: %w", src, err)
	}
	return nil
}

// Pull copies what is below the directory src of the guest into the directory dst of the host.
func (m *Machine) Pull(ctx context.Context, src, dst string) error {
	r, w := io.Pipe()
	extracted := make(chan error, 1)
	go func() {
		err := extract(r, dst)
		r.CloseWithError(err)
		extracted <- err
	}()
	_, err := m.call(ctx, request{Op: "pull", Path: src}, nil, w, nil)
	w.CloseWithError(err)
	if xerr := <-extracted; err == nil {
		err = xerr
	}
	if err != nil {
		return fmt.Errorf("pull %s: %w", src, err)
	}
	return nil
}

// PushSelf makes this very program runnable in the guest and returns its path
// there. A guest that was saved by the same build has it already.
func (m *Machine) PushSelf(ctx context.Context) (string, error) {
	m.mu.Lock()
	self := m.self
	m.mu.Unlock()
	if self != "" {
		return self, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	build, err := buildOf(exe)
	if err != nil {
		return "", err
	}
	self = agentPath
	if build != m.build {
		self = agentDir + "/seg6lab"
		if err := m.pushStripped(ctx, exe, self); err != nil {
			return "", err
		}
		if err := m.pushLibraries(ctx, exe); err != nil {
			return "", err
		}
	}
	m.mu.Lock()
	m.self = self
	m.mu.Unlock()
	return self, nil
}
