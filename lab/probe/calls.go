package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// MaxCalls is how many calls are kept between two readings; of more, the last.
const MaxCalls = 4096

// Calls times each call of a function of the kernel, from behind its entry to
// its return: what it calls and what interrupts it included. It is for a machine of one
// CPU and for a function that does not call itself.
type Calls struct {
	function  string
	state     *ebpf.Map // two words: when the call began, and how many have ended
	durations *ebpf.Map
	closers   []interface{ Close() error }
}

// Places in the state.
const (
	began = 0
	ended = 8
)

// TimeCalls begins to. The error wraps ErrUnsupported where the kernel has no such
// function, or cannot have programs at its entry and return.
func TimeCalls(function string) (*Calls, error) {
	c := &Calls{function: function}
	if err := c.attach(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: calls of %s cannot be timed: %w", ErrUnsupported, function, err), c.Close())
	}
	return c, nil
}

func (c *Calls) attach() (err error) {
	if c.state, err = c.newMap(16, 1); err != nil {
		return err
	}
	if c.durations, err = c.newMap(8, MaxCalls); err != nil {
		return err
	}
	for _, p := range []struct {
		at   ebpf.AttachType
		code asm.Instructions
	}{
		// The return first, so that no call is timed from an entry long ago.
		{ebpf.AttachTraceFExit, asm.Instructions{
			asm.FnKtimeGetNs.Call(),
			asm.LoadMapValue(asm.R6, c.state.FD(), 0),
			asm.LoadMem(asm.R1, asm.R6, began, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, "out"),
			asm.Sub.Reg(asm.R0, asm.R1),
			asm.StoreMem(asm.R10, -8, asm.R0, asm.DWord),
			asm.LoadMem(asm.R1, asm.R6, ended, asm.DWord),
			asm.Mov.Reg(asm.R2, asm.R1),
			asm.Add.Imm(asm.R2, 1),
			asm.StoreMem(asm.R6, ended, asm.R2, asm.DWord),
			asm.And.Imm(asm.R1, MaxCalls-1),
			asm.StoreMem(asm.R10, -12, asm.R1, asm.Word),
			asm.LoadMapPtr(asm.R1, c.durations.FD()),
			asm.Mov.Reg(asm.R2, asm.R10),
			asm.Add.Imm(asm.R2, -12),
			asm.Mov.Reg(asm.R3, asm.R10),
			asm.Add.Imm(asm.R3, -8),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnMapUpdateElem.Call(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
			asm.Return(),
		}},
		{ebpf.AttachTraceFEntry, asm.Instructions{
			asm.LoadMapValue(asm.R6, c.state.FD(), 0),
			asm.FnKtimeGetNs.Call(),
			asm.StoreMem(asm.R6, began, asm.R0, asm.DWord),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		}},
	} {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.Tracing, AttachType: p.at, AttachTo: c.function, License: "Dual BSD/GPL", Instructions: p.code,
		})
		if err != nil {
			return err
		}
		c.closers = append(c.closers, program)
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return err
		}
		c.closers = append(c.closers, l)
	}
	return nil
}

func (c *Calls) newMap(size, entries uint32) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: size, MaxEntries: entries})
	if err == nil {
		c.closers = append(c.closers, m)
	}
	return m, err
}

// Take returns how many nanoseconds each call took since the last reading, and
// forgets them. Nothing may call the function meanwhile.
func (c *Calls) Take() ([]uint64, error) {
	var state [2]uint64
	if err := c.state.Lookup(uint32(0), &state); err != nil {
		return nil, fmt.Errorf("time %s: %w", c.function, err)
	}
	durations := make([]uint64, min(state[1], MaxCalls))
	for i := range durations {
		if err := c.durations.Lookup(uint32(i), &durations[i]); err != nil {
			return nil, fmt.Errorf("time %s: %w", c.function, err)
		}
	}
	if err := c.state.Put(uint32(0), [2]uint64{}); err != nil {
		return nil, fmt.Errorf("time %s: %w", c.function, err)
	}
	return durations, nil
}

// Close ends it.
func (c *Calls) Close() error {
	var errs []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		errs = append(errs, c.closers[i].Close())
	}
	return errors.Join(errs...)
}
