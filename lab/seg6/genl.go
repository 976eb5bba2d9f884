package seg6

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Commands and attributes of the generic netlink family SEG6,
// include/uapi/linux/seg6_genl.h.
const (
	familyName = "SEG6"

	cmdSetHMAC   = 1
	cmdDumpHMAC  = 2
	cmdSetTunSrc = 3
	cmdGetTunSrc = 4

	attrDst       = 1
	attrHMACKeyID = 3
	attrSecret    = 4
	attrSecretLen = 5
	attrAlgID     = 6
)

// MaxSecret is the longest secret of an HMAC key in bytes
// (SEG6_HMAC_SECRET_LEN).
const MaxSecret = 64

// HMACAlgorithm is the hash of an HMAC key, SEG6_HMAC_ALGO_*.
type HMACAlgorithm uint8

// The algorithms.
const (
	HMACSHA1   HMACAlgorithm = 1
	HMACSHA256 HMACAlgorithm = 2
)

var algorithmNames = []string{HMACSHA1: "sha1", HMACSHA256: "sha256"}

// ParseHMACAlgorithm returns the algorithm of that name in iproute2's words.
func ParseHMACAlgorithm(name string) (HMACAlgorithm, error) {
	for i, n := range algorithmNames {
		if n == name && n != "" {
			return HMACAlgorithm(i), nil
		}
	}
	return 0, fmt.Errorf("HMAC algorithm %q is none of %s", name, list(algorithmNames))
}

// String is iproute2's name of the algorithm, or its number.
func (a HMACAlgorithm) String() string {
	if int(a) < len(algorithmNames) && algorithmNames[a] != "" {
		return algorithmNames[a]
	}
	return fmt.Sprintf("<unknown %d>", uint8(a))
}

// HMACKey is a key that signs and verifies SRHs (RFC 8754 section 2.1.2).
type HMACKey struct {
	// ID is the HMAC key id, not 0.
	ID        uint32
	Algorithm HMACAlgorithm
	// Secret of 1 to MaxSecret bytes.
	Secret []byte
}

// String is what `ip sr hmac show` prints.
func (k HMACKey) String() string {
	return fmt.Sprintf("hmac %d algo %s secret %q", k.ID, k.Algorithm, k.Secret)
}

// TunSrc reads the source address of outer headers (ip sr tunsrc show): "::"
// when none is set.
func (c *Conn) TunSrc() (netip.Addr, error) {
	msgs, err := c.genl(cmdGetTunSrc, 0, nil)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("get tunsrc: %w", err)
	}
	var src netip.Addr
	for _, m := range msgs {
		err := eachAttr(m, func(a attr) error {
			if a.kind != attrDst {
				return nil
			}
			b, err := need(a.data, 16)
			if err == nil {
				src = netip.AddrFrom16([16]byte(b))
			}
			return err
		})
		if err != nil {
			return netip.Addr{}, fmt.Errorf("get tunsrc: %w", err)
		}
	}
	if !src.IsValid() {
		return src, fmt.Errorf("get tunsrc: no address in the kernel's answer")
	}
	return src, nil
}

// SetTunSrc sets the source address of outer headers (ip sr tunsrc set); "::"
// leaves the choice to the kernel.
func (c *Conn) SetTunSrc(src netip.Addr) error {
	if !src.Is6() || src.Zone() != "" {
		return fmt.Errorf("set tunsrc: %s is not a plain IPv6 address", src)
	}
	if _, err := c.genl(cmdSetTunSrc, 0, appendAttr(nil, attrDst, src.AsSlice())); err != nil {
		return fmt.Errorf("set tunsrc %s: %w", src, err)
	}
	return nil
}

