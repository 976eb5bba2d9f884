package patch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Misfit is the error for a hunk that does not fit the source.
type Misfit struct {
	// Patch, and the Path of the file in the source.
	Patch *Patch
	Path  string
	// Hunk counts from 1 and is one of Hunks.
	Hunk, Hunks int
	// Header is the hunk's line with @@.
	Header string
	// Line is the line of the source, from 1, that is most like the hunk's first.
	Line int
	// Why says what else is known, if anything.
	Why string
	// Rows are patch and source beside each other.
	Rows []Row
}

// Row is a line of a hunk beside a line of the source.
type Row struct {
	// Line is the line of the source, from 1, 0 if the source has none here.
	Line int
	// Patch and Source are the texts without newline.
	Patch, Source string
	// InPatch and InSource tell which of them has the line.
	InPatch, InSource bool
}

// Error is several lines: where it is, then what the patch wants beside what
// there is, in the manner of a failed expectation.
func (m *Misfit) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s does not apply: %s:%d: hunk %d of %d, %s", m.Patch, m.Path, m.Line, m.Hunk, m.Hunks, m.Header)
	if m.Why != "" {
		fmt.Fprintf(&b, ": %s", m.Why)
	}
	for _, r := range m.Rows {
		switch {
		case r.InPatch && r.InSource:
			fmt.Fprintf(&b, "\n  %6d          %s", r.Line, r.Source)
		case r.InPatch:
			fmt.Fprintf(&b, "\n!         patch   %s", r.Patch)
		default:
			fmt.Fprintf(&b, "\n! %6d  source  %s", r.Line, r.Source)
		}
	}
	return b.String()
}

// newMisfit finds the place that is most like the hunk and lays both side by side.
func newMisfit(p *Patch, path string, n, of int, h *gitdiff.TextFragment, source []string, expected int) *Misfit {
	old := oldLines(h)
	m := &Misfit{Patch: p, Path: path, Hunk: n, Hunks: of, Header: strings.TrimSpace(h.Header())}
	var added []string
	for _, l := range h.Lines {
		if l.New() {
			added = append(added, l.Line)
		}
	}
	squeeze := func(lines []string) []string {
		squeezed := make([]string, len(lines))
		for i, l := range lines {
			squeezed[i] = strings.Join(strings.Fields(l), " ")
		}
		return squeezed
	}
	switch {
	case contains(source, added):
		m.Why = "it seems to be applied already"
	case contains(squeeze(source), squeeze(old)):
		m.Why = "but for white space it would fit, which a mail program has changed"
	}
	at := nearest(source, old, expected)
	end := min(at+len(old)+3, len(source))
	m.Line = at + 1
	m.Rows = beside(old, source[min(at, len(source)):end], at+1)
	return m
}

// contains tells whether lines are in source, one after the other.
func contains(source, lines []string) bool {
	for at := 0; len(lines) > 0 && at+len(lines) <= len(source); at++ {
		if slices.Equal(source[at:at+len(lines)], lines) {
			return true
		}
	}
	return false
}

// nearest is where most lines of old are in their place; the nearest to the
// expected place of several, and the expected one if no line is anywhere.
func nearest(source, old []string, expected int) int {
	best, most := max(min(expected, len(source)), 0), 0
	for at := range source {
		same := 0
		for i, l := range old {
			if at+i < len(source) && source[at+i] == l && strings.TrimSpace(l) != "" {
				same++
			}
		}
		if same > most || same == most && same > 0 && abs(at-expected) < abs(best-expected) {
			best, most = at, same
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// beside lays lines of a patch and of the source, the first of which has the
// number line, beside each other along their longest common subsequence. What the
// source has after the end of the patch's lines is left out.
func beside(old, source []string, line int) (rows []Row) {
	common := make([][]int, len(old)+1) // lengths for what is left of both
	for i := range common {
		common[i] = make([]int, len(source)+1)
	}
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(source) - 1; j >= 0; j-- {
			if old[i] == source[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	text := func(l string) string { return strings.TrimSuffix(l, "\n") }
	for i < len(old) {
		switch {
		case j < len(source) && old[i] == source[j]:
			rows = append(rows, Row{line + j, text(old[i]), text(source[j]), true, true})
			i, j = i+1, j+1
		case j == len(source) || common[i+1][j] >= common[i][j+1]:
			rows = append(rows, Row{0, text(old[i]), "", true, false})
			i++
		default:
			rows = append(rows, Row{line + j, "", text(source[j]), false, true})
			j++
		}
	}
	// As many lines of the source as the last lines of the patch stand for.
	last := 0
	for n := len(rows) - 1; n >= 0 && !rows[n].InSource; n-- {
		last++
	}
	for ; last > 0 && j < len(source); last-- {
		rows = append(rows, Row{line + j, "", text(source[j]), false, true})
		j++
	}
	return rows
}
