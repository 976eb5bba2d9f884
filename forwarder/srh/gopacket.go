package srh

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// LayerType is the gopacket type of a Layer. Importing this package makes
// gopacket decode routing headers of type 4, which its own decoder refuses, and
// Ethernet behind next header 143.
var LayerType = gopacket.RegisterLayerType(1043, gopacket.LayerTypeMetadata{
	Name: "SRH", Decoder: gopacket.DecodeFunc(decodeLayer),
})

func init() {
	layers.IPProtocolMetadata[Protocol] = layers.EnumMetadata{
		DecodeWith: gopacket.DecodeFunc(decodeLayer), Name: "SRH", LayerType: LayerType,
	}
	layers.IPProtocolMetadata[Ethernet] = layers.EnumMetadata{
		DecodeWith: layers.LayerTypeEthernet, Name: "Ethernet", LayerType: layers.LayerTypeEthernet,
	}
}

// Layer is an SRH as a gopacket layer.
type Layer struct {
	layers.BaseLayer
	Header
}

// LayerType implements gopacket.Layer.
func (*Layer) LayerType() gopacket.LayerType { return LayerType }

// CanDecode implements gopacket.DecodingLayer.
func (*Layer) CanDecode() gopacket.LayerClass { return LayerType }

// NextLayerType implements gopacket.DecodingLayer.
func (l *Layer) NextLayerType() gopacket.LayerType {
	return layers.IPProtocol(l.NextHeader).LayerType()
}

// DecodeFromBytes implements gopacket.DecodingLayer.
func (l *Layer) DecodeFromBytes(b []byte, df gopacket.DecodeFeedback) error {
	h, n, err := Decode(b)
	if err != nil {
		df.SetTruncated()
		return err
	}
	l.Header = *h
	l.BaseLayer = layers.BaseLayer{Contents: b[:n], Payload: b[n:]}
	return nil
}

// SerializeTo implements gopacket.SerializableLayer.
func (l *Layer) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	out, err := l.AppendBinary(nil)
	if err != nil {
		return err
	}
	room, err := b.PrependBytes(len(out))
	if err != nil {
		return err
	}
	copy(room, out)
	return nil
}

func decodeLayer(b []byte, p gopacket.PacketBuilder) error {
	if len(b) > 2 && b[2] != RoutingType {
		return layers.LayerTypeIPv6Routing.Decode(b, p)
	}
	l := new(Layer)
	if err := l.DecodeFromBytes(b, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return p.NextDecoder(l.NextLayerType())
}
