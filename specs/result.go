package specs

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Verdict is how a case ended.
type Verdict string

// Verdicts.
const (
	Held        Verdict = "held"        // every expectation was met
	Failed      Verdict = "failed"      // an expectation was not met
	Unsupported Verdict = "unsupported" // the kernel or machine lacks what the case requires
	Broken      Verdict = "broken"      // the lab itself failed
)

// Result is what came of a case.
type Result struct {
	Case    string
	File    string
	Verdict Verdict
	// Place is "host", or "vm" with the kernel.
	Place string
	// Why the place was chosen, where there was a choice.
	Why string `json:",omitempty"`
	// Failure says what was not met or not there, and why.
	Failure string `json:",omitempty"`
	// Pcapng is the path of the captured frames, empty where none were kept.
	Pcapng string `json:",omitempty"`
	// Seconds that the case took.
	Seconds float64
	// Kernel is the release that the case ran on (uname -r).
	Kernel string `json:",omitempty"`
	// Fix is what that kernel has of the case's fix, where it names one.
	Fix FixState `json:",omitempty"`
	// Unobserved says why no sk_buff was observed although Options.Observe
	// asked for it.
	Unobserved string `json:",omitempty"`
	// Cost is what packets cost, where the case has it counted.
	Cost *CostResult `json:",omitempty"`
	// Steps tell what was sent and what arrived, as packet expressions.
	Steps []StepResult `json:",omitempty"`
}

// StepResult is what came of a step.
type StepResult struct {
	// Variant of the network in which it was done, of a case with costs.
	Variant string `json:",omitempty"`
	About   string `json:",omitempty"`
	// Did is the command or what was sent.
	Did string
	// Shape is how the frames were to reach the node, where the step says so:
	// ", headroom 206, header-cloned".
	Shape string `json:",omitempty"`
	// Arrived are the packets that met the expectations.
	Arrived []string `json:",omitempty"`
	// Measured is what was seen of the step's sk_buffs, a node each, where they
	// were observed.
	Measured []Measured `json:",omitempty"`
	// Frames are those that arrived where something was expected, without what
	// hosts and routers send on their own, where Options.Observe asks for them.
	Frames []ArrivedFrame `json:",omitempty"`
}

// Summary counts results.
type Summary struct {
	Held, Failed, Unsupported, Broken int
}

// Summarize counts results by verdict.
func Summarize(results []*Result) Summary {
	var s Summary
	for _, r := range results {
		switch r.Verdict {
		case Held:
			s.Held++
		case Failed:
			s.Failed++
		case Unsupported:
			s.Unsupported++
		case Broken:
			s.Broken++
		}
	}
	return s
}

func (s Summary) String() string {
	text := fmt.Sprintf("%d held, %d failed", s.Held, s.Failed)
	if s.Unsupported > 0 {
		text += fmt.Sprintf(", %d unsupported here", s.Unsupported)
	}
	if s.Broken > 0 {
		text += fmt.Sprintf(", %d broken", s.Broken)
	}
	return text
}

// JUnit, as CI systems read it.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the results in JUnit's format.
func WriteJUnit(w io.Writer, results []*Result) error {
	s := Summarize(results)
	suite := junitSuite{Name: "seg6lab", Tests: len(results), Failures: s.Failed, Errors: s.Broken, Skipped: s.Unsupported}
	var total float64
	for _, r := range results {
		c := junitCase{Name: r.Case, Class: r.Place, Time: fmt.Sprintf("%.3f", r.Seconds)}
		message := &junitMessage{Message: string(r.Verdict), Text: r.Failure}
		switch r.Verdict {
		case Failed:
			c.Failure = message
		case Broken:
			c.Error = message
		case Unsupported:
			c.Skipped = message
		}
		suite.Cases = append(suite.Cases, c)
		total += r.Seconds
	}
	suite.Time = fmt.Sprintf("%.3f", total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// WriteReport puts junit.xml and results.json into a directory, and what was
// sampled of cases with costs.
func WriteReport(dir string, results []*Result) error {
	for _, r := range results {
		if r.Cost != nil {
			if err := r.Cost.WriteProfiles(dir, r.Case+" "+strings.TrimPrefix(r.Place, "vm ")); err != nil {
				return err
			}
		}
	}
	err := writeFile(filepath.Join(dir, "junit.xml"), func(w io.Writer) error { return WriteJUnit(w, results) })
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "results.json"), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(results)
	})
}

// writeFile creates a file and reports every error up to the last, so that a
// full disk is not taken for success.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		var named *os.PathError // which names the file itself
		if errors.As(err, &named) {
			return err
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}

func seconds(since time.Time) float64 { return time.Since(since).Seconds() }
