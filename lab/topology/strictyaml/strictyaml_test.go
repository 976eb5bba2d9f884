package strictyaml_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"seg6lab/lab/topology/strictyaml"
)

type item struct {
	strictyaml.At `yaml:"-"`

	Word   string            `yaml:"word" jsonschema:"enum=red,enum=green"`
	Count  uint8             `yaml:"count,omitempty" jsonschema:"minimum=2"`
	Rate   float64           `yaml:"rate,omitempty" jsonschema:"maximum=100"`
	Flag   *bool             `yaml:"flag,omitempty"`
	Pair   [2]string         `yaml:"pair,omitempty"`
	Names  []string          `yaml:"names,omitempty"`
	Texts  map[string]string `yaml:"texts,omitempty"`
	Signed int16             `yaml:"signed,omitempty"`
}

type short struct {
	List []string `yaml:"list" short:"list"`
	Name string   `yaml:"name,omitempty" short:"scalar"`
}

type file struct {
	strictyaml.At `yaml:"-"`

	Items  []*item          `yaml:"items,omitempty"`
	ByName map[string]*item `yaml:"by-name,omitempty"`
	Short  *short           `yaml:"short,omitempty"`
	Raw    *yaml.Node       `yaml:"raw,omitempty"`
	Lists  map[string][]int `yaml:"lists,omitempty"`
}

func decode(src string) (*file, error) {
	doc, err := strictyaml.Parse("f", []byte(src))
	if err != nil {
		return nil, err
	}
	f := new(file)
	return f, doc.Decode(f)
}

