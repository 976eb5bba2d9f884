package specs

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// controlKinds are what controlKind tells apart.
var controlKinds = func() []uint32 {
	kinds := []uint32{unix.ETH_P_ARP << 8, unix.ETH_P_IP<<8 | unix.IPPROTO_IGMP}
	for t := uint32(130); t <= 137; t++ {
		kinds = append(kinds, unix.ETH_P_IPV6<<8|t)
	}
	return append(kinds, unix.ETH_P_IPV6<<8|143)
}()

// controlProgram is classic BPF, as tc reads it, that takes frames of these kinds of
// controlKind. Of a hop-by-hop options header it knows the one of 8 bytes that
// multicast listener messages have.
func controlProgram(kinds []uint32) string {
	const (
		loadByte, loadHalf = 0x30, 0x28 // BPF_LD|BPF_ABS
		equal, always, end = 0x15, 0x05, 0x06
	)
	type insn struct {
		op         int
		k          uint32
		yes, no    string // labels; empty is the next instruction
		label, jmp string
	}
	program := []insn{{op: loadHalf, k: 12}}
	add := func(i insn) { program = append(program, i) }
	for _, k := range kinds {
		if k == unix.ETH_P_ARP<<8 {
			add(insn{op: equal, k: unix.ETH_P_ARP, yes: "take"})
		}
		if k == unix.ETH_P_IP<<8|unix.IPPROTO_IGMP {
			add(insn{op: equal, k: unix.ETH_P_IP, no: "ipv6"})
			add(insn{op: loadByte, k: 23})
			add(insn{op: equal, k: unix.IPPROTO_IGMP, yes: "take", no: "leave"})
		}
	}
	add(insn{label: "ipv6", op: equal, k: unix.ETH_P_IPV6, no: "leave"})
	add(insn{op: loadByte, k: 20})
	add(insn{op: equal, k: unix.IPPROTO_ICMPV6, yes: "icmp"})
	add(insn{op: equal, k: unix.IPPROTO_HOPOPTS, no: "leave"})
	add(insn{op: loadByte, k: 54})
	add(insn{op: equal, k: unix.IPPROTO_ICMPV6, no: "leave"})
	add(insn{op: loadByte, k: 62})
	add(insn{op: always, jmp: "types"})
	add(insn{label: "icmp", op: loadByte, k: 54})
	first := true
	for _, k := range kinds {
		if k>>8 == unix.ETH_P_IPV6 {
			i := insn{op: equal, k: k & 0xff, yes: "take"}
			if first {
				i.label, first = "types", false
			}
			add(i)
		}
	}
	leave := insn{label: "leave", op: end}
	if first { // no type is left
		add(insn{label: "types", op: end})
	}
	add(leave)
	add(insn{label: "take", op: end, k: 0xffffffff})

	at := map[string]int{}
	for i, in := range program {
		at[in.label] = i
	}
	jump := func(from int, label string) int {
		if label == "" {
			return 0
		}
		return at[label] - from - 1
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d", len(program))
	for i, in := range program {
		if in.jmp != "" {
			in.k = uint32(jump(i, in.jmp))
		}
		fmt.Fprintf(&b, ",%d %d %d %d", in.op, jump(i, in.yes), jump(i, in.no), in.k)
	}
	return b.String()
}
