package headroom

// The object is committed, so that only a change of the programs needs clang.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel -cflags "-O2 -g -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" bpf bpf/headroom.bpf.c
