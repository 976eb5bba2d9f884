package specs

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var results = []*Result{
	{Case: "a/x,y", Place: "host", Verdict: Held, Seconds: 0.25},
	{Case: "b", Place: "host", Verdict: Failed, Seconds: 0.5, Failure: "expected <1>\nactual & \x00\xff", Pcapng: "b.pcapng"},
	{Case: "c", Place: "host", Verdict: Unsupported, Failure: "vrf: this kernel lacks VRF devices"},
	{Case: "d", Place: "vm debian:6.12", Verdict: Broken, Failure: "node a: no"},
	{Case: "e", Place: "host", Verdict: Held},
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		results []*Result
		want    string
	}{
		{nil, "0 held, 0 failed"},
		{results[:1], "1 held, 0 failed"},
		{results, "2 held, 1 failed, 1 unsupported here, 1 broken"},
	} {
		if got := Summarize(c.results).String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestReport reads the files as a CI system would.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	if err := WriteReport(dir, results); err != nil {
		t.Fatal(err)
	}

	b, err := os.ReadFile(filepath.Join(dir, "junit.xml"))
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	var suite struct {
		XMLName  xml.Name `xml:"testsuite"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Time     float64  `xml:"time,attr"`
		Cases    []struct {
			Name    string   `xml:"name,attr"`
			Class   string   `xml:"classname,attr"`
			Time    float64  `xml:"time,attr"`
			Failure *outcome `xml:"failure"`
			Error   *outcome `xml:"error"`
			Skipped *outcome `xml:"skipped"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(b, &suite); err != nil {
		t.Fatalf("%v:\n%s", err, b)
	}
	if suite.Tests != 5 || suite.Failures != 1 || suite.Errors != 1 || suite.Skipped != 1 || suite.Time != 0.75 {
		t.Errorf("suite %+v", suite)
	}
	for i, c := range suite.Cases {
		r := results[i]
		if c.Name != r.Case || c.Class != r.Place || c.Time != r.Seconds {
			t.Errorf("case %+v of result %+v", c, r)
		}
		for verdict, o := range map[Verdict]*outcome{Failed: c.Failure, Broken: c.Error, Unsupported: c.Skipped} {
			if (o != nil) != (r.Verdict == verdict) {
				t.Errorf("case %s: outcome %s: %v", c.Name, verdict, o)
			}
		}
	}
	// XML has no NUL and no broken UTF-8.
	if got := suite.Cases[1].Failure.Text; got != "expected <1>\nactual & \ufffd\ufffd" {
		t.Errorf("text of the failure: %q", got)
	}

	b, err = os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var read []Result
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	if len(read) != len(results) || read[1].Pcapng != "b.pcapng" || read[3].Verdict != Broken {
		t.Errorf("results %+v", read)
	}
}

// TestReportNotWritten: a report that is not complete is an error.
func TestReportNotWritten(t *testing.T) {
	if err := WriteReport(filepath.Join(t.TempDir(), "none"), results); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory that is not there: %v", err)
	}
	err := writeFile("/dev/full", func(w io.Writer) error { return WriteJUnit(w, results) })
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("full disk: %v", err)
	}
}