// TestErrors: what is wrong, where, and what was expected.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"unknown key", "itms: []\n", `f:1:1: unknown key "itms"; did you mean "items"?`},
		{"unknown key, none near", "zzzzzzzz: []\n", `f:1:1: unknown key "zzzzzzzz"; expected items, by-name, short, raw or lists`},
		{"duplicate key", "raw: 1\nitems: []\nraw: 2\n", `f:3:1: the key "raw" stands here twice, first on line 1`},
		{"missing key", "items:\n  - {count: 3}\n", `f:2:5: items[0]: the key "word" is missing`},
		{"missing key in nothing", "by-name:\n  x:\n", `f:2:5: by-name.x: the key "word" is missing`},
		{"list for mapping", "by-name: [1]\n", `f:1:10: by-name: expected a mapping, got a list`},
		{"mapping for list", "items: {}\n", `f:1:8: items: expected a list, got a mapping`},
		{"one for list", "items: [{word: red, names: x}]\n", `f:1:28: items[0].names: expected a list, got the text "x"; did you mean [x]?`},
		{"nothing for list", "items:\n", `f:1:7: items: expected a list, got nothing`},
		{"text for number", "items: [{word: red, count: many}]\n", `f:1:28: items[0].count: expected a whole number from 2 to 255, got the text "many"`},
		{"quoted number", "items: [{word: red, count: '5'}]\n", `f:1:28: items[0].count: expected a whole number from 2 to 255, got the text "5"`},
		{"octal number", "items: [{word: red, count: 010}]\n", `f:1:28: items[0].count: expected a whole number from 2 to 255, got 010`},
		{"fraction", "items: [{word: red, count: 2.5}]\n", `f:1:28: items[0].count: expected a whole number from 2 to 255, got 2.5`},
		{"below minimum", "items: [{word: red, count: 1}]\n", `f:1:28: items[0].count: 1 is out of range: expected a whole number from 2 to 255`},
		{"above the type", "items: [{word: red, count: 256}]\n", `f:1:28: items[0].count: 256 is out of range: expected a whole number from 2 to 255`},
		{"above all types", "items: [{word: red, count: 99999999999999999999}]\n", `f:1:28: items[0].count: 99999999999999999999 is out of range: expected a whole number from 2 to 255`},
		{"negative", "items: [{word: red, signed: -32769}]\n", `f:1:29: items[0].signed: -32769 is out of range: expected a whole number from -32768 to 32767`},
		{"rate", "items: [{word: red, rate: 100.5}]\n", `f:1:27: items[0].rate: 100.5 is out of range: expected a number of at most 100`},
		{"not a number", "items: [{word: red, rate: .nan}]\n", `f:1:27: items[0].rate: expected a number of at most 100, got .nan`},
		{"bool", "items: [{word: red, flag: maybe}]\n", `f:1:27: items[0].flag: expected true or false, got the text "maybe"`},
		{"enum", "items: [{word: gren}]\n", `f:1:16: items[0].word: "gren" is not known: expected red or green; did you mean "green"?`},
		{"array too short", "items: [{word: red, pair: [a]}]\n", `f:1:27: items[0].pair: expected a list of 2, got one of 1`},
		{"mapping as key", "{[a]: b}\n", `f:1:2: expected a word as key, got a list`},
		{"merge key", "by-name:\n  a: &a {word: red}\n  b: {<<: *a}\n", `f:3:7: by-name.b: unknown key "<<"; expected word, count, rate, flag, pair, names, texts or signed` + "\n" + `f:3:6: by-name.b: the key "word" is missing`},
		{"wrong short form", "short: {list: [a], name: [b]}\n", `f:1:26: short.name: expected text, got a list`},
		{"short form lacks a key", "short: word\n", `f:1:8: short: the key "list" is missing`},
		{"list in a list", "lists: {a: [1, [2]]}\n", `f:1:16: lists.a[1]: expected a whole number from -9223372036854775808 to 9223372036854775807, got a list`},

		{"empty", "", `f:1:1: is empty: expected a YAML mapping`},
		{"only a comment", "# nothing\n", `f:1:1: is empty: expected a YAML mapping`},
		{"scalar", "word\n", `f:1:1: expected a mapping with the keys items, by-name, short, raw, lists, got the text "word"`},
		{"binary", "raw: x\n\x7fELF\x02\x00", `f:2:5: is not a text file: byte 0x02; expected YAML in UTF-8`},
		{"not UTF-8", "raw: \xff\n", `f:1:6: is not a text file: byte 0xff; expected YAML in UTF-8`},
		{"two documents", "raw: 1\n---\nraw: 2\n", `f:2:1: a second document begins here: expected one document a file`},
		{"tab", "items:\n\t- x\n", `f:2:1: YAML: found character that cannot start any token; indent with spaces, not with a tab`},
		{"colon first", "raw: [a, ::1]\n", `f:1:1: YAML: did not find expected node content; put an address that begins with a colon into quotes`},
		{"not closed", "raw: 1\nitems: [a\nlists: 1\n", `f:2:1: YAML: did not find expected ',' or ']'`},
		{"unknown anchor", "raw:\n  - *there\n", `f:2:5: YAML: no anchor &there stands before the alias *there`},
		{"cyclic anchor", "raw: &a [1, *a]\n", `f:1:13: alias *a stands inside its own anchor`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decode(c.src)
			got := "no error"
			if err != nil {
				got = err.Error()
			}
			if sortLines(got) != sortLines(c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			var errs strictyaml.Errors
			if !errors.As(err, &errs) {
				t.Errorf("the error is of type %T", err)
			}
		})
	}
}

func sortLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		for j := range i {
			if lines[i] < lines[j] {
				lines[i], lines[j] = lines[j], lines[i]
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestValues(t *testing.T) {
	f, err := decode(`
items:
  - &first {word: red, count: 0x10, rate: 2.5, flag: off, pair: [a, b], texts: {a: 1, b: "2", c: true, d: -3}, signed: -32768}
  - *first
by-name: {x: {word: green, names: []}}
short: [p, q]
raw: {anything: [1, 2]}
lists: {a: [1, -2]}
`)
	if err != nil {
		t.Fatal(err)
	}
	it := f.Items[0]
	if it.Word != "red" || it.Count != 16 || it.Rate != 2.5 || *it.Flag || it.Pair != [2]string{"a", "b"} || it.Signed != -32768 {
		t.Errorf("first item %+v", it)
	}
	for k, want := range map[string]string{"a": "1", "b": "2", "c": "true", "d": "-3"} {
		if it.Texts[k] != want {
			t.Errorf("text %s = %q, want %q", k, it.Texts[k], want)
		}
	}
	if f.Items[1] == f.Items[0] || f.Items[1].Count != 16 {
		t.Error("an alias must give a copy of its own")
	}
	if len(f.Short.List) != 2 || f.Short.List[1] != "q" {
		t.Errorf("short form %v", f.Short)
	}
	if f.Raw.Kind != yaml.MappingNode || f.Lists["a"][1] != -2 {
		t.Errorf("raw %v, lists %v", f.Raw.Kind, f.Lists)
	}
	// The anchor belongs to the struct; what is not there is at the nearest
	// value around it.
	for path, want := range map[string]string{
		"pair[1]": "f:3:69", "texts.b": "f:3:90", "texts.none": "f:3:80", "none": "f:3:5", "": "f:3:5",
	} {
		if got := it.ValueAt(path).String(); got != want {
			t.Errorf("%q at %s, want %s", path, got, want)
		}
	}
	if got := f.KeyAt("raw").String(); got != "f:7:1" {
		t.Errorf("key raw at %s, want f:7:1", got)
	}
}

// TestHostile: a file that is made to cost is refused, and at once.
func TestHostile(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		a := "*a" + strconv.Itoa(i)
		bomb += "a" + strconv.Itoa(i+1) + ": &a" + strconv.Itoa(i+1) + " [" + strings.Join([]string{a, a, a, a, a, a, a, a, a, a}, ", ") + "]\n"
	}
	const large = strictyaml.MaxSize
	for _, c := range []struct{ name, src, want string }{
		{"aliases", bomb, "once its aliases are expanded"},
		{"too large", strings.Repeat("#\n", large/2+1), "f: is larger than 1024 KiB, the most that is read"},
		{"deep flow", "raw: " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "is nested more than 64 deep"},
		{"open brackets", strings.Repeat("[", large), "YAML: exceeded max depth"},
		{"dashes", strings.Repeat("- ", large/2), "YAML: exceeded max depth"},
		{"many items", "raw: [" + strings.Repeat("1,", large/2-4) + "]", ""},
		{"many keys", manyKeys(large), "unknown key"},
		{"long text", "zz: \"" + strings.Repeat("x", large-10) + "\"", "unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			_, err := decode(c.src)
			// The machine may be busy: the bound only tells seconds from minutes.
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("took %v", d)
			}
			if c.want == "" && err == nil {
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.200v, want %s", err, c.want)
			}
			if err != nil && len(err.Error()) > 64<<10 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func manyKeys(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size-20; i++ {
		b.WriteString("k" + strconv.Itoa(i) + ": 1\n")
	}
	return b.String()
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(100 << 20); err != nil { // sparse: it costs no disk
		t.Fatal(err)
	}
	f.Close()
	for path, want := range map[string]string{
		large:                         large + ": is larger than 1024 KiB, the most that is read",
		dir:                           dir + ": is a directory: expected a YAML file",
		filepath.Join(dir, "missing"): "open " + filepath.Join(dir, "missing") + ": no such file or directory",
	} {
		if _, err := strictyaml.ReadFile(path); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"addresses", "neighbours", "routes", "rules", "run", "vrfs", "vlans"}
	for word, want := range map[string]string{
		"adresses": "addresses", "address": "addresses", "neighbors": "neighbours", "route": "routes",
		"Routes": "routes", "vlan": "vlans", "zzz": "", "": "", "urn": "run",
	} {
		if got := strictyaml.Nearest(word, words); got != want {
			t.Errorf("nearest to %q: %q, want %q", word, got, want)
		}
	}
}
