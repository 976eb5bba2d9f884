package srh

import (
	"encoding/binary"
	"fmt"
)

// CSID is the structure of a NEXT-CSID SID (RFC 9800 section 4): the locator
// block, the locator-node and function of one compressed SID, and the argument,
// which holds the CSIDs still to come and takes the rest of the 128 bits.
type CSID struct {
	Block    uint8 // LBL, bits of the locator block
	Function uint8 // LNFL, bits of locator-node and function
}

// DefaultCSID is what Linux uses when a route names no lengths
// (SEG6_LOCAL_LCBLOCK_DBITS, SEG6_LOCAL_LCNODE_FN_DBITS).
var DefaultCSID = CSID{Block: 32, Function: 16}

// Validate checks the lengths as Linux does: more
// than zero, multiples of 8, at most 128 bits together.
func (c CSID) Validate() error {
	switch {
	case c.Block == 0 || c.Block%8 != 0:
		return fmt.Errorf("srh: CSID locator block of %d bits: want a multiple of 8 above 0", c.Block)
	case c.Function == 0 || c.Function%8 != 0:
		return fmt.Errorf("srh: CSID locator-node function of %d bits: want a multiple of 8 above 0", c.Function)
	case int(c.Block)+int(c.Function) > 128:
		return fmt.Errorf("srh: CSID of %d+%d bits: an address has 128", c.Block, c.Function)
	}
	return nil
}

// HasArgument reports whether the argument of sid is not zero, so that another
// CSID follows in it.
func (c CSID) HasArgument(sid *[16]byte) bool {
	hi, lo := load(sid)
	hi, lo = shiftLeft(hi, lo, uint(c.Block)+uint(c.Function))
	return hi|lo != 0
}

// Advance makes the next CSID the active one: the bits behind the block move
// up by the length of a CSID and zeros come in at the end (RFC 9800 section
// 4.1.1, lines N06 to N08; Linux: seg6_next_csid_advance_arg).
func (c CSID) Advance(sid *[16]byte) {
	hi, lo := load(sid)
	bhi, blo := ^uint64(0), ^uint64(0)
	bhi, blo = shiftLeft(bhi, blo, 128-uint(c.Block))
	shi, slo := shiftLeft(hi&^bhi, lo&^blo, uint(c.Function))
	binary.BigEndian.PutUint64(sid[:8], hi&bhi|shi&^bhi)
	binary.BigEndian.PutUint64(sid[8:], lo&blo|slo&^blo)
}

func load(a *[16]byte) (hi, lo uint64) {
	return binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
}

// shiftLeft shifts 128 bits; in Go a shift of a uint64 by 64 or more gives 0.
func shiftLeft(hi, lo uint64, n uint) (uint64, uint64) {
	if n >= 64 {
		return lo << (n - 64), 0
	}
	return hi<<n | lo>>(64-n), lo << n
}
