package vm

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// libraryDirs are where the dynamic loader finds libraries unasked (ld.so(8))
// on Debian and on distributions without multiarch directories.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}

// Closure returns the loader and the libraries that an ELF program needs to
// start, by the paths under which it looks for them. A static program needs none.
func Closure(program string) ([]string, error) {
	seen := map[string]bool{}
	var files []string
	queue := []string{program}
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		interpreter, needed, err := dynamic(file)
		if err != nil {
			return nil, fmt.Errorf("libraries of %s: %w", program, err)
		}
		// By name: the C library asks for the loader that is there already.
		if name := filepath.Base(interpreter); interpreter != "" && !seen[name] {
			seen[name] = true
			files = append(files, interpreter)
		}
		for _, n := range needed {
			if seen[n] {
				continue
			}
			seen[n] = true
			lib := firstExisting(n)
			if lib == "" {
				return nil, fmt.Errorf("libraries of %s: no %s in %s", program, n, strings.Join(libraryDirs, ":"))
			}
			files = append(files, lib)
			queue = append(queue, lib)
		}
	}
	return files, nil
}

func dynamic(file string) (interpreter string, needed []string, err error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err != nil {
				return "", nil, err
			}
			interpreter = strings.TrimRight(string(b), "\x00")
		}
	}
	needed, err = f.ImportedLibraries()
	if f.Section(".dynamic") == nil {
		needed, err = nil, nil
	}
	return interpreter, needed, err
}

func firstExisting(library string) string {
	for _, dir := range libraryDirs {
		p := filepath.Join(dir, library)
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}
