package profile

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

var some = Stacks{
	"a;b;pskb_expand_head;memset_orig": 3,
	"a;b;pskb_expand_head.cold":        1,
	"a;b":                              4,
	"a;memset_orig":                    2,
}

func TestShares(t *testing.T) {
	for function, want := range map[string]int{"a": 10, "b": 8, "pskb_expand_head": 4, "memset_orig": 5, "memset": 5, "pskb": 0} {
		if got := some.Inclusive(function); got != want {
			t.Errorf("%s: %d samples, want %d", function, got, want)
		}
	}
	// Recursion is not counted twice.
	if got := (Stacks{"f;g;f": 2}).Inclusive("f"); got != 2 {
		t.Errorf("recursion: %d", got)
	}
	if got := some.Below("b"); got.Total() != 8 || got["b"] != 4 || got["b;pskb_expand_head;memset_orig"] != 3 {
		t.Errorf("below b: %v", got)
	}
	if got := some.Below("pskb_expand_head", "memset_orig"); got.Total() != 6 || got["memset_orig"] != 2 || got["pskb_expand_head;memset_orig"] != 3 {
		t.Errorf("below two: %v", got)
	}
}

func TestFolded(t *testing.T) {
	var b bytes.Buffer
	if err := some.WriteFolded(&b); err != nil {
		t.Fatal(err)
	}
	const want = "a;b 4\na;b;pskb_expand_head.cold 1\na;b;pskb_expand_head;memset_orig 3\na;memset_orig 2\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// TestPprof: the pprof package reads the same samples.
func TestPprof(t *testing.T) {
	var b bytes.Buffer
	if err := some.WritePprof(&b, 1000); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
	got := make(Stacks)
	for _, s := range p.Sample {
		var names []string
		for i := len(s.Location) - 1; i >= 0; i-- {
			names = append(names, s.Location[i].Line[0].Function.Name)
		}
		got[join(names)] += int(s.Value[0])
		if s.Value[1] != 1000*s.Value[0] {
			t.Errorf("%d samples are %d ns", s.Value[0], s.Value[1])
		}
	}
	for stack, n := range some {
		if got[stack] != n {
			t.Errorf("%s: %d, want %d", stack, got[stack], n)
		}
	}
}

// TestSVG: the picture is well-formed, and the frames of a row are as wide as
// those below them at the most.
func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := some.WriteSVG(&b, `<"all" & more>`, []string{"pskb_expand_head"}); err != nil {
		t.Fatal(err)
	}
	widths := map[string]float64{} // of rows by their y
	marked := 0
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local == "script" || e.Name.Local != "rect" {
			if ok && e.Name.Local == "script" {
				t.Error("a script in the picture")
			}
			continue
		}
		attr := map[string]string{}
		for _, a := range e.Attr {
			attr[a.Name.Local] = a.Value
		}
		if width, err := strconv.ParseFloat(attr["width"], 64); err == nil {
			widths[attr["y"]] += width
		}
		if attr["fill"] == "#e06b52" {
			marked++
		}
	}
	if marked != 2 { // the function and its cold part
		t.Errorf("%d frames are marked, want 2", marked)
	}
	// Rows from below: all, a, b and memset_orig, the two of the head, memset_orig.
	for row, want := range []float64{1200, 1200, 1200, 480, 360} {
		y := strconv.Itoa((titleRows + 4 - row) * rowHeight)
		if math.Abs(widths[y]-want) > 0.1 {
			t.Errorf("row %d is %.2f wide, want %.0f", row, widths[y], want)
		}
	}
}

func TestSymbols(t *testing.T) {
	s, err := parseSymbols(strings.NewReader("ffffffff81000000 T __memset\nffffffff81000000 T memset\nffffffff81000100 t second\nffffffff82000000 D data\nffffffffc0000000 t third\t[mod]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at       uint64
		isReturn bool
		want     string
	}{
		{0xffffffff81000000, false, "memset"}, {0xffffffff810000ff, false, "memset"}, {0xffffffff81000100, false, "second"},
		{0xffffffff81000100, true, "memset"}, {0xffffffffc0000010, true, "third"}, {0x1000, false, "0x1000"},
	} {
		if got := s.name(c.at, c.isReturn); got != c.want {
			t.Errorf("%#x: %s, want %s", c.at, got, c.want)
		}
	}
	if _, err := parseSymbols(strings.NewReader("0000000000000000 T _stext\n")); !errors.Is(err, ErrUnsupported) {
		t.Errorf("hidden addresses: %v", err)
	}
}

// record is one as perf_event_open(2) describes it.
func record(kind uint32, body ...uint64) []byte {
	b := binary.NativeEndian.AppendUint32(nil, kind)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(8+8*len(body)))
	for _, v := range body {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	return b
}

func TestRecords(t *testing.T) {
	s := &symbols{at: []uint64{0x1000, 0x2000, 0x3000}, names: []string{"f", "g", "h"}}
	const kernelMark = ^uint64(127) // PERF_CONTEXT_KERNEL, -128
	sample := record(unix.PERF_RECORD_SAMPLE, 4, kernelMark, 0x2010, 0x1020, 0x3000)
	got, err := count(append(append(record(unix.PERF_RECORD_THROTTLE, 1, 2, 3), sample...), sample...), s)
	if err != nil || len(got) != 1 || got["g;f;g"] != 2 { // the return address 0x3000 ends g
		t.Error(got, err)
	}
	for name, b := range map[string][]byte{
		"lost":              record(unix.PERF_RECORD_LOST, 1, 2),
		"cut off":           sample[:len(sample)-1],
		"half a header":     sample[:6],
		"size 0":            make([]byte, 8),
		"too many":          record(unix.PERF_RECORD_SAMPLE, 2, 0x1000),
		"number that wraps": record(unix.PERF_RECORD_SAMPLE, ^uint64(0)),
		"empty":             record(unix.PERF_RECORD_SAMPLE),
	} {
		if got, err := count(b, s); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCollect: what this process has the kernel do is seen.
func TestCollect(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		t.Fatal(err)
	}
	cpu, err := currentCPU()
	if err != nil {
		t.Fatal(err)
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &old)
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	buf := make([]byte, 1<<20)
	runs := 0
	stacks, err := Collect(100_000, 3, func() error {
		runs++
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			if _, err := zero.Read(buf); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if runs != 3 {
		t.Errorf("%d runs, want 3", runs)
	}
	if in := stacks.Inclusive("vfs_read"); in == 0 {
		t.Errorf("of %d samples none is in vfs_read: %v", stacks.Total(), stacks)
	}
}
