package profile

import (
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"
)

// Sizes of the flame graph in pixels.
const (
	graphWidth = 1200
	rowHeight  = 17
	titleRows  = 2
	charWidth  = 6.6 // of a 11 px monospaced font
	minWidth   = 0.3 // narrower frames are not drawn
)

// frame is a function in its place in the call tree.
type frame struct {
	name     string
	samples  int
	children map[string]*frame
}

// tree makes one call tree of all stacks, and tells how deep it is.
func (s Stacks) tree() (root *frame, depth int) {
	root = &frame{name: "all", children: make(map[string]*frame)}
	for stack, n := range s {
		f := root
		f.samples += n
		names := split(stack)
		depth = max(depth, len(names))
		for _, name := range names {
			next := f.children[name]
			if next == nil {
				next = &frame{name: name, children: make(map[string]*frame)}
				f.children[name] = next
			}
			next.samples += n
			f = next
		}
	}
	return root, depth
}

// WriteSVG draws a flame graph: the outermost function at the bottom, who is
// called above, each as wide as its share of the samples. marked functions have a
// colour of their own. The picture needs nothing beside it: the full name and
// the share of a frame are shown where the pointer rests on it.
func (s Stacks) WriteSVG(w io.Writer, title string, marked []string) error {
	root, depth := s.tree()
	rows := titleRows + depth + 1
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="monospace" font-size="11">`+"\n",
		graphWidth, rows*rowHeight, graphWidth, rows*rowHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="6" y="14" font-size="13">%s</text>`+"\n", html.EscapeString(title))
	var draw func(f *frame, x float64, level int)
	draw = func(f *frame, x float64, level int) {
		width := graphWidth * float64(f.samples) / float64(max(root.samples, 1))
		if width < minWidth {
			return
		}
		y := (rows - 1 - level) * rowHeight
		share := fmt.Sprintf("%s: %d samples, %.1f %%", f.name, f.samples, 100*float64(f.samples)/float64(root.samples))
		fmt.Fprintf(&b, `<g><title>%s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" stroke="#ffffff" stroke-width="0.5"/>`,
			html.EscapeString(share), x, y, width, rowHeight-1, colour(f.name, marked))
		if room := int((width - 6) / charWidth); room >= 3 {
			text := f.name
			if len(text) > room {
				text = text[:room-1] + "…"
			}
			fmt.Fprintf(&b, `<text x="%.2f" y="%d">%s</text>`, x+3, y+12, html.EscapeString(text))
		}
		b.WriteString("</g>\n")
		for _, name := range slices.Sorted(maps.Keys(f.children)) {
			draw(f.children[name], x, level+1)
			x += graphWidth * float64(f.children[name].samples) / float64(max(root.samples, 1))
		}
	}
	if root.samples > 0 {
		draw(root, 0, 0)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// colour of a frame: red where it is marked, else one of a few shades of blue
// by name, so that neighbours can be told apart.
func colour(name string, marked []string) string {
	if slices.ContainsFunc(marked, func(m string) bool { return is(name, m) }) {
		return "#e06b52"
	}
	sum := 0
	for _, c := range []byte(name) {
		sum = sum*31 + int(c)
	}
	shades := []string{"#c9dcec", "#b4cfe6", "#d7e4ef", "#a9c7e0", "#c0d6ea"}
	return shades[uint(sum)%uint(len(shades))]
}
