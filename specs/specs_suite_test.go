package specs_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"seg6lab/lab"
	"seg6lab/specs"
)

// mayLack bounds what is skipped: CI says what its machine is known to lack, and
// a case that lacks anything else fails.
var mayLack = flag.String("may-lack", "any", "`features` that this machine may lack, separated by commas; cases that lack another fail instead of being skipped")

// TestSpecs runs every shipped case and the specs in Go as one Ginkgo suite:
//
//	go run github.com/onsi/ginkgo/v2/ginkgo -p ./specs
//	go run github.com/onsi/ginkgo/v2/ginkgo --label-filter 'headend && !slow' --junit-report junit.xml ./specs
//	go test ./specs -run TestSpecs -args -may-lack=vrf,vlan
func TestSpecs(t *testing.T) {
	cases, err := specs.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	Describe("cases", func() {
		for _, c := range cases {
			It(c.Name, labels(c), SpecTimeout(time.Minute), func(ctx SpecContext) { runCase(ctx, c) })
		}
	})
	RegisterFailHandler(Fail)
	RunSpecs(t, "seg6lab")
}

// labels are those of the case, its requirements, and its speed.
func labels(c *specs.Case) Labels {
	all := slices.Concat(c.Labels(), c.Requirements())
	if !slices.Contains(all, "slow") {
		all = append(all, "fast")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func runCase(ctx SpecContext, c *specs.Case) {
	if label := specs.Apart(c); label != "" {
		Skip("make test-reports runs the cases with the label " + label)
	}
	r := specs.Run(ctx, c, specs.Options{})
	for _, s := range r.Steps {
		GinkgoWriter.Println(s.About)
		GinkgoWriter.Println(s.Did)
		for _, a := range s.Arrived {
			GinkgoWriter.Println("->", a)
		}
	}
	switch r.Verdict {
	case specs.Held:
	case specs.Unsupported:
		needRootSpec()
		for _, feature := range specs.Lacking(c) {
			if *mayLack != "any" && !slices.Contains(strings.Split(*mayLack, ","), feature) {
				Fail("this machine lacks " + feature + ", and is not known to: " + r.Failure)
			}
		}
		Skip(r.Failure)
	default:
		Fail(string(r.Verdict) + ": " + r.Failure)
	}
}

func needRootSpec() {
	GinkgoHelper()
	if os.Geteuid() != 0 {
		Skip("needs root")
	}
}

// Every lab of this process is gone when its specs have run.
var _ = AfterSuite(func() {
	found, err := lab.Find()
	Expect(err).NotTo(HaveOccurred())
	for _, f := range found {
		Expect(f.Owner).NotTo(Equal(os.Getpid()), "lab %s is left", f.Name)
	}
})
