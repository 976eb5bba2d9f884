// Package selftests runs the SRv6 scripts of the kernel's selftests beside the
// cases that were made after them, in guests with the same kernel, and compares
// the verdicts. It holds tests only, and nothing of the scripts: they are taken
// from Debian's linux-source-6.12.
package selftests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"seg6lab/lab/kernel"
)

// sourcePackage has the scripts, which belong to its kernel.
const sourcePackage = "linux-source-6.12"

// guestKernel runs both sides.
var guestKernel = os.Getenv("SEG6LAB_SELFTESTS")

// scenarios are the scripts, below tools/testing/selftests, and our cases.
var scenarios = []struct {
	script string
	cases  []string
}{
	{"net/srv6_end_dt4_l3vpn_test.sh", []string{"selftest-end-dt4"}},
	{"net/srv6_end_dt6_l3vpn_test.sh", []string{"selftest-end-dt6"}},
	{"net/srv6_end_dt46_l3vpn_test.sh", []string{"selftest-end-dt46"}},
	{"net/srv6_end_dx4_netfilter_test.sh", []string{"selftest-end-dx4-netfilter"}},
	{"net/srv6_end_dx6_netfilter_test.sh", []string{"selftest-end-dx6-netfilter"}},
	{"net/srv6_end_flavors_test.sh", []string{"selftest-hub", "selftest-end-flavors"}},
	{"net/srv6_end_next_csid_l3vpn_test.sh", []string{"selftest-hub", "selftest-end-next-csid", "selftest-csid-lengths/end"}},
	{"net/srv6_end_x_next_csid_l3vpn_test.sh", []string{"selftest-hub", "selftest-end-x-next-csid", "selftest-csid-lengths/end.x"}},
	{"net/srv6_hencap_red_l3vpn_test.sh", []string{"selftest-hub", "selftest-hencap-red"}},
	{"net/srv6_hl2encap_red_l2vpn_test.sh", []string{"selftest-hub", "selftest-hl2encap-red"}},
	{"net/vrf_strict_mode_test.sh", []string{"selftest-vrf-strict-mode"}},
	{"bpf/test_lwt_seg6local.sh", []string{"selftest-end-bpf"}},
}

// verdict is how one side ended, in the words of kselftest.
type verdict string

const (
	pass verdict = "PASS"
	fail verdict = "FAIL"
	skip verdict = "SKIP"
)

// outcome is a verdict and what it stands on.
type outcome struct {
	verdict  verdict
	ok, bad  int // checks, or cases
	duration time.Duration
	said     string // the reason of what is no pass
}

func (o outcome) String() string {
	return fmt.Sprintf("%s\t%d of %d\t%s", o.verdict, o.ok, o.ok+o.bad, o.duration.Round(time.Second))
}

func TestVerdictsAgree(t *testing.T) {
	if guestKernel == "" {
		t.Skip("takes a quarter of an hour: make test-selftests runs it, with the kernel in SEG6LAB_SELFTESTS")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	program := build(t)
	dir := scripts(t)
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "script\ttheirs\tchecks\ttook\tours\tcases\ttook")
	for _, s := range scenarios {
		t.Run(filepath.Base(s.script), func(t *testing.T) {
			theirs := runScript(t, program, filepath.Join(dir, s.script))
			ours := runCases(t, program, s.cases)
			fmt.Fprintf(w, "%s\t%s\t%s\n", filepath.Base(s.script), theirs, ours)
			if theirs.verdict != ours.verdict {
				t.Errorf("theirs: %s: %s\nours: %s: %s", theirs.verdict, theirs.said, ours.verdict, ours.said)
			}
			if theirs.verdict == skip {
				t.Logf("skipped, theirs: %s\nours: %s", theirs.said, ours.said)
			}
		})
	}
	w.Flush()
	fmt.Printf("\ntools/testing/selftests (%s) beside our cases, kernel %s:\n\n%s\n", sourcePackage, guestKernel, table.String())
}

// build makes the program under test.
func build(t *testing.T) string {
	program := filepath.Join(t.TempDir(), "seg6lab")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "seg6lab/cmd/seg6lab")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build seg6lab: %v\n%s", err, out)
	}
	return program
}

