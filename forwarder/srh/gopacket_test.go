package srh

import (
	"bytes"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

func TestGopacketLayer(t *testing.T) {
	frame := unhex(t, "020000000002 020000000001 86dd"+
		"60000000 0026 2b 40 fc000000000000000000000000000100 fc000000000000000000000000000001"+
		"8f 02 04 00 00 00 0000 fc000000000000000000000000000001"+
		"020000000004 020000000003 9000")
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	var got []gopacket.LayerType
	for _, l := range p.Layers()[:4] {
		got = append(got, l.LayerType())
	}
	want := []gopacket.LayerType{layers.LayerTypeEthernet, layers.LayerTypeIPv6, LayerType, layers.LayerTypeEthernet}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("layers %v, want %v", got, want)
		}
	}
	l := p.Layer(LayerType).(*Layer)
	buf := gopacket.NewSerializeBuffer()
	if err := l.SerializeTo(buf, gopacket.SerializeOptions{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf.Bytes(), frame[54:78]) {
		t.Errorf("serialized %x, want %x", buf.Bytes(), frame[54:78])
	}

	frame[56] = 0 // routing type 0 stays with gopacket
	p = gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if p.Layer(layers.LayerTypeIPv6Routing) == nil || p.Layer(LayerType) != nil {
		t.Errorf("routing type 0 gave %v", p)
	}
}
