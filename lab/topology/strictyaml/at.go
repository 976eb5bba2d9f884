package strictyaml

import (
	"strconv"
	"strings"
)

// At remembers where a struct and its values stand in a file. A struct embeds
// it to be told; the zero At is that of a struct that no file gave.
type At struct {
	pos    Pos
	values map[string]span
}

type span struct{ key, value Pos }

// Pos is the place of the struct.
func (a *At) Pos() Pos { return a.pos }

// ValueAt is the place of a value by its path from the struct, such as
// "via", "segs[1]" or "addresses.eth0[0]". The path ends at the next struct
// that embeds an At of its own. Without such a value it is the place of the
// nearest value around it, at last that of the struct.
func (a *At) ValueAt(path string) Pos { return a.find(path, func(s span) Pos { return s.value }) }

// KeyAt is the place of the key of a value; for the item of a list, that of
// the item.
func (a *At) KeyAt(path string) Pos { return a.find(path, func(s span) Pos { return s.key }) }

func (a *At) find(path string, which func(span) Pos) Pos {
	for path != "" {
		if s, ok := a.values[path]; ok {
			return which(s)
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return a.pos
}

// Has says whether the file gave a value for path.
func (a *At) Has(path string) bool { _, ok := a.values[path]; return ok }

// at gives the decoder and Merge the At that a struct embeds.
func (a *At) at() *At { return a }

func (a *At) set(path string, s span) {
	if a.values == nil {
		a.values = make(map[string]span)
	}
	a.values[path] = s
}

// locatable is a struct that embeds At.
type locatable interface{ at() *At }

// Item is the path of item i of the list at path.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Key is the path of a key of the mapping at path.
func Key(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
