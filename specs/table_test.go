package specs

import (
	"strings"
	"testing"
	"unicode/utf8"

	"seg6lab/lab/probe"
)

// comparison is of one case on four kernels: as it is, with one reallocation
// less, the same with another frame, and one on which the case cannot run.
func comparison() *Comparison {
	step := func(direct, cow int, frames ...ArrivedFrame) StepResult {
		m := Measured{Node: "r", Packets: 4, Reallocations: map[probe.Attribution]Reallocations{probe.CowHeader: {cow, 100 * cow, 1024 * cow}}}
		if direct > 0 {
			m.Reallocations[probe.DirectL2] = Reallocations{direct, 50 * direct, probe.Unknown}
		}
		return StepResult{Shape: ", headroom veth", Measured: []Measured{m}, Frames: frames}
	}
	frame := ArrivedFrame{"dst:eth0", "0200000000010200000000028847", 4}
	other := ArrivedFrame{"dst:eth0", "0200000000010200000000028848", 4}
	c := &Comparison{Rows: []ComparedRow{{Case: "l2", Args: "init_on_alloc=1", Results: []*Result{
		{Verdict: Held, Fix: Unfixed, Steps: []StepResult{step(4, 4, frame), step(4, 4, frame), step(0, 3)}},
		{Verdict: Held, Fix: Fixed, Steps: []StepResult{step(0, 4, frame), step(0, 4, frame), step(0, 3)}},
		{Verdict: Failed, Failure: "step 1: " + strings.Repeat("no such thing ", 9), Fix: Fixed, Steps: []StepResult{step(0, 4, other)}},
		{Verdict: Unsupported, Failure: "no VRF"},
	}}}}
	for _, name := range []string{"debian:6.12", "debian:6.12+l2-cow", "/home/user/a/long/path/to/a/tree/of/linux:source", "debian:4.19"} {
		c.Kernels = append(c.Kernels, ComparedKernel{Spec: name, Release: "6.12.117+deb12-cloud-amd64"})
	}
	return c
}

func TestWriteTable(t *testing.T) {
	const want = `A  debian:6.12: Linux 6.12.117+deb12-cloud-amd64
B  debian:6.12+l2-cow: Linux 6.12.117+deb12-cloud-amd64
C  /home/user/a/long/path/to/a/tree/of/linux:source: Linux
   6.12.117+deb12-cloud-amd64
D  debian:4.19: Linux 6.12.117+deb12-cloud-amd64

l2 [init_on_alloc=1]
                                          A         B               C
verdict                                held      held          failed
fix                                 unfixed     fixed           fixed
step 1, 4 packets at r, headroom veth
  reallocations                           2         1  0.50         1  0.50
    direct-l2                             1         0               0
    cow-header                            1         1               1
  bytes copied                          150       100  0.67       100  0.67
  bytes zeroed                       unseen      1024            1024
step 2, 4 packets at r, headroom veth
  reallocations                           2         1  0.50         -
    direct-l2                             1         0               -
    cow-header                            1         1               -
  bytes copied                          150       100  0.67         -
  bytes zeroed                       unseen      1024               -
step 3, 4 packets at r, headroom veth
  reallocations                        0.75      0.75  1.00         -
    cow-header                         0.75      0.75               -
  bytes copied                           75        75  1.00         -
  bytes zeroed                          768       768  1.00         -
frames at dst:eth0, step 1                       same          differ
                                          A         D
verdict                                held  not here
`
	c := comparison()
	var b strings.Builder
	if err := c.WriteTable(&b, false); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), want) {
		t.Errorf("table:\n%s\nexpected it to begin with:\n%s", b.String(), want)
	}
	for _, part := range []string{
		"step 1, at dst:eth0, A (expected) and C (actual):\n", "type: expected 0x8847, actual 0x8848",
		"C, failed:\n  step 1: no such thing", "D, unsupported:\n  no VRF\n",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, b.String())
		}
	}
	fitsMail(t, b.String())
}

// fitsMail checks that no line is too long for a mail.
func fitsMail(t *testing.T, text string) {
	t.Helper()
	for l := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > 75 {
			t.Errorf("%d columns: %s", n, l)
		}
	}
}

func TestReadComparison(t *testing.T) {
	var b, again strings.Builder
	c := comparison()
	if err := c.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	read, err := ReadComparison(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := read.WriteJSON(&again); err != nil || again.String() != b.String() {
		t.Errorf("read and written again: %v\n%s", err, again.String())
	}
	for _, bad := range []string{"", "{}", `{"Kernels":[{"Spec":"a"}],"Rows":[{"Case":"x","Results":[null]}]}`} {
		if _, err := ReadComparison(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken for a comparison", bad)
		}
	}
}
