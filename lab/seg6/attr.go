package seg6

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// attr is one netlink attribute (struct nlattr): its type without the flag
// bits, and its payload.
type attr struct {
	kind uint16
	data []byte
}

const (
	attrHeader = 4
	attrFlags  = unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
)

func aligned(n int) int { return (n + 3) &^ 3 }

// parseAttrs splits b into its attributes. The payloads alias b.
func parseAttrs(b []byte) ([]attr, error) {
	var out []attr
	for len(b) >= attrHeader {
		n := int(binary.NativeEndian.Uint16(b))
		if n < attrHeader || n > len(b) {
			return nil, fmt.Errorf("attribute of %d bytes where %d are left", n, len(b))
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ attrFlags
		out = append(out, attr{kind, b[attrHeader:n]})
		b = b[min(aligned(n), len(b)):]
	}
	// Fewer bytes than a header are padding, as in the kernel's nla_ok.
	return out, nil
}

// appendAttr appends an attribute with its padding to b. The kind may carry
// flag bits.
func appendAttr(b []byte, kind uint16, data []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, data...)
	return append(b, make([]byte, aligned(len(data))-len(data))...)
}

func u32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// need returns data when it has exactly n bytes: a copy, so that what is
// decoded does not hold the receive buffer.
func need(data []byte, n int) ([]byte, error) {
	if len(data) != n {
		return nil, fmt.Errorf("%d bytes instead of %d", len(data), n)
	}
	return slices.Clone(data), nil
}

func getU32(data []byte) (uint32, error) {
	b, err := need(data, 4)
	if err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint32(b), nil
}
