package probe

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// A textRange is the code of one function: lo <= address < hi.
type textRange struct{ lo, hi uint64 }

// symbols are the functions of the running kernel by address.
type symbols struct {
	addresses   []uint64
	names       []string
	byName      map[string]int // those that the probe asks for
	core        textRange      // of the kernel itself, without modules and eBPF
	initOnAlloc uint64         // address of the static key, 0 when hidden
}

// kernelSymbols reads /proc/kallsyms once in the life of the process.
var kernelSymbols = sync.OnceValues(func() (*symbols, error) {
	b, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	s := parseSymbols(b)
	if len(s.addresses) == 0 || s.addresses[len(s.addresses)-1] == 0 {
		return nil, fmt.Errorf("%w: /proc/kallsyms hides addresses: set kernel.kptr_restrict to 0 or 1 and run as root", ErrUnsupported)
	}
	return s, nil
})

func parseSymbols(b []byte) *symbols {
	s := &symbols{byName: map[string]int{}}
	all := string(b)
	s.addresses = make([]uint64, 0, bytes.Count(b, []byte{'\n'}))
	s.names = make([]string, 0, cap(s.addresses))
	for len(all) > 0 {
		var line string
		line, all, _ = strings.Cut(all, "\n")
		hex, rest, ok := strings.Cut(line, " ")
		if !ok || len(rest) < 3 {
			continue
		}
		name, _, _ := strings.Cut(rest[2:], "\t")
		addr, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			continue
		}
		switch rest[0] {
		case 't', 'T', 'w', 'W':
			s.addresses = append(s.addresses, addr)
			s.names = append(s.names, name)
			switch name {
			case "_stext":
				s.core.lo = addr
			case "_etext":
				s.core.hi = addr
			}
		default:
			if name == "init_on_alloc" {
				s.initOnAlloc = addr
			}
		}
	}
	sort.Stable(byAddress{s})
	for i, n := range s.names {
		if base, _, _ := strings.Cut(n, "."); wanted[base] && !strings.Contains(n, ".cold") {
			s.byName[base] = i
		}
	}
	return s
}

// wanted are the functions whose extent the probe asks for.
var wanted = func() map[string]bool {
	w := map[string]bool{"pskb_expand_head": true, "kmalloc_reserve": true}
	for _, n := range attributed {
		w[n] = true
	}
	return w
}()

// text gives the code of a function, whatever suffix the compiler gave it.
func (s *symbols) text(name string) (textRange, bool) {
	i, ok := s.byName[name]
	if !ok {
		return textRange{}, false
	}
	for j := i + 1; j < len(s.addresses); j++ {
		if s.addresses[j] > s.addresses[i] {
			return textRange{s.addresses[i], s.addresses[j]}, true
		}
	}
	return textRange{}, false
}

// name gives the function that holds an address, without the compiler's
// suffixes such as .isra.0.
func (s *symbols) name(addr uint64) string {
	i := sort.Search(len(s.addresses), func(i int) bool { return s.addresses[i] > addr })
	if i == 0 {
		return ""
	}
	base, _, _ := strings.Cut(s.names[i-1], ".")
	return base
}

// caller is name for a frame of a stack. It is empty for code that is neither of
// the kernel itself nor of a function that the probe asks for: what eBPF puts
// between two functions has no symbol that a reader could know in time.
func (s *symbols) caller(addr uint64) string {
	if addr >= s.core.lo && addr < s.core.hi {
		return s.name(addr)
	}
	for name := range s.byName {
		if r, ok := s.text(name); ok && addr >= r.lo && addr < r.hi {
			return name
		}
	}
	return ""
}

type byAddress struct{ *symbols }

func (s byAddress) Len() int           { return len(s.addresses) }
func (s byAddress) Less(i, j int) bool { return s.addresses[i] < s.addresses[j] }
func (s byAddress) Swap(i, j int) {
	s.addresses[i], s.addresses[j] = s.addresses[j], s.addresses[i]
	s.names[i], s.names[j] = s.names[j], s.names[i]
}
