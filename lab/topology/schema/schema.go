// Package schema makes JSON schemas from the Go types of the project's YAML
// formats, for editors and for a second opinion on what the decoder takes. It
// is for tests and generation only: nothing that ships imports it.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"seg6lab/lab/topology"
)

// texts are the types that are written as one word.
var texts = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[netip.Addr]():           {Type: "string", Pattern: `^[0-9a-fA-F:.]+$`, Examples: []any{"2001:db8::1", "192.0.2.1"}},
	reflect.TypeFor[netip.Prefix]():         {Type: "string", Pattern: `^[0-9a-fA-F:.]+/[0-9]{1,3}$`, Examples: []any{"2001:db8::1/64"}},
	reflect.TypeFor[topology.End]():         {Type: "string", Pattern: `^[a-z0-9-]+:[^:]+$`, Examples: []any{"r1:eth0"}},
	reflect.TypeFor[topology.MAC]():         {Type: "string", Pattern: `^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$`, Examples: []any{"02:00:00:00:00:01"}},
	reflect.TypeFor[topology.Destination](): {Type: "string", Pattern: `^(default|[0-9a-fA-F:.]+(/[0-9]{1,3})?)$`, Examples: []any{"default", "2001:db8::/64"}},
	reflect.TypeFor[topology.Duration]():    {Type: "string", Pattern: `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`, Examples: []any{"10ms"}},
	reflect.TypeFor[topology.Table](): {OneOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: "1", Maximum: "4294967295"},
		{Type: "string", Enum: []any{"main", "local", "default"}},
	}},
	reflect.TypeFor[map[string]string](): {Type: "object", AdditionalProperties: &jsonschema.Schema{
		AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "integer"}},
	}},
	// The only one is of MTUs: a tag does not reach what a map holds.
	reflect.TypeFor[map[string]int](): {Type: "object", AdditionalProperties: &jsonschema.Schema{
		Type: "integer", Minimum: "68", Maximum: "65535",
	}},
	reflect.TypeFor[bool](): {AnyOf: []*jsonschema.Schema{
		{Type: "boolean"},
		{Type: "string", Enum: []any{"on", "off", "yes", "no"}},
	}},
	reflect.TypeFor[yaml.Node](): jsonschema.TrueSchema,
}

// Options of Generate.
type Options struct {
	// Title of the schema.
	Title string
	// Types adds to, or overrides, what is known of types written as one word.
	Types map[reflect.Type]*jsonschema.Schema
	// Packages whose comments become descriptions: the import path of the
	// package in the working directory, and directories below or beside it.
	Base string
	Dirs []string
	// Variables says that ${name} may stand for any value below the file's own keys.
	Variables bool
}

// Generate makes the schema of the file format whose root is the struct root.
// The text is the same for the same types.
func Generate(root any, o Options) ([]byte, error) {
	short := map[string]string{}
	r := &jsonschema.Reflector{
		Anonymous:    true,
		FieldNameTag: "yaml",
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			noteShort(t, short)
			for _, known := range []map[reflect.Type]*jsonschema.Schema{o.Types, texts} {
				if s, ok := known[t]; ok {
					own := *s
					return &own
				}
			}
			return nil
		},
	}
	for _, dir := range o.Dirs {
		if err := r.AddGoComments(o.Base, dir, jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("read the comments of %s: %w", dir, err)
		}
	}
	s := r.Reflect(root)
	s.Title = o.Title
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("schema of %T: %w", root, err)
	}
	var tree map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("schema of %T: %w", root, err)
	}
	describe(tree)
	defs, _ := tree["$defs"].(map[string]any)
	for name, def := range defs {
		if o.Variables {
			admitVariables(def.(map[string]any))
		}
		defs[name] = loosen(def.(map[string]any), short[name])
	}
	if o.Variables {
		defs["Variable"] = map[string]any{"type": "string", "pattern": `\$\{[^}]*\}`}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(tree); err != nil {
		return nil, fmt.Errorf("schema of %T: %w", root, err)
	}
	return out.Bytes(), nil
}

// noteShort notes the key that a struct's short form stands for.
func noteShort(t reflect.Type, short map[string]string) {
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("short") != "" {
			short[t.Name()], _, _ = strings.Cut(f.Tag.Get("yaml"), ",")
		}
	}
}

// admitVariables lets a variable stand for the value of each property and of each element.
func admitVariables(v any) {
	def, ok := v.(map[string]any)
	if !ok {
		return
	}
	or := func(s any) map[string]any {
		admitVariables(s)
		either := map[string]any{"anyOf": []any{s, map[string]any{"$ref": "#/$defs/Variable"}}}
		if s, ok := s.(map[string]any); ok && s["description"] != nil {
			either["description"] = s["description"]
			delete(s, "description")
		}
		return either
	}
	if properties, ok := def["properties"].(map[string]any); ok {
		for name, p := range properties {
			properties[name] = or(p)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := def[key].(map[string]any); ok {
			def[key] = or(inner)
		}
	}
}

// loosen admits what the decoder admits in place of a mapping: nothing where no
// key is required, and the short form.
func loosen(def map[string]any, short string) any {
	if _, required := def["required"]; !required && def["type"] == "object" {
		def["type"] = []string{"object", "null"}
	}
	if short == "" {
		return def
	}
	description := def["description"]
	delete(def, "description")
	return map[string]any{
		"description": description,
		"anyOf":       []any{def, def["properties"].(map[string]any)[short]},
	}
}

// describe makes a paragraph of each comment.
func describe(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if s, ok := inner.(string); ok && key == "description" {
				v[key] = strings.Join(strings.Fields(s), " ")
			}
			describe(inner)
		}
	case []any:
		for _, inner := range v {
			describe(inner)
		}
	}
}
