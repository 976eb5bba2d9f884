package srh

import (
	"bytes"
	"fmt"
)

// TLV types, RFC 8754 section 8.2.
const (
	TLVPad1 = 0
	TLVPadN = 4
	TLVHMAC = 5
)

// TLV is one of the type-length-value objects behind the segment list. Pad1
// has neither length nor value (RFC 8754 section 2.1.1.1).
type TLV struct {
	Type  uint8
	Value []byte
}

// Len is the encoded length in bytes.
func (t TLV) Len() int {
	if t.Type == TLVPad1 {
		return 1
	}
	return 2 + len(t.Value)
}

// AppendBinary appends the encoded TLV to b.
func (t TLV) AppendBinary(b []byte) ([]byte, error) {
	switch {
	case t.Type == TLVPad1 && len(t.Value) != 0:
		return b, fmt.Errorf("srh: Pad1 TLV with a value of %d bytes: it has none", len(t.Value))
	case t.Type == TLVPad1:
		return append(b, TLVPad1), nil
	case len(t.Value) > 255:
		return b, fmt.Errorf("srh: TLV of type %d with %d bytes: at most 255 can be encoded", t.Type, len(t.Value))
	}
	return append(append(b, t.Type, uint8(len(t.Value))), t.Value...), nil
}

// LinuxTLVs reports whether Linux accepts the TLVs of a View that passed
// Parse: seg6_validate_srh knows no Pad1 and reads the byte behind one as its length.
func (v View) LinuxTLVs() bool {
	tlvs := v.TLVs()
	for len(tlvs) > 0 {
		if len(tlvs) < 2 || 2+int(tlvs[1]) > len(tlvs) {
			return false
		}
		tlvs = tlvs[2+int(tlvs[1]):]
	}
	return true
}

// tlvSize is the length of the first TLV of b, which is not empty. A TLV cut
// short before its length byte is longer than b.
func tlvSize(b []byte) int {
	switch {
	case b[0] == TLVPad1:
		return 1
	case len(b) < 2:
		return 2
	}
	return 2 + int(b[1])
}

func decodeTLVs(b []byte) []TLV {
	var tlvs []TLV
	for len(b) > 0 {
		n := tlvSize(b)
		t := TLV{Type: b[0]}
		if n > 2 {
			t.Value = bytes.Clone(b[2:n])
		}
		tlvs = append(tlvs, t)
		b = b[n:]
	}
	return tlvs
}

// appendPad appends n bytes of padding, n below 8.
func appendPad(b []byte, n int) []byte {
	switch n {
	case 0:
		return b
	case 1:
		return append(b, TLVPad1)
	}
	return append(append(b, TLVPadN, uint8(n-2)), make([]byte, n-2)...)
}
