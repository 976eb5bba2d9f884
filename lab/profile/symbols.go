package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// symbols are the kernel's functions by address.
type symbols struct {
	at    []uint64 // ascending
	names []string
}

func readSymbols() (*symbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	defer f.Close()
	s, err := parseSymbols(f)
	if err != nil {
		return nil, fmt.Errorf("/proc/kallsyms: %w", err)
	}
	return s, nil
}

// parseSymbols reads the functions of kallsyms: address, type, name, and for those of
// modules the module in brackets.
func parseSymbols(r io.Reader) (*symbols, error) {
	type symbol struct {
		at   uint64
		name string
	}
	var all []symbol
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || !strings.ContainsAny(fields[1], "tTwW") {
			continue
		}
		at, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			return nil, err
		}
		if at != 0 {
			all = append(all, symbol{at, fields[2]})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: it shows no addresses (kernel.kptr_restrict)", ErrUnsupported)
	}
	slices.SortStableFunc(all, func(a, b symbol) int { return cmp.Compare(a.at, b.at) })
	s := &symbols{}
	for _, x := range all {
		s.at = append(s.at, x.at)
		s.names = append(s.names, x.name)
	}
	return s, nil
}

// name of the function that an address is in. A return address may be the
// first byte after its function, behind a call that does not return.
func (s *symbols) name(address uint64, isReturn bool) string {
	if isReturn {
		address--
	}
	i, _ := slices.BinarySearch(s.at, address+1)
	if i--; i < 0 {
		return fmt.Sprintf("%#x", address)
	}
	// Of several names of one address the shortest is the one that people use:
	// memset is __memset, too.
	at, name := s.at[i], s.names[i]
	for ; i >= 0 && s.at[i] == at; i-- {
		if len(s.names[i]) <= len(name) {
			name = s.names[i]
		}
	}
	return name
}
