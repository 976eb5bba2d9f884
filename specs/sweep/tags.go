package sweep

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"seg6lab/lab"
)

// tcxNext passes a frame on to the next program and then to the device.
const tcxNext = -1

// pushTags gives frames that leave a device of a node 802.1Q tags, the innermost
// first, after what else is attached there by now. A tag goes where there is room
// already, so that the headroom at the network header stays what it is.
func pushTags(n *lab.Node, device string, vids []uint16) (l link.Link, err error) {
	err = n.Do(func() error {
		prog, err := ebpf.NewProgram(tagger(vids))
		if err != nil {
			return err
		}
		defer prog.Close() // the link keeps it
		index, err := indexOf(device)
		if err != nil {
			return err
		}
		l, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: prog, Attach: ebpf.AttachTCXEgress})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("push VLAN tags at %s: %w", device, err)
	}
	return l, nil
}

func tagger(vids []uint16) *ebpf.ProgramSpec {
	insns := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	const proto = unix.ETH_P_8021Q<<8&0xff00 | unix.ETH_P_8021Q>>8
	for _, vid := range vids {
		insns = append(insns,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Imm(asm.R2, proto),
			asm.Mov.Imm(asm.R3, int32(vid)),
			asm.FnSkbVlanPush.Call(),
		)
	}
	insns = append(insns, asm.Mov.Imm(asm.R0, tcxNext), asm.Return())
	return &ebpf.ProgramSpec{Name: "push_tags", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXEgress, License: "Dual BSD/GPL", Instructions: insns}
}

func indexOf(device string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(device)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
		return 0, fmt.Errorf("device %s: %w", device, err)
	}
	return int(ifr.Uint32()), nil
}
