// Package profile samples where the kernel spends its time: call stacks at
// intervals of the CPU's clock, by function. It needs root, and a kernel with
// CONFIG_PERF_EVENTS and CONFIG_KALLSYMS.
//
// A sample is taken by a timer's interrupt. What runs with interrupts off is
// seen where they are allowed again, so the share of such a function goes to who
// calls it, mostly to a function with "irqrestore" or "unlock" in its name.
//
// A stack is as good as the kernel's unwinder. With CONFIG_UNWINDER_ORC it is exact. With
// CONFIG_UNWINDER_GUESS a function that has returned is in it as long as nothing was
// written over its return address, so that the inclusive share of a function that is
// called at all is too large rather than too small; one that is never called has none.
package profile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stacks counts samples by call stack. A stack is the names of its functions
// from the outermost to the innermost, separated by semicolons: a line of what is
// called folded stacks.
type Stacks map[string]int

// ErrUnsupported is wrapped by errors that mean that this kernel cannot be sampled.
var ErrUnsupported = errors.New("the kernel cannot be sampled")

// ringPages is the size of the buffer of samples, 16 MB with 4 KB pages: some
// 60 000 stacks.
const ringPages = 4096

// Collect runs f a number of times, and while it does, samples the CPU that the
// calling thread is on, and is to stay on: each time with another period, drawn from
// two to four thirds of the given one, which is in nanoseconds. The draw is the same at
// every call.
//
// Where the clock counts instructions and f does the same again and again, samples a
// fixed period apart are not spread over f. What runs with interrupts off, and the
// sampling itself, shift them until they come round to the same few places of it, and never
// to others: shares counted so were wrong by a factor of two, either way.
func Collect(period uint64, times int, f func() error) (Stacks, error) {
	symbols, err := readSymbols()
	if err != nil {
		return nil, err
	}
	cpu, err := currentCPU()
	if err != nil {
		return nil, err
	}
	attr := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample:      period,
		Sample_type: unix.PERF_SAMPLE_CALLCHAIN,
		Bits:        unix.PerfBitDisabled | unix.PerfBitExcludeUser | unix.PerfBitExcludeCallchainUser,
	}
	fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%w: perf_event_open: %w", ErrUnsupported, err)
	}
	defer unix.Close(fd)
	page := os.Getpagesize()
	ring, err := unix.Mmap(fd, 0, (1+ringPages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("buffer for samples: %w", err)
	}
	defer unix.Munmap(ring)
	draw := rand.New(rand.NewPCG(0, period))
	for range times {
		if err := during(f, fd, 2*period/3+draw.Uint64N(2*period/3)); err != nil {
			return nil, err
		}
	}
	meta := (*unix.PerfEventMmapPage)(unsafe.Pointer(&ring[0]))
	// The buffer is read once, with the event off: nothing moves the head.
	if meta.Data_head > uint64(ringPages*page) {
		return nil, errors.New("more samples than the buffer holds: sample more rarely")
	}
	return count(ring[page:page+int(meta.Data_head)], symbols)
}

// during has the event fd take samples while f runs.
func during(f func() error, fd int, period uint64) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&period))); errno != 0 {
		return fmt.Errorf("%d ns between samples: %w", period, errno)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return err
	}
	err := f()
	if off := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0); err == nil {
		err = off
	}
	return err
}

func currentCPU() (int, error) {
	var cpu, node uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0); errno != 0 {
		return 0, fmt.Errorf("getcpu: %w", errno)
	}
	return int(cpu), nil
}

// count reads records: struct perf_event_header, then for a sample the number of
// addresses and the addresses, the innermost first (perf_event_open(2)).
func count(records []byte, s *symbols) (Stacks, error) {
	const header, contextMark = 8, ^uint64(4095) + 1
	stacks := make(Stacks)
	for len(records) > 0 {
		if len(records) < header {
			return nil, errors.New("half a record among the samples")
		}
		kind, size := binary.NativeEndian.Uint32(records), int(binary.NativeEndian.Uint16(records[6:]))
		if size < header || size > len(records) {
			return nil, fmt.Errorf("a record of %d bytes among the samples", size)
		}
		body := records[header:size]
		records = records[size:]
		switch kind {
		case unix.PERF_RECORD_LOST:
			return nil, errors.New("samples were lost: sample more rarely")
		case unix.PERF_RECORD_SAMPLE:
		default:
			continue
		}
		if len(body) < 8 {
			return nil, errors.New("half a sample")
		}
		n := binary.NativeEndian.Uint64(body)
		if n > uint64(len(body)/8-1) {
			return nil, fmt.Errorf("a sample of %d addresses", n)
		}
		var names []string
		for i := range n {
			address := binary.NativeEndian.Uint64(body[8*(i+1):])
			if address >= contextMark { // PERF_CONTEXT_KERNEL and its like
				continue
			}
			names = append(names, s.name(address, i > 1))
		}
		slices.Reverse(names)
		if len(names) > 0 {
			stacks[join(names)]++
		}
	}
	return stacks, nil
}
