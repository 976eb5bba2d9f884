package specs

import (
	"strings"
	"testing"

	"seg6lab/lab/probe"
)

// The text of every shipped case, with kernels of long names, fits into a mail.
func TestWriteMail(t *testing.T) {
	cases, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		r := &Result{Case: c.Name, Verdict: Held, Fix: Unfixed}
		for _, s := range c.steps {
			r.Steps = append(r.Steps, StepResult{Shape: s.Send.describe(), Measured: []Measured{{
				Node: "r", Packets: max(len(s.frames), 1), Reallocations: map[probe.Attribution]Reallocations{probe.CowLinkLayer: {2_000_000, 300_000_000, 1 << 30}},
			}}})
		}
		failed := *r
		failed.Verdict, failed.Failure = Failed, strings.Repeat(c.steps[0].About+" ", 3)+c.File.Steps[0].At.Pos().String()
		comparison := &Comparison{
			Cases:   []string{c.Name},
			Kernels: []ComparedKernel{{Spec: "debian:6.12:source", Release: "6.12.117", Built: "built from linux-source-6.12 6.12.117-1~deb12u1"}, {Spec: "/home/somebody/src/linux/net-next+l2-cow-maclen-only+kasan+lockdep"}},
			Machine: Machine{CPU: "Intel(R) Xeon(R) CPU E5-2650 v3 @ 2.30GHz", CPUs: 2, Kernel: "6.18.44", QEMU: "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", Accel: "TCG"},
			Rows:    []ComparedRow{{Case: c.Name, About: c.File.About, Reported: c.File.Reported, Args: "init_on_alloc=0", Results: []*Result{r, &failed}}},
		}
		var b strings.Builder
		if err := comparison.WriteMail(&b); err != nil {
			t.Fatal(err)
		}
		fitsMail(t, b.String())
	}
}

func TestMailTells(t *testing.T) {
	c := comparison()
	c.Cases = []string{"l2", "it's"}
	c.Machine = Machine{CPU: "a CPU", CPUs: 2, Kernel: "6.18", QEMU: "QEMU 7.2", Accel: "TCG"}
	c.Rows[0].About = "the head is reallocated"
	c.Rows[0].Reported = &Reported{List: "netdev", Subject: "slow", Date: "2026-09", Fixed: "7.4"}
	var b strings.Builder
	if err := c.WriteMail(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"What was run\n\n  l2: the head is reallocated\n    Reported: \"slow\", netdev, 2026-09; fixed in 7.4\n",
		"\nOn what\n\nA  debian:6.12: Linux",
		"Machine: a CPU, 2 CPUs, Linux 6.18; guests: QEMU 7.2, TCG\n",
		"  reallocations                           2         1  0.50         1  0.50\n",
		"How to repeat\n\n  seg6lab report l2 'it'\\''s' \\\n      --kernel debian:6.12 \\\n      --kernel debian:6.12+l2-cow \\\n",
		"      --kernel-arg init_on_alloc=1\n",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, b.String())
		}
	}
	fitsMail(t, b.String())
}
