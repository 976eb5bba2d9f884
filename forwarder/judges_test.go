package forwarder_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// scapyJudge reads frames in hexadecimal and prints the segments left, last
// entry and segments of every SRH that Scapy finds in each.
const scapyJudge = `
import logging, sys
logging.getLogger("scapy").setLevel(logging.CRITICAL)
from scapy.layers.l2 import Ether
from scapy.layers.inet6 import IPv6ExtHdrSegmentRouting
for line in sys.stdin:
    layer, found = Ether(bytes.fromhex(line.strip())), []
    while layer:
        if isinstance(layer, IPv6ExtHdrSegmentRouting):
            found.append("%d %d %s" % (layer.segleft, layer.lastentry, ",".join(layer.addresses)))
        layer = layer.payload
    print("; ".join(found))
`

// judged is what the SRHs of each hot path say, by hand; Scapy does not look
// into the frame of an L2 encapsulation.
var judged = map[string]string{
	"IPv6": "", "IPv4": "", "End.PSP": "", "End.NEXT-CSID": "", "End.DX2": "", "End.DX4": "", "End.DX6": "", "End.DT6": "",
	"H.Encaps":        "0 0 fc00:b::1",
	"H.Encaps.IPv4":   "0 0 fc00:b::1",
	"H.Encaps.HMAC":   "0 0 fc00:b::1",
	"H.Encaps.L2":     "0 0 fc00:b::1",
	"H.Encaps.Red":    "1 0 fc00:c::1",
	"H.Encaps.L2.Red": "1 0 fc00:c::1",
	"H.Insert":        "1 1 2001:db8:99::1,fc00:b::1",
	"End":             "0 1 fc00:c::1,fc00:b::1",
	"End.X":           "0 1 fc00:c::1,fc00:b::1",
	"End.B6":          "1 1 fc00:b::1,fc00:d::1; 1 1 fc00:c::1,fc00:b::1",
	"End.B6.Encaps":   "0 0 fc00:d::1; 0 1 fc00:c::1,fc00:b::1",
}

// TestOtherJudges shows what comes out to Scapy and tshark.
func TestOtherJudges(t *testing.T) {
	var names []string
	var hexes bytes.Buffer
	name := filepath.Join(t.TempDir(), "out.pcap")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	capture := pcapgo.NewWriter(file)
	if err := capture.WriteFileHeader(65536, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, path := range hotPaths() {
		for _, s := range through(newRouter(t, path.config()), 0, bytesOf(t, path.in)) {
			names = append(names, path.name)
			fmt.Fprintf(&hexes, "%x\n", s.Frame)
			info := gopacket.CaptureInfo{CaptureLength: len(s.Frame), Length: len(s.Frame)}
			if err := capture.WritePacket(info, s.Frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if len(names) != len(judged) {
		t.Errorf("%d frames to judge, want %d", len(names), len(judged))
	}

	scapy := exec.Command("/usr/bin/python3", "-c", scapyJudge)
	scapy.Stdin = &hexes
	for i, line := range output(t, scapy, "python3-scapy") {
		if want, ok := judged[names[i]]; !ok || line != want {
			t.Errorf("%s: Scapy reads %q, want %q", names[i], line, want)
		}
	}
	// The datagrams of these tests have no checksum.
	tshark := exec.Command("tshark", "-r", name, "-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-Y", "_ws.malformed || _ws.expert.severity == error", "-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message")
	for _, line := range output(t, tshark, "tshark") {
		t.Errorf("tshark finds something wrong: %s", line)
	}
}

// output are the lines that a judge prints.
func output(t *testing.T, c *exec.Cmd, pkg string) []string {
	t.Helper()
	var complaints bytes.Buffer
	c.Stderr = &complaints
	b, err := c.Output()
	if err != nil {
		t.Fatalf("%s (apt-get install %s): %v\n%s", c.Path, pkg, err, &complaints)
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}
