package port

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// dieAt tells a child process of the tests what to do, and where to end in the midst
// of it, as "bind moved".
const dieAt = "SEG6LAB_TEST_DIE_AT"

// die is the child: it binds, or gives back, and kills itself when that has reached
// a step.
func die(at string) {
	do, where, _ := strings.Cut(at, " ")
	reached = func(step string) {
		if step == where {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	b := bench{}
	var err error
	switch do {
	case "bind":
		if b.node, err = openNamespace(filepath.Join(NetnsDir, "s6.lab.r")); err == nil {
			_, err = Bind(b.binding())
		}
	case "release":
		err = b.release()
	case "list":
		var why string
		if why, err = refusedFor(where); err == nil {
			fmt.Println(why)
			os.Exit(0)
		}
	}
	fmt.Printf("%s did not reach %q: %v\n", do, where, err)
	os.Exit(1)
}

// child runs die and expects it to end by its own hand.
func child(t *testing.T, at string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), dieAt+"="+at)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("%s: %v: %s", at, err, out)
	}
}

// TestKilled: wherever binding or giving back is killed, the port is given back
// afterwards, and the next one can have it.
func TestKilled(t *testing.T) {
	b := newBench(t)
	b.rich()
	was := b.look()
	for _, at := range []string{
		"bind writing", "bind recorded", "bind marked", "bind moved", "bind configured", "bind up",
		"release home", "release restored", "release unmarked",
	} {
		if strings.HasPrefix(at, "release") {
			if _, err := Bind(b.binding()); err != nil {
				t.Fatalf("before %s: %v", at, err)
			}
		}
		child(t, at)
		if err := b.release(); err != nil {
			t.Errorf("after %s: %v", at, err)
		}
		b.same(was)
		if t.Failed() {
			t.Fatalf("the last was %s", at)
		}
	}
	b.nothingLeft()
}
