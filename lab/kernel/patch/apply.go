package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// File is a file as a patch finds or leaves it.
type File struct {
	// Text is the content.
	Text []byte
	// Executable is the one part of the mode that patches change.
	Executable bool
}

// Files are what patches are applied to: the source as Source reads it, and laid
// over it what patches have changed.
type Files struct {
	// Source reads a file by its path from the top of the source, with slashes.
	// For one that is not there the error is fs.ErrNotExist.
	Source func(path string) (*File, error)
	// Changed are the files after the patches so far, nil for one that is no more.
	Changed map[string]*File
}

// Note says that a hunk was applied, but not where and as the patch says.
type Note struct {
	// Patch and Path are where the hunk is.
	Patch *Patch
	Path  string
	// Hunk counts from 1. Line is where its first line was found, from 1.
	Hunk, Line int
	// Offset is how many lines below the expected place that is, Fuzz how many
	// lines of context at either end differ.
	Offset, Fuzz int
}

// String is the note in one line, in the words of patch(1).
func (n Note) String() string {
	s := fmt.Sprintf("%s: %s: hunk %d applied at line %d", n.Patch, n.Path, n.Hunk, n.Line)
	if n.Offset != 0 {
		s += fmt.Sprintf(", offset %d", n.Offset)
	}
	if n.Fuzz != 0 {
		s += fmt.Sprintf(", fuzz %d", n.Fuzz)
	}
	return s
}

// maxFuzz is how many lines of context at either end may differ, as in patch(1).
const maxFuzz = 2

