package specs

import (
	"fmt"
	"io"
	"strings"
)

// WriteMail writes the comparison as plain text of at most 75 columns, ready for
// a mailing list: what was run, on what, the table, and how to repeat it.
func (c *Comparison) WriteMail(w io.Writer) error {
	var b strings.Builder
	b.WriteString("What was run\n\n")
	about := ""
	for _, row := range c.Rows {
		// The rows of a matrix have it in common.
		if row.About != about {
			about = row.About
			name, _, _ := strings.Cut(row.Case, "/")
			b.WriteString(wrap(name+": "+row.About, "  ", "    "))
			if row.Reported != nil {
				b.WriteString(wrap(row.Reported.String(), "    ", "    "))
			}
		}
	}
	b.WriteString("\nOn what\n\n")
	c.writeKernels(&b)
	b.WriteString(wrap(c.Machine.String(), "", "  "))
	b.WriteString("\nWhat came of it, for each packet that seg6 worked on\n")
	for i := range c.Rows {
		b.WriteByte('\n')
		c.writeRow(&b, &c.Rows[i], false)
	}
	b.WriteString("\nHow to repeat\n\n")
	b.WriteString(c.command())
	_, err := io.WriteString(w, b.String())
	return err
}

// String names the report that a case comes from.
func (r *Reported) String() string {
	var parts []string
	if r.Subject != "" {
		parts = append(parts, `"`+r.Subject+`"`)
	}
	for _, p := range []string{r.List, r.Date, r.URL} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	text := "Reported: " + strings.Join(parts, ", ")
	if r.Fixed != "" {
		text += "; fixed in " + r.Fixed
	}
	return text
}

// String says what executed the guests.
func (m Machine) String() string {
	text := fmt.Sprintf("Machine: %s, %s, Linux %s", m.CPU, count(m.CPUs, "CPU"), m.Kernel)
	if m.QEMU != "" {
		text += fmt.Sprintf("; guests: %s, %s", m.QEMU, m.Accel)
	}
	return text
}

// command is the command line that makes the report again, a flag a line.
func (c *Comparison) command() string {
	lines := []string{"seg6lab report " + strings.Join(quoteAll(c.Cases), " ")}
	for _, k := range c.Kernels {
		lines = append(lines, "--kernel "+broken(quote(k.Spec)))
	}
	seen := make(map[string]bool)
	for _, row := range c.Rows {
		if row.Args != "" && !seen[row.Args] {
			seen[row.Args] = true
			lines = append(lines, "--kernel-arg "+quote(row.Args))
		}
	}
	return "  " + strings.Join(lines, " \\\n      ") + "\n"
}

// broken is a word of the shell that is too long for a line, in several.
func broken(word string) string {
	const room = lineWidth - len("      --kernel  \\ ")
	if len(word) <= room || word[0] == '\'' { // where a backslash is one
		return word
	}
	return word[:room] + "\\\n" + broken(word[room:])
}

// quote writes a word for the shell.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:=,%@", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func quoteAll(words []string) []string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return quoted
}
