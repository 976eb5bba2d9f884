package traffic

import "slices"

// Functions that rows of the table of layers share.

func always(name string) func(*filled, []byte) string {
	return func(*filled, []byte) string { return name }
}

func rawIf(field string) func(*filled, []byte) string {
	return func(f *filled, _ []byte) string {
		if f.number(field) != 0 {
			return "Raw"
		}
		return ""
	}
}

// says is the payload's length from a field that counts header bytes too.
func says(field string, header int) func(*filled) int {
	return func(f *filled) int { return int(f.number(field)) - header }
}

// tagLength: behind a VLAN tag a type up to 1500 is a length.
func tagLength(f *filled) int {
	if n := f.number("type"); 0 < n && n <= 1500 {
		return int(n)
	}
	return -1
}

func afterTag(f *filled, _ []byte) string {
	if tagLength(f) > 0 {
		return "LLC"
	}
	return ""
}

func icmpType(types ...uint64) func(*filled) bool {
	return func(f *filled) bool { return slices.Contains(types, f.number("type")) }
}

func anySet(names ...string) func(*filled) bool {
	return func(f *filled) bool {
		return slices.ContainsFunc(names, func(name string) bool { return f.number(name) != 0 })
	}
}

func vxlanFlag(mask, want uint64) func(*filled) bool {
	return func(f *filled) bool { return f.number("flags")&mask == want }
}

func payloadLen(c *scope) uint64 { return uint64(len(c.payload)) }

// valueLen is the length of a TLV's value: the TLV less type and length.
func valueLen(c *scope) uint64 { return uint64(len(c.header) - 2) }

func headerSum(c *scope) uint64 { return checksum(slices.Concat(c.header, c.payload)) }

func greSum(c *scope) uint64 {
	if c.layer().number("chksum_present") == 0 {
		return 0
	}
	return headerSum(c)
}

// padSRH ends the TLVs on a multiple of 8 bytes, unless the length was given
// (then the header may be wrong on purpose).
func padSRH(_ *filled, given bool, b []byte) []byte {
	n := -len(b) & 7
	switch {
	case given || n == 0:
		return b
	case n == 1:
		return append(b, 0)
	}
	return append(append(b, 4, byte(n-2)), make([]byte, n-2)...)
}

// extLen is Hdr Ext Len: the header in units of 8 bytes, rounded up, less the first.
func extLen(c *scope) uint64 { return uint64(len(c.header)+7)/8 - 1 }

// lastAddress is the index of the last address of the list.
func lastAddress(c *scope) uint64 {
	n := len(c.layer().list("addresses"))
	return uint64(max(n-1, 0))
}

// afterIPv6 tells routing headers and ICMPv6 messages apart by their type.
func afterIPv6(f *filled, payload []byte) string {
	switch f.number("nh") {
	case 43:
		if len(payload) > 2 && payload[2] == 4 {
			return "SRH"
		}
	case 58:
		if name := icmp6Types[payload[0]]; name != "" {
			return name
		}
		return "ICMPv6Unknown"
	}
	return ""
}

// srhAddresses is the size of the segment list: as Last Entry says, as far as the header has room.
func srhAddresses(f *filled, _, _ int) int {
	return 16 * min(int(f.number("lastentry"))+1, int(f.number("len"))/2)
}
