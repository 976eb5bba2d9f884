package kernel

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/ulikunitz/xz"
)

// ErrNoModule is returned for a module or alias that the kernel has not as a
// module: it may be built in, or absent.
var ErrNoModule = errors.New("no such module")

// Modules finds the modules of one kernel. It reads each module's own .modinfo,
// for a kernel package carries no modules.dep. It is safe for concurrent use.
type Modules struct {
	paths map[string]string // name with underscores -> file
	index string            // where the aliases are kept; empty: nowhere

	mu      sync.Mutex
	info    map[string]*modinfo
	aliases []alias // nil until one is asked for
}

// A Module is one loadable module.
type Module struct {
	Name string // with underscores, as lsmod prints it
	Path string // the file, perhaps compressed
}

type modinfo struct {
	depends, soft, aliases []string
	data                   []byte // the module itself, uncompressed
}

type alias struct{ Pattern, Module string }

// OpenModules lists the modules of k; a kernel without any gives an empty set.
func OpenModules(k *Kernel) (*Modules, error) {
	m := &Modules{paths: map[string]string{}, info: map[string]*modinfo{}}
	if k.Modules == "" {
		return m, nil
	}
	err := filepath.WalkDir(k.Modules, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if name, ok := moduleName(d.Name()); ok && d.Type().IsRegular() {
			m.paths[name] = p
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("modules of kernel %s: %w", k.Spec, err)
	}
	if cache, err := CacheDir(); err == nil {
		if f, err := m.Fingerprint(); err == nil {
			m.index = filepath.Join(GuestDir(cache, k), "aliases-"+f[:16]+".json")
		}
	}
	return m, nil
}

// moduleName is the name of the module in a file such as sch-netem.ko.xz.
func moduleName(file string) (string, bool) {
	base, rest, ok := strings.Cut(file, ".ko")
	if !ok || base == "" || (rest != "" && decompressors[rest] == nil) {
		return "", false
	}
	return canonical(base), true
}

// canonical writes a module's name the way the kernel does.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

var decompressors = map[string]func(io.Reader) (io.Reader, error){
	".xz": func(r io.Reader) (io.Reader, error) { return xz.NewReader(r) },
	".gz": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
}

// Has says whether there is a module of that name; it knows no aliases.
func (m *Modules) Has(name string) bool {
	_, ok := m.paths[canonical(name)]
	return ok
}

// Order returns the modules to load for name, a module or an alias, each after
// those that it depends on.
func (m *Modules) Order(name string) ([]Module, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	if m.Has(name) {
		names = []string{canonical(name)}
	} else if names = m.resolveAlias(name); len(names) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoModule, name)
	}
	var order []Module
	seen := map[string]bool{}
	for _, n := range names {
		if err := m.visit(n, seen, &order); err != nil {
			return nil, err
		}
	}
	return order, nil
}

func (m *Modules) visit(name string, seen map[string]bool, order *[]Module) error {
	if seen[name] {
		return nil
	}
	seen[name] = true
	path, ok := m.paths[name]
	if !ok {
		return nil // a dependency that is built in
	}
	info, err := m.load(name)
	if err != nil {
		return err
	}
	for _, d := range append(info.soft, info.depends...) {
		if err := m.visit(d, seen, order); err != nil {
			return err
		}
	}
	*order = append(*order, Module{Name: name, Path: path})
	return nil
}

// Read returns a module's ELF file, uncompressed: taking it apart under
// emulation in the guest costs some twenty times more.
func (m *Modules) Read(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info, err := m.load(canonical(name))
	if err != nil {
		return nil, err
	}
	return info.data, nil
}

// Fingerprint changes whenever a module of the set is built anew: it is a
// SHA-256 over every file's path, size and modification time, in hexadecimal.
func (m *Modules) Fingerprint() (string, error) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(m.paths)) {
		st, err := os.Stat(m.paths[name])
		if err != nil {
			return "", fmt.Errorf("module %s: %w", name, err)
		}
		fmt.Fprintln(h, m.paths[name], st.Size(), st.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (m *Modules) load(name string) (*modinfo, error) {
	if i := m.info[name]; i != nil {
		return i, nil
	}
	path, ok := m.paths[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNoModule, name)
	}
	i, err := readModule(path)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	m.info[name] = i
	return i, nil
}

func readModule(path string) (*modinfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = bufio.NewReader(f)
	if open := decompressors[filepath.Ext(path)]; open != nil {
		if r, err = open(r); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return parseModule(data)
}

// parseModule reads the .modinfo section: strings key=value, each ended by a
// zero byte (include/linux/moduleparam.h, __MODULE_INFO).
func parseModule(data []byte) (*modinfo, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo section: not a module")
	}
	b, err := section.Data()
	if err != nil {
		return nil, err
	}
	info := &modinfo{data: data}
	for s := range strings.SplitSeq(string(b), "\x00") {
		key, value, _ := strings.Cut(s, "=")
		switch key {
		case "depends":
			for d := range strings.SplitSeq(value, ",") {
				if d != "" {
					info.depends = append(info.depends, canonical(d))
				}
			}
		case "softdep":
			info.soft = append(info.soft, softPre(value)...)
		case "alias":
			info.aliases = append(info.aliases, value)
		}
	}
	return info, nil
}

// softPre returns the modules that a softdep line wants loaded before.
func softPre(line string) (pre []string) {
	in := false
	for _, w := range strings.Fields(line) {
		switch {
		case strings.HasSuffix(w, ":"):
			in = w == "pre:"
		case in:
			pre = append(pre, canonical(w))
		}
	}
	return pre
}

// networking are the directories whose modules the kernel asks for by alias
// while networks are built.
var networking = []string{"/net/", "/crypto/", "/fs/", "/lib/"}

// resolveAlias returns the modules that claim an alias such as rtnl-link-vrf.
// The first call reads all modules of networking, which takes seconds, and
// keeps what it found for the next process.
func (m *Modules) resolveAlias(name string) (modules []string) {
	if m.aliases == nil {
		b, err := os.ReadFile(m.index)
		if err != nil || json.Unmarshal(b, &m.aliases) != nil || m.aliases == nil {
			m.aliases = m.readAliases()
			if b, err := json.Marshal(m.aliases); err == nil && m.index != "" {
				_ = ReplaceFile(m.index, b) // else the next process reads the modules again
			}
		}
	}
	for _, a := range m.aliases {
		if ok, _ := filepath.Match(canonical(a.Pattern), canonical(name)); ok {
			modules = append(modules, a.Module)
		}
	}
	return modules
}

func (m *Modules) readAliases() []alias {
	var wg sync.WaitGroup
	var mu sync.Mutex
	aliases := []alias{}
	work := make(chan [2]string)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for w := range work {
				info, err := readModule(w[1])
				if err != nil {
					continue // it fails with its name when it is loaded
				}
				mu.Lock()
				for _, a := range info.aliases {
					aliases = append(aliases, alias{a, w[0]})
				}
				mu.Unlock()
			}
		})
	}
	for name, path := range m.paths {
		for _, dir := range networking {
			if strings.Contains(path, dir) {
				work <- [2]string{name, path}
				break
			}
		}
	}
	close(work)
	wg.Wait()
	sort.Slice(aliases, func(i, j int) bool { return aliases[i].Module < aliases[j].Module })
	return aliases
}
