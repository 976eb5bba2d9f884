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

// coreModules are loaded before a guest is saved: what nearly every lab needs.
// Others are loaded when the kernel asks for them.
var coreModules = []string{
	"virtio_blk", "vrf", "8021q", "veth", "dummy", "bridge", "tun", "ifb",
	"sch_ingress", "sch_netem", "cls_u32", "cls_flower", "cls_matchall", "cls_bpf", "act_mirred", "act_gact",
	"overlay", "virtiofs", "9p", "9pnet_virtio", "virtio_net",
	"ip_tables", "ip6_tables", "iptable_filter", "ip6table_filter", "ip6table_mangle", "ip6table_raw",
	"nf_tables", "nft_compat", "nf_conntrack",
}

// coreArchive packs the core modules that the kernel has, in the order of loading.
func coreArchive(mods *kernel.Modules) ([]byte, error) {
	var all []kernel.Module
	seen := map[string]bool{}
	for _, name := range coreModules {
		if !mods.Has(name) {
			continue // built in, or this kernel goes without
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
	var b bytes.Buffer
	err := packModules(&b, mods, all)
	return b.Bytes(), err
}

// buildInitramfs writes the first file system of a guest: agent as /init.
func buildInitramfs(w io.Writer, agent string) error {
	program, err := os.ReadFile(agent)
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
func initramfsFile(agent string) (*os.File, error) {
	var b bytes.Buffer
	if err := buildInitramfs(&b, agent); err != nil {
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
