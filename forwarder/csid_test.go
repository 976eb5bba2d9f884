package forwarder_test

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"testing"

	"seg6lab/forwarder"
)

// nextCSID is the destination by RFC 9800 section 4.1.1, as it counts bits: the argument
// is copied to behind the locator block, and what is behind it there is set to zero.
func nextCSID(da netip.Addr, block, function uint) netip.Addr {
	low := func(bits uint) *big.Int {
		one := big.NewInt(1)
		return one.Lsh(one, bits).Sub(one, big.NewInt(1))
	}
	v := new(big.Int).SetBytes(da.AsSlice())
	argument := new(big.Int).And(v, low(128-block-function))
	v.AndNot(v, low(128-block))
	v.Or(v, argument.Lsh(argument, function))
	return netip.AddrFrom16([16]byte(v.FillBytes(make([]byte, 16))))
}

// TestNextCSID is the pseudocode of RFC 9800 section 4.1: with an argument left, the hop
// limit is looked at and decremented, the destination becomes the next CSID, and nothing
// else of the packet changes, whatever SRH it has; what has used up its hop limit goes
// back as it came. Without an argument it is the behaviour without the flavor.
func TestNextCSID(t *testing.T) {
	draw := rand.New(rand.NewPCG(9800, 0))
	for _, length := range [][2]uint8{{16, 8}, {16, 16}, {24, 8}, {32, 8}, {32, 16}, {32, 32}, {40, 24}, {48, 16}, {64, 16}, {64, 32}, {88, 32}} {
		block, function := int(length[0])/8, int(length[1])/8
		// Blocks are in fc00::/16, which is routed to r1; the CSID here is ...01.
		var sid [16]byte
		copy(sid[:], []byte{0xfc, 0x00})
		for i := 2; i < block; i++ {
			sid[i] = byte(draw.IntN(256))
		}
		sid[block+function-1] = 1
		here := netip.PrefixFrom(netip.AddrFrom16(sid), 8*(block+function))
		for i := block + function; i < 16; i++ {
			sid[i] = byte(2 + draw.IntN(254)) // no CSID that follows is ...01
		}
		da := netip.AddrFrom16(sid)
		next := nextCSID(da, uint(length[0]), uint(length[1]))
		if da == next {
			t.Fatalf("%v: %s stays as it is", length, da)
		}
		for _, local := range []forwarder.Local{
			{Action: "End"}, {Action: "End.X", NH6: addr("2001:db8:2::2")}, {Action: "End.T", Table: forwarder.TableMain},
		} {
			local.Flavors, local.LBLen, local.NFLen = []string{"next-csid"}, length[0], length[1]
			c := baseConfig()
			c.Quirks = &forwarder.Quirks{}
			c.Routes = append(c.Routes, localRoute(here.String(), local))
			f := newRouter(t, c)
			packet := func(version string, limit int, da netip.Addr, rest string) string {
				return fmt.Sprintf("%s %02x %s %x %s", version, limit, host, da.AsSlice(), rest)
			}
			for _, p := range []struct{ what, version, rest string }{
				{"no SRH", "60000000 0038 29", inner},
				{"segments left 1", "60000000 0060 2b", "29 04 04 01 01 00 0000" + segC + segB + inner},
				{"segments left 0", "60000000 0060 2b", "29 04 04 00 01 00 0000" + segC + segB + inner},
			} {
				t.Run(fmt.Sprintf("%s/%d+%d/%s", local.Action, length[0], length[1], p.what), func(t *testing.T) {
					want := sent{Port: 1, Frame: bytesOf(t, etherOut+packet(p.version, 0x3f, next, p.rest))}
					out := through(f, 0, bytesOf(t, etherIn+packet(p.version, 0x40, da, p.rest)))
					if len(out) != 1 || !out[0].Equal(want) {
						t.Errorf("to %s: sent\n%v\nwant\n%v\ndrops %v", da, out, want, f.Drops())
					}
					late := packet(p.version, 0x01, da, p.rest)
					out = through(f, 0, bytesOf(t, etherIn+late))
					// Ethernet 14, IPv6 40, ICMPv6 8: type 3, code 0 (RFC 4443 section 3.3).
					if len(out) != 1 || out[0].Port != 0 || !bytes.Equal(out[0].Frame[54:56], []byte{3, 0}) || !bytes.Equal(out[0].Frame[62:], bytesOf(t, late)) {
						t.Errorf("to %s, hop limit 1: sent\n%v\nwant a time exceeded with\n%s", da, out, late)
					}
				})
			}
			t.Run(fmt.Sprintf("%s/%d+%d/no argument", local.Action, length[0], length[1]), func(t *testing.T) {
				one, done := "29 04 04 01 01 00 0000"+segC+segB+inner, "29 04 04 00 01 00 0000"+segC+segB+inner
				want := sent{Port: 1, Frame: bytesOf(t, etherOut+"60000000 0060 2b 3f"+host+segC+done)}
				out := through(f, 0, bytesOf(t, etherIn+packet("60000000 0060 2b", 0x40, here.Masked().Addr(), one)))
				if len(out) != 1 || !out[0].Equal(want) {
					t.Errorf("sent\n%v\nwant\n%v\ndrops %v", out, want, f.Drops())
				}
			})
		}
	}
}
