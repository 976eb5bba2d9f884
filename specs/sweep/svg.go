package sweep

import (
	"fmt"
	"html"
	"io"
	"strings"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
)

// Sizes of the heat map in pixels.
const (
	cellW, cellH = 2, 9
	groupGap     = 6 // between the mac_lens of a panel
	panelLeft    = 100
	panelTop     = 30
	panelRight   = 24
	panelBottom  = 46
	headTop      = 92 // title and legend
)

// A shade is a class of points and its colour.
type shade struct{ name, colour string }

// Shades of the heat map. Those of calls are told apart by lightness as well.
var (
	shadeCalls = []shade{
		{"0 calls", "#e8eef4"}, {"1 call", "#7fb2d9"}, {"2 calls", "#1f5f99"}, {"3 calls or more", "#0b2540"},
	}
	shadeOutside  = shade{"MAC header outside of the buffer", "#f2b705"}
	shadeOff      = shade{"off the model", "#d01f2e"}
	shadeUnseen   = shade{"not measured here", "#bdbdbd"}
	shadeNoHeader = shade{"headroom below mac_len", "#ffffff"}
)

func (x *Result) shade() shade {
	switch {
	case x.Verdict == Unsupported:
		return shadeUnseen
	case x.Verdict != Agrees:
		return shadeOff
	case x.Got.Outside():
		return shadeOutside
	}
	return shadeCalls[min(len(x.Got.Calls), len(shadeCalls)-1)]
}

// heatmap draws a report.
type heatmap struct {
	*Report
	strings.Builder
	shades map[Point]shade
}

// WriteSVG draws a heat map: a panel for each mode and clone state, in it the
// headroom to the right, and a row for each number of segments, grouped by
// mac_len.
func (r *Report) WriteSVG(out io.Writer) error {
	h := &heatmap{Report: r, shades: map[Point]shade{}}
	for i := range r.Results {
		x := &r.Results[i]
		h.shades[x.Point] = x.shade()
	}
	g := r.Grid
	panelW := panelLeft + (g.Headroom.Last-g.Headroom.First+1)*cellW + panelRight
	panelH := panelTop + len(g.MacLens)*(h.groupHeight()+groupGap) - groupGap + panelBottom
	width, height := max(panelW*len(g.Clones), 860), headTop+panelH*len(g.Modes)
	fmt.Fprintf(h, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#222">`+"\n", width, height, width, height)
	fmt.Fprintf(h, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	h.head()
	for row, mode := range g.Modes {
		for column, clone := range g.Clones {
			fmt.Fprintf(h, `<g transform="translate(%d %d)">`+"\n", column*panelW, headTop+row*panelH)
			h.panel(mode, clone)
			h.WriteString("</g>\n")
		}
	}
	h.WriteString("</svg>\n")
	_, err := io.WriteString(out, h.String())
	return err
}

func (h *heatmap) groupHeight() int {
	return (h.Grid.Segments.Last - h.Grid.Segments.First + 1) * cellH
}

func (h *heatmap) text(x, y int, attributes, s string) {
	fmt.Fprintf(h, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(s))
}

func (h *heatmap) rect(x, y, w, height int, colour string) {
	fmt.Fprintf(h, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", x, y, w, height, colour)
}

// head is the title and the legend.
func (h *heatmap) head() {
	h.text(16, 24, `font-size="16" font-weight="bold"`, "Calls of pskb_expand_head in seg6, per packet")
	h.text(16, 44, "", fmt.Sprintf("%s, kernel %s, fixes: %s; %d points off the model", h.Info.Place, h.Info.Kernel, fixes(h.Info.Profile), len(h.OffModel())))
	x := 16
	for _, s := range append(shadeCalls[:len(shadeCalls):len(shadeCalls)], shadeOutside, shadeOff, shadeUnseen, shadeNoHeader) {
		fmt.Fprintf(h, `<rect x="%d" y="60" width="12" height="12" fill="%s" stroke="#888" stroke-width="0.5"/>`+"\n", x, s.colour)
		h.text(x+17, 70, "", s.name)
		x += 17 + 7*len(s.name) + 16
	}
}

// panel draws one mode and clone state.
func (h *heatmap) panel(mode skb.Mode, clone headroom.Clone) {
	g := h.Grid
	width := (g.Headroom.Last - g.Headroom.First + 1) * cellW
	h.text(panelLeft, panelTop-10, `font-size="13" font-weight="bold"`, fmt.Sprintf("%s, clone: %s", mode, clone))
	y := panelTop
	for _, macLen := range g.MacLens {
		for segments := g.Segments.First; segments <= g.Segments.Last; segments++ {
			h.row(Point{Mode: mode, Segments: segments, MacLen: macLen, Clone: clone}, y+(segments-g.Segments.First)*cellH)
		}
		fmt.Fprintf(h, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#888" stroke-width="0.5"/>`+"\n", panelLeft, y, width, h.groupHeight())
		h.text(6, y+h.groupHeight()/2+4, "", fmt.Sprintf("mac_len %d", macLen))
		for _, segments := range ends(g.Segments) {
			h.text(panelLeft-5, y+(segments-g.Segments.First)*cellH+cellH-1, `font-size="9" text-anchor="end"`, fmt.Sprint(segments))
		}
		y += h.groupHeight() + groupGap
	}
	y -= groupGap
	for _, at := range ticks(g.Headroom) {
		x := panelLeft + (at-g.Headroom.First)*cellW + cellW/2
		fmt.Fprintf(h, `<path d="M%d %dv4" stroke="#222"/>`+"\n", x, y)
		h.text(x, y+15, `font-size="9" text-anchor="middle"`, fmt.Sprint(at))
	}
	h.text(panelLeft+width/2, y+30, `text-anchor="middle"`, "headroom at seg6, bytes")
	h.text(0, 0, fmt.Sprintf(`transform="translate(%d %d) rotate(-90)" text-anchor="middle" font-size="9"`, panelLeft-18, panelTop+(y-panelTop)/2), "segments")
}

// row draws one number of segments; neighbours of the same shade are one
// rectangle.
func (h *heatmap) row(p Point, y int) {
	g := h.Grid
	for at := g.Headroom.First; at <= g.Headroom.Last; {
		from := at
		p.Headroom = at
		s, ok := h.shades[p]
		for at++; at <= g.Headroom.Last; at++ {
			p.Headroom = at
			if next, there := h.shades[p]; next != s || there != ok {
				break
			}
		}
		if ok {
			h.rect(panelLeft+(from-g.Headroom.First)*cellW, y, (at-from)*cellW, cellH, s.colour)
		}
	}
}

func ends(r Range) []int {
	if r.First == r.Last {
		return []int{r.First}
	}
	return []int{r.First, r.Last}
}

// ticks are the multiples of 32 in a range.
func ticks(r Range) (at []int) {
	for n := (r.First + 31) / 32 * 32; n <= r.Last; n += 32 {
		at = append(at, n)
	}
	return at
}
