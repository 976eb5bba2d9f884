package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"seg6lab/lab"
	"seg6lab/lab/feature"
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
	// Remedy is what to do where it is not present.
	Remedy string `json:",omitempty"`
}

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can run and what it lacks",
		Long: `Tries every feature that a case can require in a namespace of its own, looks
for the programs that seg6lab calls, and says how to get what is missing.`,
		Example: "  seg6lab doctor\n  seg6lab doctor --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return lab.ErrNotRoot
			}
			findings, err := examine()
			if asJSON {
				return errors.Join(printJSON(cmd, findings), err)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, f := range findings {
				answer := "yes"
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
	return findings, errors.Join(errs...)
}
