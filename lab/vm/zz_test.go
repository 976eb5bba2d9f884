package vm

import (
	"bytes"
	"os"
	"seg6lab/lab/kernel"
	"testing"
)

func TestZK(t *testing.T) {
	k, err := kernel.Resolve(t.Context(), os.Getenv("ZK"))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(k)
	for range 2 {
		m, err := Boot(t.Context(), Config{Kernel: k, HostFiles: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(m)
		var b bytes.Buffer
		t.Log(m.Run(t.Context(), Cmd{Args: []string{"bash", "-c", os.Getenv("ZC")}, Stdout: &b, Stderr: &b}))
		t.Log(b.String())
		m.Close()
	}
}
