package forwarder

import "seg6lab/forwarder/srh"

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
	key := w.f.hmac[tag.KeyID()]
	return key != nil && v.VerifyHMAC(key.algorithm, key.secret, *p.src6())
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
