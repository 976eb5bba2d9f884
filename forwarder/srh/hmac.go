package srh

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
)

// Algorithm is an HMAC algorithm, numbered as in Linux (SEG6_HMAC_ALGO_*).
type Algorithm uint8

// The algorithms that Linux has.
const (
	SHA1   Algorithm = 1
	SHA256 Algorithm = 2
)

func (a Algorithm) hash() (func() hash.Hash, error) {
	switch a {
	case SHA1:
		return sha1.New, nil
	case SHA256:
		return sha256.New, nil
	}
	return nil, fmt.Errorf("srh: HMAC algorithm %d: known are %d (SHA-1) and %d (SHA-256)", a, SHA1, SHA256)
}

const (
	hmacLen    = 32                   // bytes of the HMAC field, SEG6_HMAC_FIELD_LEN
	hmacValue  = 2 + 4 + hmacLen      // bytes of the TLV's value: D bit and reserved, key id, HMAC
	hmacTLVLen = 2 + hmacValue        // bytes of the whole TLV
	hmacMax    = 256 - 16 - 1 - 1 - 4 // bytes of segments that the text may hold, below SEG6_HMAC_RING_SIZE
)

// NewHMAC is an HMAC TLV with its HMAC still zero (RFC 8754 section 2.1.2).
func NewHMAC(keyID uint32) TLV {
	t := TLV{Type: TLVHMAC, Value: make([]byte, hmacValue)}
	binary.BigEndian.PutUint32(t.Value[2:], keyID)
	return t
}

// HMAC is the HMAC TLV of an encoded SRH.
type HMAC []byte

// KeyID is the key id field.
func (t HMAC) KeyID() uint32 { return binary.BigEndian.Uint32(t[4:]) }

// Digest is the HMAC field, 32 bytes.
func (t HMAC) Digest() []byte { return t[8:hmacTLVLen] }

// HMAC returns the HMAC TLV where seg6_get_tlv_hmac of Linux looks for it: the flag
// set and the last 40 bytes of the header being that TLV. It is nil when there is none.
func (v View) HMAC() HMAC {
	if v.Flags()&FlagHMAC == 0 || len(v.TLVs()) < hmacTLVLen {
		return nil
	}
	t := HMAC(v[len(v)-hmacTLVLen:])
	if t[0] != TLVHMAC || t[1] != hmacValue {
		return nil
	}
	return t
}

// ComputeHMAC is the HMAC field of v in a packet from source. The text is that
// of RFC 8754 section 2.1.2.1: source address, Last Entry, Flags, key id,
// segment list. As in seg6_hmac_compute a shorter digest (SHA-1) is followed
// by zeros, and more than 14 segments are refused.
func (v View) ComputeHMAC(alg Algorithm, keyID uint32, secret []byte, source [16]byte) ([32]byte, error) {
	var out [hmacLen]byte
	h, err := alg.hash()
	if err != nil {
		return out, err
	}
	segments := v[fixedLen : fixedLen+segLen*v.Segments()]
	if len(segments) >= hmacMax {
		return out, fmt.Errorf("srh: HMAC over %d segments: at most 14 are allowed", v.Segments())
	}
	mac := hmac.New(h, secret)
	mac.Write(source[:])
	mac.Write([]byte{v.LastEntry(), v.Flags()})
	mac.Write(binary.BigEndian.AppendUint32(nil, keyID))
	mac.Write(segments)
	copy(out[:], mac.Sum(nil))
	return out, nil
}

// SetHMAC fills in the HMAC field of the HMAC TLV of v.
func (v View) SetHMAC(alg Algorithm, secret []byte, source [16]byte) error {
	t := v.HMAC()
	if t == nil {
		return fmt.Errorf("srh: no HMAC TLV at the end of the header, or its flag 0x%02x is not set", FlagHMAC)
	}
	sum, err := v.ComputeHMAC(alg, t.KeyID(), secret, source)
	if err != nil {
		return err
	}
	copy(t.Digest(), sum[:])
	return nil
}

// VerifyHMAC reports whether v has an HMAC TLV with the right HMAC.
func (v View) VerifyHMAC(alg Algorithm, secret []byte, source [16]byte) bool {
	t := v.HMAC()
	if t == nil {
		return false
	}
	sum, err := v.ComputeHMAC(alg, t.KeyID(), secret, source)
	return err == nil && hmac.Equal(sum[:], t.Digest())
}
