package traffic

import (
	"bytes"
	"strings"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, expr := range scapyTable {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		p, err := Parse(expr)
		if err != nil {
			e, ok := err.(*SyntaxError)
			if !ok || e.Column < 1 || e.Column > len(expr)+1 || e.Msg == "" {
				t.Fatalf("error %#v", err)
			}
			return
		}
		frame := mustBytes(t, p)
		if len(frame) > 4096 {
			return
		}
		printed, err := Parse(p.String())
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if got := mustBytes(t, printed); !bytes.Equal(got, frame) {
			t.Fatalf("%s built\n%x, want\n%x", p, got, frame)
		}
		p.Diff(frame, true).check(t)
	})
}

func FuzzDissect(f *testing.F) {
	for _, expr := range scapyTable {
		if p, err := Parse(expr); err == nil {
			f.Add(mustBytes(f, p))
		}
	}
	want, err := Parse(`Ether()/IPv6(hlim=63)/SRH(addresses=["::1"])/UDP()/Raw(16)`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > 4096 {
			return
		}
		roundTrip(t, Dissect(frame), frame)
		want.Diff(frame, false).check(t)
		want.Diff(frame, true).check(t)
		Checksums(frame)
	})
}

// check prints a difference, which must not be empty.
func (d *Diff) check(t *testing.T) {
	if d != nil && (d.Fields == 0 || !strings.Contains(d.String(), "!")) {
		t.Fatalf("empty difference %+v", d)
	}
}