// HMACKeys reads the HMAC keys (ip sr hmac show), in the order of their ids.
func (c *Conn) HMACKeys() ([]HMACKey, error) {
	msgs, err := c.genl(cmdDumpHMAC, unix.NLM_F_DUMP, nil)
	if err != nil {
		return nil, fmt.Errorf("get HMAC keys: %w", err)
	}
	var keys []HMACKey
	for _, m := range msgs {
		var k HMACKey
		err := eachAttr(m, func(a attr) (err error) {
			switch a.kind {
			case attrHMACKeyID:
				k.ID, err = getU32(a.data)
			case attrSecret:
				k.Secret = slices.Clone(a.data)
			case attrAlgID:
				var b []byte
				if b, err = need(a.data, 1); err == nil {
					k.Algorithm = HMACAlgorithm(b[0])
				}
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("get HMAC keys: %w", err)
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b HMACKey) int { return cmp.Compare(a.ID, b.ID) })
	return keys, nil
}

// SetHMACKey adds an HMAC key, or puts it in the place of the one of the same id
// (ip sr hmac set).
func (c *Conn) SetHMACKey(k HMACKey) error {
	if k.ID == 0 {
		return fmt.Errorf("set HMAC key: the id 0 stands for no HMAC: choose another")
	}
	// An empty secret would delete the key.
	if len(k.Secret) == 0 || len(k.Secret) > MaxSecret {
		return fmt.Errorf("set HMAC key %d: secret of %d bytes: 1 to %d are allowed", k.ID, len(k.Secret), MaxSecret)
	}
	if err := c.setHMAC(k); err != nil {
		return fmt.Errorf("set HMAC key %d: %w", k.ID, err)
	}
	return nil
}

// DelHMACKey removes the HMAC key of that id. The error is unix.ENOENT when there
// is none.
func (c *Conn) DelHMACKey(id uint32) error {
	if err := c.setHMAC(HMACKey{ID: id, Algorithm: HMACSHA256}); err != nil {
		return fmt.Errorf("delete HMAC key %d: %w", id, err)
	}
	return nil
}

func (c *Conn) setHMAC(k HMACKey) error {
	b := appendAttr(nil, attrHMACKeyID, u32(k.ID))
	b = appendAttr(b, attrSecretLen, []byte{byte(len(k.Secret))})
	b = appendAttr(b, attrAlgID, []byte{byte(k.Algorithm)})
	if len(k.Secret) > 0 {
		b = appendAttr(b, attrSecret, k.Secret)
	}
	_, err := c.genl(cmdSetHMAC, 0, b)
	return err
}

// enotsupp is the kernel's ENOTSUPP, what a kernel without
// CONFIG_IPV6_SEG6_HMAC answers. It has no name outside the kernel.
const enotsupp = syscall.Errno(524)

// genl sends a command of the SEG6 family and returns the attributes of each
// answer.
func (c *Conn) genl(cmd byte, flags int, attrs []byte) ([][]byte, error) {
	family, err := c.family()
	if err != nil {
		return nil, err
	}
	msgs, err := c.request(unix.NETLINK_GENERIC, int(family), flags|unix.NLM_F_ACK, []byte{cmd, 1, 0, 0}, attrs, family)
	if errors.Is(err, enotsupp) {
		return nil, fmt.Errorf("this kernel has no CONFIG_IPV6_SEG6_HMAC: %w", errors.ErrUnsupported)
	}
	return payloads(msgs), err
}

// findFamily asks for the number of the family SEG6.
func (c *Conn) findFamily() (id uint16, err error) {
	name := appendAttr(nil, nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(familyName))
	msgs, err := c.request(unix.NETLINK_GENERIC, nl.GENL_ID_CTRL, 0, []byte{nl.GENL_CTRL_CMD_GETFAMILY, 1, 0, 0}, name, nl.GENL_ID_CTRL)
	if errors.Is(err, unix.ENOENT) {
		return 0, fmt.Errorf("this kernel has no generic netlink family %s (CONFIG_IPV6_SEG6_LWTUNNEL): %w", familyName, errors.ErrUnsupported)
	}
	for _, m := range payloads(msgs) {
		err = eachAttr(m, func(a attr) error {
			if a.kind != nl.GENL_CTRL_ATTR_FAMILY_ID {
				return nil
			}
			b, err := need(a.data, 2)
			if err == nil {
				id = binary.NativeEndian.Uint16(b)
			}
			return err
		})
	}
	if err == nil && id == 0 {
		err = fmt.Errorf("no id in the kernel's answer")
	}
	if err != nil {
		return 0, fmt.Errorf("generic netlink family %s: %w", familyName, err)
	}
	return id, nil
}

// payloads cuts the generic netlink headers off.
func payloads(msgs [][]byte) [][]byte {
	var out [][]byte
	for _, m := range msgs {
		if len(m) >= nl.SizeofGenlmsg {
			out = append(out, m[nl.SizeofGenlmsg:])
		}
	}
	return out
}
