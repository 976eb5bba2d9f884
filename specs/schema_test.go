package specs

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path"
	"testing"

	"seg6lab/lab/topology/schema"
)

var update = flag.Bool("update", false, "write schema.json anew")

func TestSchemaIsCurrent(t *testing.T) {
	got, err := schema.Generate(&File{}, schema.Options{
		Title: "seg6lab case", Base: "seg6lab/specs", Dirs: []string{".", "../lab/topology"}, Variables: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, Schema) {
		t.Error("schema.json is not that of the types: run go generate ./specs")
	}
}

// checker checks the text of a file against the schema.
func checker(t *testing.T) func(src []byte) error {
	t.Helper()
	check, err := schema.Checker(Schema)
	if err != nil {
		t.Fatal(err)
	}
	return check
}

// TestSchemaTakesShipped: an editor finds no fault with a shipped case.
func TestSchemaTakesShipped(t *testing.T) {
	check := checker(t)
	n := 0
	err := fs.WalkDir(shipped, "cases", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(file) != ".yaml" {
			return err
		}
		src, err := shippedFiles.read(file)
		if err != nil || caseName.Find(src) == nil {
			return err
		}
		n++
		if err := check(src); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Error(n, err)
	}
}

// TestSchemaRefuses: what both can see, the schema and the decoder refuse.
func TestSchemaRefuses(t *testing.T) {
	check := checker(t)
	const good = "case: x\ntopology: headend\nsteps:\n  - send: {from: src:eth0, packet: Ether()}\n    expect: [{at: dst:eth0, nothing: true}]\n"
	if err := check([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"unknown key":    {"topology:", "topologie:"},
		"no name":        {"case: x\n", ""},
		"unknown step":   {"- send:", "- sned:"},
		"end":            {"from: src:eth0", "from: src"},
		"clone":          {"packet: Ether()", "packet: Ether(), clone: deep"},
		"text for count": {"packet: Ether()", "packet: Ether(), count: five"},
		"no packet":      {", packet: Ether()", ""},
		"one expect":     {"[{at: dst:eth0, nothing: true}]", "{at: dst:eth0, nothing: true}"},
		"when":           {"nothing: true", "nothing: true, when: broken"},
	} {
		src := bytes.Replace([]byte(good), []byte(change[0]), []byte(change[1]), 1)
		if err := check(src); err == nil {
			t.Errorf("%s: the schema takes it", name)
		}
		if _, err := loadText("f", src, machineFiles); err == nil {
			t.Errorf("%s: the decoder takes it", name)
		}
	}
}
