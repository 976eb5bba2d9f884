package traffic

import (
	"fmt"
	"strings"
)

// Checksums verifies the checksums of a frame: of IPv4 headers, of ICMP,
// ICMPv6, UDP, TCP and GRE. It returns an error that names each wrong one. What it cannot know
// it takes for right: what is cut short, a fragment, a UDP checksum of 0 over IPv4, and what an ICMP
// error quotes.
func Checksums(frame []byte) error {
	stack, err := dissect(frame, nil).fill()
	if err != nil {
		return nil // nothing of it can be read
	}
	carried := 0 // bytes behind the layer
	for _, f := range stack {
		if f.typ.name != "Padding" {
			carried += len(f.header)
		}
	}
	var wrong []string
	for i, f := range stack {
		carried -= len(f.header)
		short := f.typ.inner != nil && f.typ.inner(f) > carried
		if short && f.typ.name == "UDP" {
			break
		}
		for j := range f.typ.fields {
			fd := &f.typ.fields[j]
			if !fd.sum || f.lacks(j) || f.vals[j] == f.fill[j] || f.typ.name == "UDP" && f.vals[j] == uint64(0) && stack[i-1].typ.name == "IP" {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s of %s (layer %d) is 0x%x, want 0x%x", fd.name, f.typ.name, i, f.vals[j], f.fill[j]))
		}
		if short || fragment(f) || quotes(f) {
			break
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("wrong checksum: %s", strings.Join(wrong, "; "))
}

// quotes reports whether an ICMP error follows with the beginning of another packet.
func quotes(f *filled) bool {
	switch {
	case f.typ.name == "ICMP":
		return icmpType(3, 4, 5, 11, 12)(f)
	case f.typ.next != nil && strings.HasPrefix(f.typ.name, "ICMPv6"):
		return f.number("type") < 128
	}
	return false
}

func fragment(f *filled) bool {
	switch f.typ.name {
	case "IP":
		return f.number("frag") != 0 || f.number("flags")&1 != 0
	case "IPv6ExtHdrFragment":
		return f.number("offset") != 0 || f.number("m") != 0
	}
	return false
}