// Apply applies p as a whole, or nothing of it. Errors name the patch and the
// file; that of a hunk which does not fit is *Misfit.
func (fs *Files) Apply(p *Patch) ([]Note, error) {
	after := map[string]*File{}
	var notes []Note
	for _, f := range p.Files {
		n, err := fs.applyFile(p, f, after)
		if err != nil {
			if m := (*Misfit)(nil); errors.As(err, &m) {
				return nil, err
			}
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		notes = append(notes, n...)
	}
	if fs.Changed == nil {
		fs.Changed = map[string]*File{}
	}
	for name, f := range after {
		fs.Changed[name] = f
	}
	return notes, nil
}

// read returns a file as the patches so far have left it, nil if it is not there.
func (fs *Files) read(name string, after map[string]*File) (*File, error) {
	for _, changed := range []map[string]*File{after, fs.Changed} {
		if f, ok := changed[name]; ok {
			return f, nil
		}
	}
	f, err := fs.Source(name)
	if isAbsent(err) {
		return nil, nil
	}
	return f, err
}

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// locate finds the file that a name of the patch means: names from git lack the
// prefixes a/ and b/ here, those from diff -u have the directories that they were
// made in.
func (fs *Files) locate(name string, after map[string]*File) (string, *File, error) {
	if name == "" {
		return "", nil, errors.New("the patch does not name a file")
	}
	_, shorter, _ := strings.Cut(name, "/")
	for _, try := range []string{name, shorter} {
		if try = path.Clean(try); !filepath.IsLocal(try) || try == "." {
			continue
		}
		f, err := fs.read(try, after)
		if err != nil || f != nil {
			return try, f, err
		}
	}
	if clean := path.Clean(name); !filepath.IsLocal(clean) {
		return "", nil, fmt.Errorf("%s is outside of the source", name)
	}
	return path.Clean(name), nil, nil
}

func (fs *Files) applyFile(p *Patch, f *gitdiff.File, after map[string]*File) ([]Note, error) {
	if f.IsBinary {
		return nil, fmt.Errorf("%s is binary: only text can be patched", f.NewName)
	}
	from := f.OldName
	if f.IsNew {
		from = f.NewName
	}
	name, old, err := fs.locate(from, after)
	switch {
	case err != nil:
		return nil, err
	case f.IsNew && old != nil && len(old.Text) > 0:
		return nil, fmt.Errorf("the patch creates %s, which the source has already", name)
	case !f.IsNew && old == nil:
		return nil, fmt.Errorf("the source has no %s", name)
	case old == nil:
		if old = new(File); !hasGitPrefix(f) {
			name = withoutTop(name)
		}
	}
	text, notes, err := p.applyHunks(name, old.Text, f.TextFragments)
	if err != nil {
		return nil, err
	}
	if f.IsDelete {
		if len(text) > 0 {
			return nil, fmt.Errorf("the patch deletes %s, but the source has more in it", name)
		}
		after[name] = nil
		return notes, nil
	}
	result := &File{text, old.Executable}
	if f.NewMode != 0 {
		result.Executable = f.NewMode&0o100 != 0
	}
	to := name
	if f.IsRename || f.IsCopy {
		if to = path.Clean(f.NewName); !filepath.IsLocal(to) {
			return nil, fmt.Errorf("%s is outside of the source", f.NewName)
		}
		if f.IsRename {
			after[name] = nil
		}
	}
	after[to] = result
	return notes, nil
}

// hasGitPrefix tells whether a new file's name comes from a header of git, which
// gives the mode.
func hasGitPrefix(f *gitdiff.File) bool { return f.NewMode != 0 }

// withoutTop drops the directory that diff -u was run on.
func withoutTop(name string) string {
	if _, rest, ok := strings.Cut(name, "/"); ok {
		return rest
	}
	return name
}

// applyHunks applies the hunks of one file in their order.
func (p *Patch) applyHunks(name string, text []byte, hunks []*gitdiff.TextFragment) ([]byte, []Note, error) {
	source := strings.SplitAfter(string(text), "\n")
	if source[len(source)-1] == "" {
		source = source[:len(source)-1]
	}
	var result strings.Builder
	var notes []Note
	done := 0   // lines of source that are in result or were deleted
	offset := 0 // of the last hunk
	for i, h := range hunks {
		old := oldLines(h)
		expected := int(h.OldPosition) - 1
		if len(old) == 0 { // then the position is that of the line before
			expected++
		}
		at, fuzz, ok := find(source, old, expected+offset, done, h)
		if !ok {
			return nil, nil, newMisfit(p, name, i+1, len(hunks), h, source, expected+offset)
		}
		offset = at - expected
		if offset != 0 || fuzz != 0 {
			notes = append(notes, Note{p, name, i + 1, at + 1, offset, fuzz})
		}
		for ; done < at; done++ {
			result.WriteString(source[done])
		}
		// Context is taken from the source: with fuzz the patch has it otherwise.
		for _, l := range h.Lines {
			switch l.Op {
			case gitdiff.OpAdd:
				result.WriteString(l.Line)
			case gitdiff.OpContext:
				result.WriteString(source[done])
				done++
			case gitdiff.OpDelete:
				done++
			}
		}
	}
	for ; done < len(source); done++ {
		result.WriteString(source[done])
	}
	return []byte(result.String()), notes, nil
}

// oldLines are the lines that a hunk wants to find.
func oldLines(h *gitdiff.TextFragment) (lines []string) {
	for _, l := range h.Lines {
		if l.Old() {
			lines = append(lines, l.Line)
		}
	}
	return lines
}

// find returns where in source, not before line from, the lines of h are: at the
// expected place, else as near to it as can be, else with less of the context. A
// file that does not end with a newline is as it is.
func find(source, old []string, expected, from int, h *gitdiff.TextFragment) (at, fuzz int, ok bool) {
	if len(old) == 0 { // a new file, or an addition without context
		return expected, 0, expected >= from && expected <= len(source)
	}
	context := max(h.LeadingContext, h.TrailingContext)
	for fuzz := 0; fuzz <= min(maxFuzz, int(context)); fuzz++ {
		// The shorter context is that of a hunk at an end of the file: it loses
		// lines only when the longer one is down to its length.
		head := max(fuzz-int(context-h.LeadingContext), 0)
		tail := max(fuzz-int(context-h.TrailingContext), 0)
		wanted := old[head : len(old)-tail]
		if len(wanted) == 0 {
			break
		}
		fits := func(at int) bool {
			return at >= from && at+len(old) <= len(source) && slices.Equal(source[at+head:at+head+len(wanted)], wanted)
		}
		for distance := 0; distance <= len(source)+max(expected, 0); distance++ {
			if fits(expected + distance) {
				return expected + distance, fuzz, true
			}
			if fits(expected - distance) {
				return expected - distance, fuzz, true
			}
		}
	}
	return 0, 0, false
}
