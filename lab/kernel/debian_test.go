package kernel

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// needBuild skips tests that build kernels, which takes minutes, unless they are
// asked for, as make test-reports does.
func needBuild(t *testing.T) {
	t.Helper()
	if os.Getenv("SEG6LAB_BUILD") == "" {
		t.Skip("builds kernels: set SEG6LAB_BUILD=1, or make test-reports")
	}
}

// Every option of every configuration is one that Debian's 6.12 has and takes.
func TestDebianTakesEveryOption(t *testing.T) {
	needBuild(t)
	k, err := Build(t.Context(), "debian:6.12:source")
	if err != nil {
		t.Fatal(err)
	}
	if k.Release == "" || k.Modules != "" {
		t.Errorf("%+v", k)
	}
	s := debianSource("6.12")
	if s == nil || !s.unpacked() {
		t.Fatal("the kernel was built, but its source is not there")
	}
	for _, options := range [][]string{nil, {"kasan"}, {"lockdep"}, Options()} {
		ctx := WithProgress(context.Background(), func(p Progress) {
			if p.Note {
				t.Errorf("%v: %s", options, p.About)
			}
		})
		r := &Recipe{Series: "6.12", Options: options}
		b := &build{kernel: r.String(), key: r.key(s), src: s.dir, out: filepath.Join(t.TempDir(), "out")}
		if err := os.MkdirAll(b.out, 0o755); err != nil {
			t.Fatal(err)
		}
		if b.lock, err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
		defer b.lock.Close()
		if err := b.configure(ctx, r.config()); err != nil {
			t.Error(err)
		}
	}
}
