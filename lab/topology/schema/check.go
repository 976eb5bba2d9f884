package schema

import (
	"bytes"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Checker returns what checks the text of a YAML file against the JSON schema text.
func Checker(text []byte) (func(src []byte) error, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	return func(src []byte) error {
		var v any
		if err := yaml.Unmarshal(src, &v); err != nil {
			return err
		}
		return s.Validate(v)
	}, nil
}
