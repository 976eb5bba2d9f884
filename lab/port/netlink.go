package port

import (
	"encoding/binary"
	"errors"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// here speaks to the kernel for the namespace of the calling thread. It has no
// sockets: the library then opens one for each request and asks on it for the
// kernel's extack text.
var here = &netlink.Handle{}

// links lists the devices of the namespace.
func links() ([]netlink.Link, error) {
	for {
		all, err := here.LinkList()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
}

func device(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

// dump asks for everything of a kind and gives the messages without their
// netlink headers. header is the fixed part of the request.
func dump(kind int, header []byte) ([][]byte, error) {
	for {
		req := nl.NewNetlinkRequest(kind, unix.NLM_F_DUMP)
		req.AddRawData(header)
		messages, err := req.Execute(unix.NETLINK_ROUTE, 0)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return messages, err
		}
	}
}

// send makes a request of a message without its netlink header.
func send(kind, flags int, message []byte) error {
	req := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	req.AddRawData(message)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// move moves a device to another namespace and names it there, in one request.
// index asks for an interface index there, 0 for none in particular.
func move(from, to int, name string, index int) error {
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(from)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(to))))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	if index != 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_NEW_IFINDEX, nl.Uint32Attr(uint32(index))))
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// setFlags sets those of a device's flags (IFF_UP and the like) that mask has.
func setFlags(index int, flags, mask uint32) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Flags, msg.Change = int32(index), flags, mask
	req.AddData(msg)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

var native = binary.NativeEndian

// attribute of a netlink message; kind has its flag bits, as in the message.
type attribute struct {
	kind  uint16
	value []byte
}

// attributes splits what follows the fixed part of a message.
func attributes(b []byte) []attribute {
	var all []attribute
	for len(b) >= unix.SizeofRtAttr {
		n := int(native.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			break
		}
		all = append(all, attribute{native.Uint16(b[2:]), b[unix.SizeofRtAttr:n]})
		b = b[min((n+3)&^3, len(b)):]
	}
	return all
}

// find is the value of an attribute, nil when it is not there.
func find(all []attribute, kind uint16) []byte {
	for _, a := range all {
		if a.kind&nl.NLA_TYPE_MASK == kind {
			return a.value
		}
	}
	return nil
}

// appendAttribute adds an attribute to a message.
func appendAttribute(b []byte, a attribute) []byte {
	b = native.AppendUint16(b, uint16(unix.SizeofRtAttr+len(a.value)))
	b = native.AppendUint16(b, a.kind)
	b = append(b, a.value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func uint32Attribute(kind uint16, v uint32) attribute {
	return attribute{kind, native.AppendUint32(nil, v)}
}

func ipText(b []byte) string { return net.IP(b).String() }