// run executes a command that may fail and tells how it ended.
func run(t *testing.T, args ...string) (stdout, stderr string, exit int) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A script says so for every check. test_lwt_seg6local.sh has one check, and
// says how it ended in its last line.
var (
	checkOK  = regexp.MustCompile(`(?m)\[ OK \]$|\[PASS\]$`)
	checkBad = regexp.MustCompile(`(?m)\[FAIL\]$|\[FAILED\]$`)
)

// kselftest's exit code for a skip.
const exitSkip = 4

func runScript(t *testing.T, program, script string) outcome {
	start := time.Now()
	stdout, stderr, exit := run(t, program, "vm", "--kernel", guestKernel, "--",
		"sh", "-c", `cd "$1" && exec bash "$2"`, "sh", filepath.Dir(script), filepath.Base(script))
	o := outcome{
		verdict:  fail,
		ok:       len(checkOK.FindAllString(stdout, -1)),
		bad:      len(checkBad.FindAllString(stdout, -1)),
		duration: time.Since(start),
	}
	switch exit {
	case 0:
		o.verdict = pass
		if o.ok == 0 || o.bad > 0 {
			t.Errorf("the script ends with 0, yet of its checks %d passed and %d failed:\n%s", o.ok, o.bad, stdout)
		}
		return o
	case exitSkip:
		o.verdict = skip
	}
	o.said = fmt.Sprintf("exit code %d\n%s%s", exit, stdout, stderr)
	return o
}

func runCases(t *testing.T, program string, cases []string) outcome {
	start := time.Now()
	stdout, stderr, exit := run(t, append([]string{program, "run", "--json", "--kernel", guestKernel}, cases...)...)
	o := outcome{verdict: fail, duration: time.Since(start), said: stderr}
	var results []struct{ Case, Verdict, Failure string }
	if err := json.Unmarshal([]byte(stdout), &results); err != nil {
		t.Fatalf("results of %s: %v, exit code %d\n%s%s", strings.Join(cases, " "), err, exit, stdout, stderr)
	}
	unsupported := 0
	for _, r := range results {
		switch r.Verdict {
		case "held":
			o.ok++
			continue
		case "unsupported":
			unsupported++
		}
		o.bad++
		o.said += fmt.Sprintf("%s %s: %s\n", r.Case, r.Verdict, r.Failure)
	}
	switch {
	case exit == 0 && o.ok > 0 && o.bad == 0:
		o.verdict = pass
	case unsupported > 0 && unsupported == o.bad:
		o.verdict = skip
	}
	return o
}

// unpack downloads the source package to a temporary directory, puts the
// scripts and what they need below $1, and compiles the BPF programs of
// test_lwt_seg6local.sh as their Makefile does, for the kernel's headers that the
// machine has.
const unpack = `set -eu
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
chmod 755 "$temporary"
(cd "$temporary" && apt-get -qq -o APT::Sandbox::User=root download "$2")
t="$2/tools/testing/selftests"
dpkg-deb --fsys-tarfile "$temporary"/*.deb | tar -xO "./usr/src/$2.tar.xz" | xz -dc |
	tar -x -C "$temporary" --wildcards "$t/net/srv6_*" "$t/net/lib.sh" "$t/net/vrf_strict_mode_test.sh" \
		"$t/bpf/test_lwt_seg6local.sh" "$t/bpf/progs/test_lwt_seg6local.c" "$t/bpf/progs/bpf_compiler.h"
cd "$temporary/$t/bpf"
clang -O2 -g -target bpf -D__x86_64__ -I/usr/include/x86_64-linux-gnu -c progs/test_lwt_seg6local.c -o test_lwt_seg6local.bpf.o
mv "$temporary/$t" "$1"
`

// scripts returns the directory with the scripts, which it fills the first time.
func scripts(t *testing.T) string {
	cache, err := kernel.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "selftests", sourcePackage)
	unlock, err := kernel.Lock(t.Context(), dir+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if _, stderr, exit := run(t, "bash", "-o", "pipefail", "-c", unpack, "bash", dir, sourcePackage); exit != 0 {
		t.Fatalf("get the scripts from %s: exit code %d\n%s", sourcePackage, exit, stderr)
	}
	return dir
}
