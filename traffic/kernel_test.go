package traffic

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"seg6lab/forwarder/srh"
)

// setHMACKey adds a key to the namespace of the calling thread, as ip sr hmac
// set does: generic netlink family SEG6, linux/seg6_genl.h.
func setHMACKey(id uint32, alg srh.Algorithm, secret string) error {
	const setHMAC, keyID, secretAttr, secretLen, algID = 1, 3, 4, 5, 6
	family, err := netlink.GenlFamilyGet("SEG6")
	if err != nil {
		return fmt.Errorf("generic netlink family SEG6: %w", err)
	}
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	req.AddData(&nl.Genlmsg{Command: setHMAC, Version: 1})
	req.AddData(nl.NewRtAttr(keyID, nl.Uint32Attr(id)))
	req.AddData(nl.NewRtAttr(secretLen, []byte{byte(len(secret))}))
	req.AddData(nl.NewRtAttr(algID, []byte{byte(alg)}))
	req.AddData(nl.NewRtAttr(secretAttr, []byte(secret)))
	_, err = req.Execute(unix.NETLINK_GENERIC, 0)
	return err
}

// TestKernelsOwnPacket has the kernel send UDP through an SRH with an HMAC TLV
// (socket option IPV6_RTHDR) and reads what it built: the HMAC, the checksum
// and every field must be what this project computes.
func TestKernelsOwnPacket(t *testing.T) {
	for _, alg := range []srh.Algorithm{srh.SHA1, srh.SHA256} {
		p := newPair(t)
		c := p.capture(t, Incoming)
		inside(t, p.west, func() error {
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", []byte("0"), 0); err != nil {
				return err
			}
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			addr, err := netlink.ParseAddr("fc00::1/64")
			if err != nil {
				return err
			}
			addr.Flags = unix.IFA_F_NODAD
			if err := netlink.AddrAdd(link, addr); err != nil {
				return err
			}
			if err := netlink.NeighSet(&netlink.Neigh{
				LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
				IP: net.ParseIP("fc00::2"), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2},
			}); err != nil {
				return err
			}
			if err := setHMACKey(7, alg, "secret"); err != nil {
				return err
			}
			header := mustBytes(t, mustParse(t, `SRH(nh=0, addresses=["::", "fc00::2"], hmac=1, tag=5, tlv_objects=[TLVHMAC(hmackeyid=7)])`))
			fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, string(header)); err != nil {
				return fmt.Errorf("IPV6_RTHDR: %w", err)
			}
			if err := unix.Bind(fd, &unix.SockaddrInet6{Port: 4000}); err != nil {
				return err
			}
			to := &unix.SockaddrInet6{Port: 5000, Addr: [16]byte(net.ParseIP("fc00:3::3"))}
			return unix.Sendto(fd, []byte(pattern(16)), 0, to)
		})

		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var frame []byte
		if err := c.Wait(ctx, 0, func(fs []Frame) bool {
			for _, f := range fs {
				if ours(f) {
					frame = f.Data
				}
			}
			return frame != nil
		}); err != nil {
			t.Fatal(err)
		}
		want := mustParse(t, `Ether(dst="02:00:00:00:00:02", type=0x86dd)/IPv6(src="fc00::1", dst="fc00::2", nh=43, hlim=64, plen=104)`+
			`/SRH(nh=17, len=9, segleft=1, lastentry=1, flags=8, tag=5, addresses=["fc00:3::3", "fc00::2"])/UDP(sport=4000, dport=5000, len=24)/Raw(16)`)
		if d := want.Diff(frame, false); d != nil {
			t.Fatal(d)
		}
		if err := Checksums(frame); err != nil {
			t.Errorf("%v in %s", err, Dissect(frame))
		}
		v, err := srh.Parse(frame[54:])
		if err != nil {
			t.Fatal(err)
		}
		if !v.VerifyHMAC(alg, []byte("secret"), [16]byte(frame[22:38])) {
			t.Errorf("algorithm %d: HMAC of the kernel %x is not ours", alg, v.HMAC().Digest())
		}
	}
}
