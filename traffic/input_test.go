package traffic

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pcap file of two frames, written by hand from the format's description:
// little endian, version 2.4, link type 1.
const pcapFile = "d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000" +
	"00000000 00000000 0e000000 0e000000 020000000002 020000000001 88b5" +
	"01000000 00000000 10000000 10000000 020000000003 020000000001 88b5 0102"

func TestFrames(t *testing.T) {
	dir := t.TempDir()
	for name, b := range map[string][]byte{
		"two.pcap":  unhex(t, pcapFile),
		"cut.pcap":  unhex(t, pcapFile)[:70],
		"ppp.pcap":  append(unhex(t, pcapFile)[:20], 9, 0, 0, 0),
		"none.pcap": unhex(t, pcapFile)[:24],
		"bad.ng":    unhex(t, "0a0d0d0a ffffffff 4d3c2b1a 00"),
		"empty":     nil,
		"two.hex":   []byte("# a comment\n\n020000000002 020000000001 88b5\n020000000003 020000000001 88b5 0102\n"),
		"bad.hex":   []byte("020000000002 020000000001 88b5\n02000000000g"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := unhex(t, "02000000000202000000000188b5"), unhex(t, "02000000000302000000000188b50102")
	tests := []struct {
		in   string
		want [][]byte
		err  string
	}{
		{"hex:020000000002 020000000001 88b5", [][]byte{first}, ""},
		{"hex:0200", nil, "frame 1 of 2 bytes: expected 14 to"},
		{"hex:0g", nil, "hexadecimal frame"},
		{"hex:" + strings.Repeat("00", MaxFrame+1), nil, "at most"},
		{"hex:@two.hex", [][]byte{first, second}, ""},
		{"hex:@bad.hex", nil, "bad.hex:2: hexadecimal frame"},
		{"hex:@empty", nil, "no frame in it"},
		{"pcap:two.pcap", [][]byte{first, second}, ""},
		{"pcap:" + filepath.Join(dir, "two.pcap#2"), [][]byte{second}, ""},
		{"pcap:two.pcap#3", nil, "no frame 3: it has 2"},
		{"pcap:two.pcap#0", nil, "expected the number of a frame"},
		{"pcap:two.pcap#x", nil, "expected the number of a frame"},
		{"pcap:none.pcap", nil, "no frame in it"},
		{"pcap:cut.pcap", nil, "frame 2"},
		{"pcap:ppp.pcap", nil, "expected Ethernet"},
		{"pcap:bad.ng", nil, "bad.ng"},
		{"pcap:empty", nil, "not a pcap or pcapng file"},
		{"pcap:missing", nil, "no such file"},
	}
	for _, tt := range tests {
		got, err := Frames(tt.in, dir)
		if !IsFrames(tt.in) {
			t.Errorf("%.40s does not count as frames", tt.in)
		}
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%.40s: error %v, want %q", tt.in, err, tt.err)
			}
			continue
		}
		if err != nil || len(got) != len(tt.want) {
			t.Errorf("%.40s: %d frames, %v", tt.in, len(got), err)
			continue
		}
		for i := range got {
			if !bytes.Equal(got[i], tt.want[i]) {
				t.Errorf("%.40s: frame %d is %x, want %x", tt.in, i+1, got[i], tt.want[i])
			}
		}
	}
	if IsFrames(ip6 + "UDP()") {
		t.Error("an expression counts as frames")
	}
}

// What is captured can be sent again.
func TestFramesOfOwnPcapng(t *testing.T) {
	c := NewCapture()
	c.ends = []*end{{name: "a:b"}, {name: "c:d", index: 1}}
	c.closed = 2
	frame := mustBytes(t, mustParse(t, ip6+"UDP()/Raw(3)"))
	c.add([]Frame{{Data: frame, end: 1}}, nil)
	var b bytes.Buffer
	if err := c.WritePcapng(&b); err != nil {
		t.Fatal(err)
	}
	got, err := readPcap(b.Bytes())
	if err != nil || len(got) != 1 || !bytes.Equal(got[0], frame) {
		t.Errorf("%x, %v, want %x", got, err, frame)
	}
}
