package port

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

// NetnsDir is where named network namespaces are, by iproute2's convention.
const NetnsDir = "/run/netns"

// StateVariable names a directory for records in place of DefaultState.
const (
	StateVariable = "SEG6LAB_STATE"
	DefaultState  = "/var/lib/seg6lab"
)

// Dir is the directory with a record for each bound port.
func Dir() string {
	state := os.Getenv(StateVariable)
	if state == "" {
		state = DefaultState
	}
	return filepath.Join(state, "ports")
}

// Record is what a port was before it was bound, and where it is bound. It is on
// disk before the first change, and stays there until the port is as it was.
type Record struct {
	// Version of the format: recordVersion.
	Version int
	// Boot is the kernel's id of the boot: with the next one the port has been
	// set up anew by the machine.
	Boot string
	// Lab, Node and Device name the end that the port is bound to.
	Lab, Node, Device string
	// To is the bound end that a cable is to lead to, nil for outside equipment.
	To *topology.End `json:",omitempty"`
	// Netns is the name of the node's namespace, Registry the directory that names
	// it, by device and inode.
	Netns, Registry string
	// Home is the cookie of the namespace that the port belongs to.
	Home uint64
	// Kind, PCI, PermMAC and Driver tell the port from others.
	Kind, Driver, PCI, PermMAC string
	// Settings that come back.
	Settings *Settings

	path string
}

const recordVersion = 1

// End is the end that the port is bound to.
func (r *Record) End() topology.End { return topology.End{Node: r.Node, Dev: r.Device} }

// Port names the port by what it is called outside of the lab.
func (r *Record) Port() string {
	f := Facts{Name: r.Settings.Name, Driver: r.Driver, PCI: r.PCI}
	return f.String()
}

// mark is the alias of a bound port, by which it is found wherever it is.
func (r *Record) mark() string { return markPrefix + strings.TrimSuffix(filepath.Base(r.path), suffix) }

const (
	markPrefix = "seg6lab port "
	suffix     = ".json"

	unfinishedPrefix = ".new-"
)

// Answers says whether a record is of the port that is asked for.
func (r *Record) Answers(p *topology.Port) bool {
	switch {
	case p.PCI != "":
		return r.PCI == p.PCI
	case p.MAC != nil:
		return r.PermMAC == p.MAC.String() || r.PermMAC == "" && r.Settings.MAC == p.MAC.String()
	}
	return r.Settings.Name == p.Name || slices.Contains(r.Settings.AltNames, p.Name)
}

// DamagedError says that a record cannot be read.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the record %s of a bound port is damaged: %v: set the port up by hand and delete the file", e.Path, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// Records reads the records of all bound ports. Those that are damaged are told in
// the error, each as a *DamagedError, and the others returned all the same.
func Records() ([]*Record, error) {
	paths, err := filepath.Glob(filepath.Join(Dir(), "*"+suffix))
	if err != nil {
		return nil, err
	}
	var records []*Record
	var errs []error
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // released meanwhile
		}
		r := &Record{path: path}
		if err == nil {
			err = json.Unmarshal(b, r)
		}
		if err == nil && (r.Version != recordVersion || r.Settings == nil || r.Settings.Name == "") {
			err = fmt.Errorf("version %d, expected %d with settings", r.Version, recordVersion)
		}
		if err != nil {
			errs = append(errs, &DamagedError{path, err})
			continue
		}
		records = append(records, r)
	}
	return records, errors.Join(errs...)
}

// lock makes this process the only one that binds and releases ports.
func lock() (unlock func(), err error) {
	dir := Dir()
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the records of ports: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock the records of ports: %w", err)
	}
	// What a killed process was writing.
	unfinished, _ := filepath.Glob(filepath.Join(dir, unfinishedPrefix+"*"))
	for _, path := range unfinished {
		os.Remove(path)
	}
	return func() { file.Close() }, nil
}

// makeDir makes a directory and those above it last through a power failure.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		if err := syncDir(d); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot, and need not.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// write puts the record on disk: whole or not at all, and when write returns, for
// good.
func (r *Record) write() (err error) {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	// What cannot be read again would be worth nothing.
	if err := json.Unmarshal(b, new(Record)); err != nil {
		return err
	}
	dir := filepath.Dir(r.path)
	file, err := os.CreateTemp(dir, unfinishedPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = file.Write(append(b, '\n'))
	reached("writing")
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), r.path); err != nil {
		return err
	}
	return syncDir(dir)
}

// remove takes the record away once the port is as it was.
func (r *Record) remove() error {
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(filepath.Dir(r.path))
}

// bootID is the kernel's random id of this boot.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// registry tells the directory that names namespaces from another one that is
// mounted in its place elsewhere.
func registry() string {
	var st unix.Stat_t
	if err := unix.Stat(NetnsDir, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// Outdated says whether the record is of an earlier boot: whatever it speaks of has
// been set up anew by the machine since.
func (r *Record) Outdated() bool {
	boot, err := bootID()
	return err == nil && boot != r.Boot
}

// Here says whether the record's lab would be among those that this process sees.
func (r *Record) Here() bool { return r.Registry == registry() }
