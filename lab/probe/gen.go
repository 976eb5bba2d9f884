package probe

// The object is committed, so that only a change of the programs needs clang.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel -cflags "-O2 -g -Wall -Werror -I/usr/include" -type record -type state bpf bpf/probe.bpf.c
