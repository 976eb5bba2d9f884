package forwarder

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"seg6lab/forwarder/srh"
)

// hmacKey is a key of RFC 8754 section 2.1.2.
type hmacKey struct {
	algorithm srh.Algorithm
	secret    []byte
}

// compileSeg6 reads tunsrc and the keys.
func (c *compiler) compileSeg6() {
	if a := c.c.TunSrc; a.IsValid() {
		if !a.Is6() || a.Is4In6() {
			c.fail("tunsrc %s is not an IPv6 address", a)
		}
		c.tunsrc = a.As16()
	}
	for _, k := range c.c.HMAC {
		switch {
		case k.ID == 0, c.hmac[k.ID] != nil:
			c.fail("HMAC key %d: the id is 0 or taken", k.ID)
		case k.Algorithm != srh.SHA1 && k.Algorithm != srh.SHA256:
			c.fail("HMAC key %d: algorithm %d is neither SHA-1 nor SHA-256", k.ID, k.Algorithm)
		case len(k.Secret) == 0 || len(k.Secret) > 64:
			c.fail("HMAC key %d: a secret has 1 to 64 bytes, not %d", k.ID, len(k.Secret))
		default:
			c.hmac[k.ID] = &hmacKey{k.Algorithm, []byte(k.Secret)}
		}
	}
}

// hmacAllows is seg6_hmac_validate_skb for the SRH at off of a packet that came
// in on the packet's device.
func (w *Worker) hmacAllows(p *packet, off int) bool {
	required := 0
	if p.in != nil {
		required = p.in.requireHMAC
	}
	if required < 0 {
		return true
	}
	if w.f.quirks.HMACAtTransport {
		off = p.transport - p.net
	}
	v, tag := hmacOf(p.bytes(), off)
	if tag == nil {
		return required == 0
	}
	sum, ok := w.digest(tag.KeyID(), v, p.src6())
	return ok && hmac.Equal(sum, tag.Digest())
}

// digest is srh.View.ComputeHMAC with the hashes and the memory of the worker,
// so that it allocates nothing. It is false without such a key, and for more
// segments than the kernel takes.
func (w *Worker) digest(keyID uint32, v srh.View, source *[16]byte) ([]byte, bool) {
	hash := w.hashes[keyID]
	if hash == nil || v.Segments() > hmacSegments {
		return nil, false
	}
	text := append(w.text[:0], source[:]...)
	text = append(text, v.LastEntry(), v.Flags())
	text = binary.BigEndian.AppendUint32(text, keyID)
	text = append(text, v[8:8+16*v.Segments()]...)
	w.text = text
	hash.Reset()
	hash.Write(text)
	clear(w.sum[:])
	hash.Sum(w.sum[:0])
	return w.sum[:], true
}

// hmacSegments is how many segments the kernel's buffer for the text holds
// (SEG6_HMAC_RING_SIZE).
const hmacSegments = 14

// newHashes are hashes of all keys for one worker.
func (f *Forwarder) newHashes() map[uint32]hash.Hash {
	all := map[uint32]hash.Hash{}
	for id, key := range f.hmac {
		all[id] = hmac.New(map[srh.Algorithm]func() hash.Hash{srh.SHA1: sha1.New, srh.SHA256: sha256.New}[key.algorithm], key.secret)
	}
	return all
}

// hmacOf is seg6_get_tlv_hmac: the HMAC TLV of what is at off of b, read as an
// SRH whatever it is, if its list of segments leaves room for one.
func hmacOf(b []byte, off int) (srh.View, srh.HMAC) {
	if off+8 > len(b) {
		return nil, nil
	}
	v := srh.View(b[off:])
	length := (int(v.HdrExtLen()) + 1) * 8
	if length > len(v) || int(v.HdrExtLen()) < v.Segments()*2+5 {
		return nil, nil
	}
	v = v[:length]
	return v, v.HMAC()
}
