package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A place in the guest that carries on into the new root.
var carried = []string{"/proc", "/sys", "/dev", "/run"}

// enterRoot makes the host's files, which the device with the call's tag
// serves, the root: read-only below, with a layer in memory for what is written.
// The agent itself moves there.
func (c *call) enterRoot() (reply, error) {
	if len(c.req.Names) != 2 {
		return reply{}, errors.New("wants a file system type and a tag")
	}
	c.agent.dropPrepared()
	fstype, tag := c.req.Names[0], c.req.Names[1]
	const lower, layer, root = "/host", "/layer", "/root"
	for _, d := range []string{lower, layer, root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return reply{}, err
		}
	}
	data := ""
	if fstype == "9p" {
		data = "trans=virtio,version=9p2000.L,msize=262144,cache=loose"
	}
	if err := mountWhenThere(tag, lower, fstype, data); err != nil {
		return reply{Missing: errors.Is(err, unix.ENODEV)}, err
	}
	if err := overlay(lower, layer, root); err != nil {
		return reply{}, err
	}
	for _, m := range carried {
		if err := os.MkdirAll(root+m, 0o755); err != nil {
			return reply{}, err
		}
		if err := unix.Mount(m, root+m, "", unix.MS_MOVE, ""); err != nil {
			return reply{}, fmt.Errorf("move %s: %w", m, err)
		}
	}
	if err := hideModprobe(root); err != nil {
		return reply{}, err
	}
	return reply{}, switchRoot(root)
}

// overlay puts a writable layer over lower, or only lower where the kernel has no overlayfs.
func overlay(lower, layer, root string) error {
	if err := unix.Mount("tmpfs", layer, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount the scratch layer: %w", err)
	}
	for _, d := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(layer, d), 0o755); err != nil {
			return err
		}
	}
	err := unix.Mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, layer, layer))
	if errors.Is(err, unix.ENODEV) {
		err = unix.Mount(lower, root, "", unix.MS_BIND, "")
	}
	if err != nil {
		return fmt.Errorf("lay the scratch layer over the host's files: %w", err)
	}
	return nil
}

// hideModprobe puts the agent in the place of the host's modprobe, which knows
// only the host's modules.
func hideModprobe(root string) error {
	for _, p := range []string{"/usr/sbin/modprobe", "/sbin/modprobe"} {
		real, err := filepath.EvalSymlinks(root + filepath.Dir(p))
		if err != nil {
			continue
		}
		target := filepath.Join(real, "modprobe")
		if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EROFS) {
			return err
		}
		if err := os.Symlink(modprobePath, target); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, unix.EROFS) {
			return fmt.Errorf("put modprobe in place: %w", err)
		}
	}
	return nil
}

// switchRoot makes root the root of this process, by moving it over the first
// one as switch_root(8) does: a plain chroot would forbid user namespaces.
func switchRoot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the new root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// mountWhenThere mounts a share whose device was plugged in just now and which
// the kernel may not have found yet.
func mountWhenThere(tag, target, fstype, data string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := unix.Mount(tag, target, fstype, unix.MS_RDONLY, data)
		if err == nil {
			return nil
		}
		// virtiofs says EINVAL and 9p ENOENT for a tag that is not there.
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) || time.Now().After(deadline) {
			return fmt.Errorf("mount the host's files by %s: %w", fstype, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
