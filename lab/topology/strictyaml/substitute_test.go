package strictyaml_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"seg6lab/lab/topology/strictyaml"
)

func parse(t *testing.T, src string) *strictyaml.Doc {
	t.Helper()
	doc, err := strictyaml.Parse("f", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestSubstitute(t *testing.T) {
	doc := parse(t, `
items:
  - {word: "${colour}", count: "${n}", names: "${list}", texts: {"k-${n}": "a${n}b${colour}", esc: "$${n}", own: "$n $ {n}"}}
`)
	vars := map[string]*yaml.Node{
		"colour": strictyaml.Text("red"), "n": strictyaml.Text("5"),
		"list": parse(t, "[x, y]").Root,
	}
	got, err := doc.Substitute(vars)
	if err != nil {
		t.Fatal(err)
	}
	var f file
	if err := got.Decode(&f); err != nil {
		t.Fatal(err)
	}
	it := f.Items[0]
	if it.Word != "red" || it.Count != 5 || strings.Join(it.Names, " ") != "x y" {
		t.Errorf("item %+v", it)
	}
	for k, want := range map[string]string{"k-5": "a5bred", "esc": "${n}", "own": "$n $ {n}"} {
		if it.Texts[k] != want {
			t.Errorf("text %s = %q, want %q", k, it.Texts[k], want)
		}
	}
	// The document itself is as it was, for the next set of values.
	vars["n"] = strictyaml.Text("7")
	got, err = doc.Substitute(vars)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Decode(&f); err != nil || f.Items[0].Count != 7 {
		t.Errorf("second time: %v, count %d, want 7", err, f.Items[0].Count)
	}
}

func TestSubstituteErrors(t *testing.T) {
	doc := parse(t, "raw: ${colur}\nlists:\n  a: x${list}\n  b${no}: 1\n")
	_, err := doc.Substitute(map[string]*yaml.Node{"colour": strictyaml.Text("red"), "list": parse(t, "[x]").Root})
	want := `f:1:6: ${colur} has no value; did you mean "colour"?
f:3:6: ${list} is a list: it can only stand alone, not inside text
f:4:3: ${no} has no value; expected colour or list`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestSubstitutePlace: a mistake in a value that came from a variable is told
// where the value was written, or where it is used if it was not written.
func TestSubstitutePlace(t *testing.T) {
	doc := parse(t, "items:\n  - word: red\n    count: ${n}\n")
	for _, c := range []struct {
		value *yaml.Node
		want  string
	}{
		{strictyaml.Text("1"), "f:3:12: "},
		{parse(t, "\n\n   1").Root, "f:3:4: "},
	} {
		got, err := doc.Substitute(map[string]*yaml.Node{"n": c.value})
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Decode(new(file)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestMergeZero: a value that the overlay gives wins even if it is zero; one
// that it leaves out does not.
func TestMergeZero(t *testing.T) {
	var dst, src file
	if err := parse(t, "by-name: {x: {word: red, rate: 5, signed: 5, flag: true}}").Decode(&dst); err != nil {
		t.Fatal(err)
	}
	if err := parse(t, "by-name: {x: {word: red, rate: 0, flag: false}}").Decode(&src); err != nil {
		t.Fatal(err)
	}
	strictyaml.Merge(&dst, &src)
	if x := dst.ByName["x"]; x.Rate != 0 || *x.Flag || x.Signed != 5 {
		t.Errorf("rate %v, flag %t, signed %d, want 0, false, 5", x.Rate, *x.Flag, x.Signed)
	}
}

func TestMerge(t *testing.T) {
	var dst, src, alone file
	base := "items: [{word: red}]\nby-name: {x: {word: red, count: 3, names: [a], texts: {k: v, l: w}}}\n"
	if err := parse(t, base).Decode(&dst); err != nil {
		t.Fatal(err)
	}
	if err := parse(t, base).Decode(&alone); err != nil {
		t.Fatal(err)
	}
	over, err := strictyaml.Parse("over", []byte("items: [{word: green}]\nby-name: {x: {word: green, names: [b, c], texts: {k: z}}, y: {word: red}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := over.Decode(&src); err != nil {
		t.Fatal(err)
	}
	shared := dst.ByName["x"]
	strictyaml.Merge(&dst, &src)
	x := dst.ByName["x"]
	if x.Word != "green" || x.Count != 3 || strings.Join(x.Names, "") != "abc" || x.Texts["k"] != "z" || x.Texts["l"] != "w" {
		t.Errorf("merged %+v", x)
	}
	if len(dst.Items) != 2 || dst.ByName["y"] == nil {
		t.Errorf("%d items, want 2; y %v", len(dst.Items), dst.ByName["y"])
	}
	for path, want := range map[string]string{
		"word": "over:2:21", "count": "f:2:33", "names[0]": "f:2:44", "names[1]": "over:2:36",
		"names[2]": "over:2:39", "texts.k": "over:2:54", "texts.l": "f:2:65",
	} {
		if got := x.ValueAt(path).String(); got != want {
			t.Errorf("%s at %s, want %s", path, got, want)
		}
	}
	if got := dst.Items[1].ValueAt("word").String(); got != "over:1:16" {
		t.Errorf("the second item's word at %s, want over:1:16", got)
	}
	// What others hold of either side is as it was.
	if shared.Word != "red" || len(shared.Names) != 1 || shared.Texts["k"] != "v" || shared.ValueAt("texts.k") != alone.ByName["x"].ValueAt("texts.k") {
		t.Errorf("merging changed what it was given: %+v", shared)
	}
	if s := src.ByName["x"]; len(s.Names) != 2 || s.Texts["l"] != "" {
		t.Errorf("merging changed the overlay: %+v", s)
	}
}
