package specs

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"seg6lab/lab/probe"
)

// Widths of a comparison's table, in characters: with three kernels a line has
// 75, what a mail may have.
const (
	labelWidth = 33
	firstWidth = 10
	otherWidth = 16 // a value and its ratio to the first column's
	ratioWidth = 6
	lineWidth  = labelWidth + firstWidth + 2*otherWidth
	// fewDiffs is how many differences of frames are shown without being asked
	// for.
	fewDiffs = 3
)

// line is one of a table: a label and a cell for each kernel.
type line struct {
	label string
	cells []string
	// values that the cells show, for the ratios; nil where there are none.
	values []float64
}

// WriteTable writes the comparison as text of at most 75 columns: the kernels,
// and for each case what came of it on them, a value per packet that seg6 worked
// on where not said otherwise. Every difference of frames is shown with diffs,
// else a few.
func (c *Comparison) WriteTable(w io.Writer, diffs bool) error {
	var b strings.Builder
	c.writeKernels(&b)
	for i := range c.Rows {
		b.WriteByte('\n')
		c.writeRow(&b, &c.Rows[i], diffs)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// letter names a kernel in the table.
func letter(k int) string { return string(rune('A' + k)) }

func (c *Comparison) writeKernels(b *strings.Builder) {
	for k, kernel := range c.Kernels {
		text := kernel.Spec
		if kernel.Release != "" && kernel.Release != kernel.Spec {
			text += ": Linux " + kernel.Release
		}
		if kernel.Built != "" {
			text += ", " + kernel.Built
		}
		b.WriteString(wrap(text, letter(k)+"  ", "   "))
	}
}

func (c *Comparison) writeRow(b *strings.Builder, row *ComparedRow, diffs bool) {
	title := row.Case
	if row.Args != "" {
		title += " [" + row.Args + "]"
	}
	b.WriteString(wrap(title, "", "  "))
	lines := row.lines()
	// As many kernels side by side as there is room for, always with the first.
	for from := 1; from == 1 || from < len(c.Kernels); from += 2 {
		to := min(from+2, len(c.Kernels))
		heads := make([]string, len(c.Kernels))
		for k := range heads {
			heads[k] = letter(k)
		}
		writeLine(b, line{cells: heads}, from, to)
		shown := lines
		if !slices.ContainsFunc(row.Results[min(from, to-1):to], (*Result).ran) {
			shown = lines[:1] // the verdicts
		}
		for _, l := range shown {
			writeLine(b, l, from, to)
		}
	}
	found := row.FrameDiffs()
	for i, d := range found {
		if i == fewDiffs && !diffs {
			fmt.Fprintf(b, "%d more ends with other frames: see --diff\n", len(found)-i)
			break
		}
		b.WriteString(wrap(fmt.Sprintf("%s, at %s, %s (expected) and %s (actual):", row.Results[d.Kernel].stepName(d.Step), d.End, letter(0), letter(d.Kernel)), "", "  "))
		b.WriteString(fold(d.String(), "  "))
	}
	for k, r := range row.Results {
		if r.Failure != "" {
			fmt.Fprintf(b, "%s, %s:\n%s", letter(k), r.Verdict, fold(r.Failure, "  "))
		}
	}
}

func writeLine(b *strings.Builder, l line, from, to int) {
	text := fmt.Sprintf("%-*s", labelWidth, l.label)
	if len(l.label) >= labelWidth && len(l.cells) > 0 {
		text = l.label + "\n" + strings.Repeat(" ", labelWidth)
	}
	for k := range l.cells {
		switch {
		case k == 0:
			text += fmt.Sprintf("%*s", firstWidth, l.cells[k])
		case from <= k && k < to:
			text += fmt.Sprintf("%*s%*s", otherWidth-ratioWidth, l.cells[k], ratioWidth, l.ratio(k))
		}
	}
	b.WriteString(strings.TrimRight(text, " ") + "\n")
}

// ratio of a kernel's value to the first's, where there is one.
func (l line) ratio(k int) string {
	if l.values == nil || l.values[0] <= 0 || l.values[k] < 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", l.values[k]/l.values[0])
}

// stepName is how the case counts the step, in each variant from 1.
func (r *Result) stepName(i int) string {
	variant := r.Steps[i].Variant
	first := slices.IndexFunc(r.Steps, func(s StepResult) bool { return s.Variant == variant })
	name := fmt.Sprintf("step %d", i-first+1)
	if variant != "" {
		name = variant + ", " + name
	}
	return name
}

// lines of a row's table.
func (row *ComparedRow) lines() []line {
	verdicts, fixes := line{label: "verdict"}, line{label: "fix"}
	fix := false
	for _, r := range row.Results {
		verdicts.cells = append(verdicts.cells, verdictWord(r.Verdict))
		fixes.cells = append(fixes.cells, string(r.Fix))
		fix = fix || r.Fix != ""
	}
	lines := []line{verdicts}
	if fix {
		lines = append(lines, fixes)
	}
	lines = append(lines, row.costLines()...)
	lines = append(lines, row.measuredLines()...)
	return append(lines, row.frameLines()...)
}

// verdictWord fits a cell.
func verdictWord(v Verdict) string {
	if v == Unsupported {
		return "not here"
	}
	return string(v)
}

// measuredLines are what the steps did to sk_buffs. Steps of which all is the
// same share their lines.
func (row *ComparedRow) measuredLines() []line {
	type group struct {
		heads []string
		lines []line
	}
	var groups []*group
	of := make(map[string]*group)
	for i := range row.steps() {
		for _, node := range row.nodes(i) {
			m := make([]*Measured, len(row.Results))
			head := ""
			for k, r := range row.Results {
				m[k] = r.measured(i, node)
				if m[k] != nil && head == "" {
					head = fmt.Sprintf("%s, %s at %s%s", r.stepName(i), count(m[k].Packets, "packet"), node, r.Steps[i].Shape)
				}
			}
			lines := nodeLines(m)
			key := fmt.Sprint(lines)
			if of[key] == nil {
				of[key] = &group{lines: lines}
				groups = append(groups, of[key])
			}
			of[key].heads = append(of[key].heads, head)
		}
	}
	var all []line
	for _, g := range groups {
		for _, head := range g.heads {
			for l := range strings.Lines(wrap(head, "", "  ")) {
				all = append(all, line{label: strings.TrimRight(l, "\n")})
			}
		}
		all = append(all, g.lines...)
	}
	return all
}

func (row *ComparedRow) steps() int {
	n := 0
	for _, r := range row.Results {
		n = max(n, len(r.Steps))
	}
	return n
}

// nodes are those whose packets were observed in a step.
func (row *ComparedRow) nodes(step int) []string {
	var names []string
	for _, r := range row.Results {
		if step < len(r.Steps) {
			for _, m := range r.Steps[step].Measured {
				if !slices.Contains(names, m.Node) {
					names = append(names, m.Node)
				}
			}
		}
	}
	return names
}

// measured is what was seen in a step at a node, nil where nothing was.
func (r *Result) measured(step int, node string) *Measured {
	if step >= len(r.Steps) {
		return nil
	}
	i := slices.IndexFunc(r.Steps[step].Measured, func(m Measured) bool { return m.Node == node })
	if i < 0 {
		return nil
	}
	return &r.Steps[step].Measured[i]
}

// nodeLines compare what kernels did to the packets of a node.
func nodeLines(m []*Measured) []line {
	var lines []line
	if !sameCount(m) {
		l := perPacket("  packets that seg6 worked on", m, func(m *Measured) int { return m.Packets * m.Packets })
		l.values = nil
		lines = append(lines, l)
	}
	var by []probe.Attribution
	for _, a := range []probe.Attribution{probe.DirectL2, probe.CowHeader, probe.CowLinkLayer, probe.OtherSeg6, probe.Outside} {
		if slices.ContainsFunc(m, func(m *Measured) bool { return m != nil && m.Reallocations[a].Calls > 0 }) {
			by = append(by, a)
		}
	}
	lines = append(lines, perPacket("  reallocations", m, func(m *Measured) int { return m.Within(probe.Anywhere).Calls }))
	for _, a := range by {
		l := perPacket("    "+string(a), m, func(m *Measured) int { return m.Reallocations[a].Calls })
		l.values = nil
		lines = append(lines, l)
	}
	if len(by) > 0 {
		lines = append(lines,
			perPacket("  bytes copied", m, func(m *Measured) int { return m.Within(probe.Anywhere).Copied }),
			perPacket("  bytes zeroed", m, func(m *Measured) int { return m.Within(probe.Anywhere).Zeroed }))
	}
	if slices.ContainsFunc(m, func(m *Measured) bool { return m != nil && m.Pulls > 0 }) {
		lines = append(lines, perPacket("  pulls into the head", m, func(m *Measured) int { return m.Pulls }))
	}
	return lines
}

// sameCount tells whether seg6 worked on as many packets wherever it did.
func sameCount(m []*Measured) bool {
	seen := slices.DeleteFunc(slices.Clone(m), func(m *Measured) bool { return m == nil })
	return !slices.ContainsFunc(seen, func(m *Measured) bool { return m.Packets != seen[0].Packets })
}

// perPacket is a line of a quantity for each packet.
func perPacket(label string, m []*Measured, of func(*Measured) int) line {
	l := line{label: label}
	for _, m := range m {
		cell, value := "-", -1.0
		if m != nil {
			if n := of(m); n == probe.Unknown {
				cell = "unseen"
			} else {
				value = float64(n) / float64(m.Packets)
				cell = strings.TrimSuffix(strconv.FormatFloat(value, 'f', 2, 64), ".00")
			}
		}
		l.cells, l.values = append(l.cells, cell), append(l.values, value)
	}
	return l
}

// frameLines tell where other frames arrived than on the first kernel.
func (row *ComparedRow) frameLines() []line {
	var lines []line
	at := make(map[string]int)
	for _, d := range row.FrameDiffs() {
		label := fmt.Sprintf("frames at %s, step %d", d.End, d.Step+1)
		i, ok := at[label]
		if !ok {
			i = len(lines)
			at[label] = i
			l := line{label: label, cells: make([]string, len(row.Results))}
			for k, r := range row.Results {
				if l.cells[k] = "same"; !r.ran() {
					l.cells[k] = "-"
				}
			}
			l.cells[0] = ""
			lines = append(lines, l)
		}
		lines[i].cells[d.Kernel] = "differ"
	}
	return lines
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// wrap breaks a paragraph between words into lines of at most lineWidth, the
// first with one prefix and the others with another.
func wrap(text, first, rest string) string {
	var b strings.Builder
	line, prefix := first, first
	for _, word := range strings.Fields(text) {
		if line != prefix && len(line)+1+len(word) > lineWidth {
			b.WriteString(line + "\n")
			line, prefix = rest, rest
		}
		if line != prefix {
			line += " "
		}
		line += word
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return hardWrap(b.String(), rest)
}

// fold indents lines, and breaks those that are longer than lineWidth.
func fold(text, indent string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\n")
		lead := l[:len(l)-len(strings.TrimLeft(l, " !"))]
		if len(indent)+len(l) <= lineWidth {
			b.WriteString(strings.TrimRight(indent+l, " ") + "\n")
			continue
		}
		b.WriteString(wrap(l[len(lead):], indent+lead, indent+strings.Repeat(" ", len(lead)+2)))
	}
	return b.String()
}

// hardWrap breaks what has no spaces to break it at, such as packet expressions.
func hardWrap(text, indent string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\n")
		for len(l) > lineWidth {
			at := lineWidth
			if i := strings.LastIndexAny(l[:lineWidth], "/,"); i > lineWidth/2 {
				at = i + 1
			}
			b.WriteString(l[:at] + "\n")
			l = indent + l[at:]
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}
