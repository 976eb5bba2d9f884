package vm

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"

	"seg6lab/lab/kernel"
)

// coreModules are loaded before a guest is saved: what most labs need, and what
// shows the host's files. Each costs 17 ms and more of a first boot under
// emulation, so the others wait until the kernel asks for them.
var coreModules = []string{
	"vrf", "8021q", "veth", "dummy", "bridge", "tun", "sch_ingress",
	"overlay", "virtiofs", "9p", "9pnet_virtio",
}

// portModules are what the agent's port needs where it is not built in: they
// cannot come through the port.
var portModules = []string{"virtio_pci", "virtio_console"}

// inOrder returns the named modules that the kernel has, each after those that
// it depends on. What it lacks is built in, or does without.
func inOrder(mods *kernel.Modules, names []string) ([]kernel.Module, error) {
	var all []kernel.Module
	seen := map[string]bool{}
	for _, name := range names {
		if !mods.Has(name) {
			continue
		}
		order, err := mods.Order(name)
		if err != nil {
			return nil, err
		}
		for _, m := range order {
			if !seen[m.Name] {
				seen[m.Name] = true
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// coreArchive packs the core modules in the order of loading.
func coreArchive(mods *kernel.Modules) ([]byte, error) {
	order, err := inOrder(mods, coreModules)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = packModules(&b, mods, order)
	return b.Bytes(), err
}

// buildInitramfs writes the first file system of a guest: agent as /init and
// the modules of the port.
func buildInitramfs(w io.Writer, agent string, mods *kernel.Modules) error {
	program, err := readStripped(agent)
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	records := []cpio.Record{
		cpio.Directory("dev", 0o755),
		cpio.CharDev("dev/console", 0o600, 5, 1), // opened for PID 1 before it could mount anything
		cpio.StaticFile("init", string(program), 0o755),
	}
	libraries, err := libraryRecords(agent)
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	order, err := inOrder(mods, portModules)
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	records = append(records, cpio.Directory(initModules[1:], 0o755))
	for i, m := range order {
		data, err := mods.Read(m.Name)
		if err != nil {
			return fmt.Errorf("initramfs: %w", err)
		}
		records = append(records, cpio.StaticFile(fmt.Sprintf("%s/%03d-%s", initModules[1:], i, m.Name), string(data), 0o600))
	}
	rw := cpio.Newc.Writer(w)
	if err := cpio.WriteRecords(rw, append(records, libraries...)); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	return cpio.WriteTrailer(rw)
}

// libraryRecords are the libraries of a program that is not static, as a test binary may be.
func libraryRecords(program string) ([]cpio.Record, error) {
	libraries, err := Closure(program)
	if err != nil {
		return nil, err
	}
	var records []cpio.Record
	seen := map[string]bool{}
	for _, l := range libraries {
		parts := strings.Split(strings.TrimPrefix(l, "/"), "/")
		for i := 1; i < len(parts); i++ {
			if dir := strings.Join(parts[:i], "/"); !seen[dir] {
				seen[dir] = true
				records = append(records, cpio.Directory(dir, 0o755))
			}
		}
		b, err := os.ReadFile(l)
		if err != nil {
			return nil, err
		}
		records = append(records, cpio.StaticFile(l[1:], string(b), 0o755))
	}
	return records, nil
}

// initramfsFile builds the initramfs in memory.
func initramfsFile(agent string, mods *kernel.Modules) (*os.File, error) {
	var b bytes.Buffer
	if err := buildInitramfs(&b, agent, mods); err != nil {
		return nil, err
	}
	f, err := memory("initramfs", 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(b.Bytes()); err != nil {
		f.Close()
		return nil, fmt.Errorf("initramfs: %w", err)
	}
	return f, nil
}
