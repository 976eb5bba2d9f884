package kernel

import (
	"context"
	"sync"
)

// Progress is how far the making of a kernel is.
type Progress struct {
	// Kernel is the name of the kernel that is made.
	Kernel string
	// Phase is what is being done: "fetch", "unpack", "copy", "configure",
	// "compile" and the like.
	Phase string
	// About says more: the file that was compiled last, what a patch needed.
	About string
	// Done and Total count in the phase: files copied, objects compiled. Total is
	// an estimate, 0 when there is none.
	Done, Total int
	// Note marks what the user should read even when the rest is not shown.
	Note bool
}

type progressKey struct{}

// WithProgress returns a context in which Resolve, Get and Build tell f what they
// do. f is called from one goroutine at a time.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	var mu sync.Mutex
	return context.WithValue(ctx, progressKey{}, func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		f(p)
	})
}

// tell hands p to whom the context names.
func tell(ctx context.Context, p Progress) {
	if f, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		f(p)
	}
}
