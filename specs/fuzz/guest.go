package fuzz

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
)

// GuestCommand is the subcommand of this program that a guest executes.
const GuestCommand = "fuzz-in-guest"

// line is what a guest says.
type line struct {
	Found  *Difference `json:",omitempty"`
	Report *Report     `json:",omitempty"`
}

// GuestMain is the guest's side: it reads Options and writes what Run tells, a
// line of JSON each time.
func GuestMain(ctx context.Context, r io.Reader, w io.Writer) error {
	var o Options
	if err := json.NewDecoder(r).Decode(&o); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	out := json.NewEncoder(w)
	_, err := Run(ctx, o,
		func(d *Difference) error { return out.Encode(line{Found: d}) },
		func(r Report) { out.Encode(line{Report: &r}) })
	return err
}

// RunInGuest is Run on the kernel of a guest. log, if set, is told about it.
func RunInGuest(ctx context.Context, k *kernel.Kernel, o Options, found func(*Difference) error, progress func(Report), log func(string)) (*Report, error) {
	m, err := vm.Boot(ctx, vm.Config{Kernel: k})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	log(m.String())
	self, err := m.PushSelf(ctx)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	report := &Report{}
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := listen(r, func(l line) error {
			if l.Report != nil {
				report = l.Report
				progress(*report)
			}
			if l.Found != nil {
				return found(l.Found)
			}
			return nil
		})
		r.CloseWithError(err)
		read <- err
	}()
	var stderr bytes.Buffer
	exit, err := m.Run(ctx, vm.Cmd{Args: []string{self, GuestCommand}, Stdin: bytes.NewReader(request), Stdout: w, Stderr: &stderr})
	w.Close()
	if rerr := <-read; err == nil {
		err = rerr
	}
	switch {
	case context.Cause(ctx) != nil:
		return report, context.Cause(ctx)
	case err == nil && exit != 0:
		err = fmt.Errorf("guest: exit code %d: %s", exit, bytes.TrimSpace(stderr.Bytes()))
	}
	return report, err
}

// listen hands on what a guest says, line by line.
func listen(r io.Reader, f func(line) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("result of the guest: %w", err)
		}
		if err := f(l); err != nil {
			return err
		}
	}
	return lines.Err()
}
