package fuzz

import (
	"context"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seg6lab/specs"
)

var (
	seed   = flag.Uint64("seed", 1, "seed of the first configuration")
	frames = flag.Int("frames", 50000, "how many frames go through the kernel and the forwarder")
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func differences(t *testing.T, o Options) (*Report, []*Difference) {
	t.Helper()
	var all []*Difference
	r, err := Run(context.Background(), o, func(d *Difference) error { all = append(all, d); return nil }, func(Report) {})
	if err != nil {
		t.Fatal(err)
	}
	return r, all
}

// TestKernelAgrees is the judge of the forwarder at large.
func TestKernelAgrees(t *testing.T) {
	needRoot(t)
	r, all := differences(t, Options{Count: *frames, Seed: *seed})
	for _, d := range all {
		t.Error(d)
	}
	// Silence on both sides would agree, too.
	if r.Sent < r.Frames/3 || r.Answers < r.Frames/20 {
		t.Errorf("of %d frames the kernel sent %d, %d of them back", r.Frames, r.Sent, r.Answers)
	}
}

// A forwarder that keeps to the RFCs is off Linux: that is found, made small,
// and replayed by the seed; the case of it is valid and fails on the kernel.
func TestDifferenceIsFound(t *testing.T) {
	needRoot(t)
	_, all := differences(t, Options{Count: 100, Seed: 1, RFC: true})
	if len(all) == 0 {
		t.Fatal("no difference was found")
	}
	d := all[0]
	frame, err := hex.DecodeString(d.Packet)
	if err != nil {
		t.Fatal(err)
	}
	// End by itself needs a header of 40 bytes, and the route of the marker is
	// kept.
	if len(frame) > 60 || d.Routes > 2 {
		t.Errorf("a packet of %d bytes and %d routes are not small:\n%s\n%s", len(frame), d.Routes, d, d.Topology)
	}
	_, again := differences(t, Options{Count: d.Frames, Seed: d.Seed, RFC: true})
	if len(again) != 1 || again[0].String() != d.String() || again[0].Case != d.Case {
		t.Errorf("--seed %d --count %d gave %v, not %s", d.Seed, d.Frames, again, d)
	}
	if _, none := differences(t, Options{Count: d.Frames, Seed: d.Seed}); len(none) != 0 {
		t.Errorf("with the quirks of Linux: %v", none)
	}
	name, err := WriteCase(t.TempDir(), d)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := specs.Find([]string{name})
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, d.Case, d.Topology)
	}
	r := specs.Run(context.Background(), cases[0], specs.Options{Frames: filepath.Dir(name)})
	if r.Verdict != specs.Failed || !strings.Contains(r.Failure, "src:eth0") {
		t.Errorf("the kernel: %s, %s", r.Verdict, r.Failure)
	}
}

// The expectation of a case names what the forwarder sends: where the kernel
// sends the same, it holds on both.
func TestCaseOfForwarder(t *testing.T) {
	needRoot(t)
	for name, frame := range map[string][]byte{
		"IPv6": append(ethernet(0, "", "86dd"), unhex("60000000 0010 11 01", hostAddr, farAddr, udp)...),
		"IPv4": append(ethernet(0, "", "0800"), unhex("4500 0024 1234 4000 01 11 5231 0a000101 0a630001", udp)...),
	} {
		t.Run(name, func(t *testing.T) { holdsOnBoth(t, outcome{port: 0, frame: frame}) })
	}
}

// holdsOnBoth takes a frame that both answer with time exceeded.
func holdsOnBoth(t *testing.T, o outcome) {
	top := newDraw(1).topology(needs{})
	p, err := open(context.Background(), top, false)
	if err != nil {
		t.Fatal(err)
	}
	err = p.compare(&o)
	if derr := p.kernel.down(); err != nil || derr != nil {
		t.Fatal(err, derr)
	}
	if !o.equal() || len(o.forwarder) != 1 || o.forwarder[0].Port != 0 {
		t.Fatalf("%+v: expected the time exceeded of both", o)
	}
	diff := difference(top, o, 1, 1)
	if diff.Case, diff.Topology, err = caseFiles(top, o, diff); err != nil {
		t.Fatal(err)
	}
	name, err := WriteCase(t.TempDir(), diff)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := specs.Find([]string{name})
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, diff.Case, diff.Topology)
	}
	for _, plane := range []string{specs.DataplaneAsWritten, specs.DataplaneForwarder} {
		r := specs.Run(context.Background(), cases[0], specs.Options{Frames: filepath.Dir(name), Dataplane: plane})
		if r.Verdict != specs.Held {
			t.Errorf("%s: %s, %s\n%s", plane, r.Verdict, r.Failure, diff.Case)
		}
	}
}
