package vm

import (
	"errors"
	"testing"
)

func TestCheckCPU(t *testing.T) {
	if _, err := findQEMU(); err != nil {
		t.Skip(err)
	}
	for model, want := range map[string]error{
		DefaultCPU: nil, "Haswell-v4,-erms": nil, "max": nil,
		"Haswel-v4": ErrNoCPU, "x86": ErrNoCPU, "": ErrNoCPU, "-erms": ErrNoCPU,
	} {
		if err := CheckCPU(t.Context(), model); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", model, err, want)
		}
	}
}
