package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"seg6lab/lab/kernel"
)

// withProgress shows on stderr how the making of kernels goes: on a terminal in
// one line that is rewritten, elsewhere in a line for each phase and each tenth.
func withProgress(ctx context.Context) context.Context {
	p := &progress{w: os.Stderr}
	if fd := int(os.Stderr.Fd()); term.IsTerminal(fd) {
		p.width, _, _ = term.GetSize(fd)
	}
	return kernel.WithProgress(ctx, p.show)
}

type progress struct {
	w     io.Writer
	width int // of the terminal, 0 where there is none
	last  kernel.Progress
}

func (p *progress) show(k kernel.Progress) {
	line := k.Kernel + ": " + k.Phase
	switch {
	case k.Total > 0:
		line += fmt.Sprintf(" %d/%d", k.Done, k.Total)
	case k.Done > 0:
		line += fmt.Sprintf(" %d", k.Done)
	}
	if k.About != "" {
		line += " " + k.About
	}
	switch {
	case k.Note:
		p.clear()
		fmt.Fprintf(p.w, "seg6lab: %s: %s\n", k.Kernel, k.About)
	case p.width > 0:
		p.clear()
		if k.Phase != "" {
			fmt.Fprint(p.w, line[:min(len(line), p.width-1)])
		}
	case k.Phase != "" && (k.Phase != p.last.Phase || k.Kernel != p.last.Kernel || tenth(k) > tenth(p.last)):
		fmt.Fprintf(p.w, "seg6lab: %s\n", line)
	}
	p.last = k
}

// tenth is how much of the phase is done, 0 where that is not known.
func tenth(k kernel.Progress) int {
	if k.Total == 0 {
		return 0
	}
	return 10 * k.Done / k.Total
}

// clear takes the rewritten line away.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprint(p.w, "\r"+strings.Repeat(" ", p.width-1)+"\r")
	}
}
