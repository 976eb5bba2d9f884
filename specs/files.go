package specs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"seg6lab/lab/topology/strictyaml"
)

// readFiles reads the files beside the case file that it names.
func (c *Case) readFiles(from source) error {
	for i, name := range c.File.Files {
		if name != filepath.Base(name) || !filepath.IsLocal(name) {
			return strictyaml.Errors{{Pos: c.File.ValueAt(fmt.Sprintf("files[%d]", i)), Msg: fmt.Sprintf("%s: expected the name of a file beside the case file", name)}}
		}
		path := filepath.Join(filepath.Dir(c.path), name)
		b, err := from.read(path)
		if err != nil {
			return strictyaml.Errors{{Pos: c.File.ValueAt(fmt.Sprintf("files[%d]", i)), Msg: err.Error()}}
		}
		if c.beside == nil {
			c.beside = make(map[string][]byte)
		}
		c.beside[name] = b
		if !from.shipped {
			c.files = append(c.files, path)
		}
	}
	return nil
}

// layOut writes the case's files to a new directory, for its commands to find
// them. Without files there is none, and dir is empty.
func (c *Case) layOut() (dir string, remove func() error, err error) {
	if len(c.beside) == 0 {
		return "", func() error { return nil }, nil
	}
	if dir, err = os.MkdirTemp("", "seg6lab-case-"); err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	for name, b := range c.beside {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			remove()
			return "", nil, err
		}
	}
	return dir, remove, nil
}

// inDir is the command line as executed in dir.
func inDir(dir, line string) string {
	if dir == "" {
		return line
	}
	return "cd '" + strings.ReplaceAll(dir, "'", `'\''`) + "' || exit\n" + line
}
