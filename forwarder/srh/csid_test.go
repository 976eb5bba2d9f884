package srh

import (
	"net/netip"
	"testing"
)

// Expectations follow RFC 9800 section 4.1: DA.Argument moves up behind the block.
func TestCSID(t *testing.T) {
	tests := []struct {
		csid     CSID
		sid      string
		argument bool
		next     string
	}{
		{DefaultCSID, "2001:db8:100:200:300::", true, "2001:db8:200:300::"},
		{DefaultCSID, "2001:db8:100:200:300:400:500:600", true, "2001:db8:200:300:400:500:600:0"},
		{DefaultCSID, "2001:db8:100::", false, "2001:db8::"},
		{DefaultCSID, "2001:db8:100::1", true, "2001:db8:0:0:0:0:1:0"},
		{CSID{48, 16}, "2001:db8:1:100:200::", true, "2001:db8:1:200::"},
		{CSID{32, 32}, "2001:db8:1:2:3:4:5:6", true, "2001:db8:3:4:5:6::"},
		{CSID{24, 8}, "fc00:1122:3344:5566:7788:99aa:bbcc:ddee", true, "fc00:1133:4455:6677:8899:aabb:ccdd:ee00"},
		{CSID{64, 64}, "2001:db8::1:2:3:4", false, "2001:db8::"},
		{CSID{32, 96}, "2001:db8:1:2:3:4:5:6", false, "2001:db8::"},
	}
	for _, tt := range tests {
		sid := netip.MustParseAddr(tt.sid).As16()
		if got := tt.csid.HasArgument(&sid); got != tt.argument {
			t.Errorf("%v %s: argument %v, want %v", tt.csid, tt.sid, got, tt.argument)
		}
		tt.csid.Advance(&sid)
		if got := netip.AddrFrom16(sid); got != netip.MustParseAddr(tt.next) {
			t.Errorf("%v %s: next %s, want %s", tt.csid, tt.sid, got, tt.next)
		}
	}
}

func TestCSIDValidate(t *testing.T) {
	for c, ok := range map[CSID]bool{
		{32, 16}: true, {120, 8}: true, {0, 16}: false, {32, 0}: false, {33, 16}: false, {32, 12}: false, {120, 16}: false,
	} {
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("%v: %v", c, err)
		}
	}
}
