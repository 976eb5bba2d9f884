package specs

// The object is committed, so that only a change of the programs needs clang.
//go:generate clang -O2 -Wall -Werror -target bpf -D__x86_64__ -idirafter /usr/include/x86_64-linux-gnu -c cases/selftests/hub/end-bpf.bpf.c -o cases/selftests/hub/end-bpf.bpf.o
//go:generate llvm-strip -g cases/selftests/hub/end-bpf.bpf.o
