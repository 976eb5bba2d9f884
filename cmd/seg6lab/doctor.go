package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"seg6lab/lab"
	"seg6lab/lab/feature"
	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
	"seg6lab/specs"
)

// tools are the programs that parts of seg6lab call.
var tools = []struct{ Name, For, Package string }{
	{"ip", "run lines of topologies and cases", "iproute2"},
	{"tc", "run lines of topologies and cases", "iproute2"},
	{"sysctl", "run lines of topologies and cases", "procps"},
	{"qemu-system-x86_64", "guests", "qemu-system-x86"},
	{"tshark", "the tests of capture files", "tshark"},
}

// finding is one line of doctor.
type finding struct {
	Name, About string
	Present     bool
	// Detail says more of what is present.
	Detail string `json:",omitempty"`
	// Remedy is what to do where it is not present.
	Remedy string `json:",omitempty"`
}

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can run and what it lacks",
		Long: `Tries every feature that a case can require in a namespace of its own, looks
for the programs that seg6lab calls, starts a guest with each kernel in the cache,
and says how to get what is missing.`,
		Example: "  seg6lab doctor\n  seg6lab doctor --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return lab.ErrNotRoot
			}
			findings, err := examine()
			findings = append(findings, examineGuests(cmd.Context())...)
			if asJSON {
				return errors.Join(printJSON(cmd, findings), err)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, f := range findings {
				answer := "yes"
				if f.Detail != "" {
					answer = "yes: " + f.Detail
				}
				if !f.Present {
					answer = "no: " + f.Remedy
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, f.About, answer)
			}
			return errors.Join(w.Flush(), err)
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// examine probes features and tools. The error joins the probes that failed.
func examine() ([]finding, error) {
	var findings []finding
	var errs []error
	for _, r := range feature.All() {
		f := finding{Name: r.Name, About: r.About, Present: r.Err == nil}
		var missing *feature.Missing
		switch {
		case errors.As(r.Err, &missing):
			f.Remedy = missing.Remedy()
		case r.Err != nil:
			f.Remedy = r.Err.Error()
			errs = append(errs, r.Err)
		}
		findings = append(findings, f)
	}
	for _, t := range tools {
		_, err := exec.LookPath(t.Name)
		f := finding{Name: t.Name, About: t.For, Present: err == nil}
		if err != nil {
			f.Remedy = "apt-get install " + t.Package
		}
		findings = append(findings, f)
	}
	f := finding{Name: "kernel build", About: "kernels from source, with patches", Present: true}
	if err := kernel.CanBuild(); err != nil {
		f.Present, f.Remedy = false, err.Error()
	}
	return append(findings, f), errors.Join(errs...)
}

// examineGuests starts a guest with each kernel in the cache and says how it is
// executed and how long it takes.
func examineGuests(ctx context.Context) []finding {
	accel, certain, err := vm.KnownAccel()
	if err != nil {
		return []finding{{Name: "guest", About: "guests with other kernels", Remedy: err.Error()}}
	}
	detail := "executed by " + string(accel)
	if !certain {
		detail += ", if a guest comes up with it"
	}
	findings := []finding{{Name: "guest", About: "guests with other kernels", Present: true, Detail: detail}}
	entries, err := kernel.List()
	if err != nil {
		return append(findings, finding{Name: "kernels", About: "kernels in the cache", Remedy: err.Error()})
	}
	if len(entries) == 0 {
		return append(findings, finding{Name: "kernels", About: "kernels in the cache", Remedy: "seg6lab kernel get " + specs.DefaultKernel})
	}
	for _, e := range entries {
		fmt.Fprintf(os.Stderr, "starting a guest with %s\n", e.Spec)
		f := finding{Name: e.Spec, About: "guest with Linux " + e.Release}
		if f.Detail, err = bootOnce(ctx, &e.Kernel); err != nil {
			f.Remedy = err.Error()
		}
		f.Present = err == nil
		findings = append(findings, f)
	}
	return findings
}

func bootOnce(ctx context.Context, k *kernel.Kernel) (string, error) {
	m, err := vm.Boot(ctx, vm.Config{Kernel: k})
	if err != nil {
		return "", err
	}
	detail := fmt.Sprintf("booted in %s", m.BootTime.Round(10*time.Millisecond))
	if m.Restored {
		detail += fmt.Sprintf(", restored in %s", m.ReadyAfter.Round(10*time.Millisecond))
	}
	return detail, m.Close()
}
