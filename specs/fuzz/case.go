package fuzz

import (
	"encoding"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"seg6lab/lab/topology"
	"seg6lab/traffic"
)

// caseFiles are a case and its topology. The case expects what the forwarder
// sends: on the kernel it fails.
func caseFiles(t *topology.Topology, o outcome, d *Difference) (caseFile, topologyFile string, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, `# Kernel and forwarder differ (seg6lab fuzz --seed %d --count %d). What is expected
# is what the forwarder sends, so that the case fails on the kernel and holds with
# --dataplane forwarder. Which of them is right is for the reader to say.
`, d.Seed, d.Frames)
	fmt.Fprintf(&b, "case: fuzz-%d\nabout: a packet of which kernel and forwarder make something else\nlabels: [fuzz]\ntopology: ./topology.yaml\nsteps:\n", d.Seed)
	fmt.Fprintf(&b, "  - send: {from: %q, packet: %q}\n    expect:\n", d.At, "hex:"+hex.EncodeToString(o.frame))
	for port, at := range ends {
		any := false
		for _, s := range o.forwarder {
			if s.Port == port {
				any = true
				packet, exact := traffic.Dissect(s.Frame).String(), !traffic.IsOwnICMP4(s.Frame)
				if !exact {
					packet = strings.Replace(packet, "id=0, chksum=0x0, ", "", 1) // hidden by normal
				}
				fmt.Fprintf(&b, "      - {at: %q, exact: %t, packet: %q}\n", at, exact, packet)
			}
		}
		if !any {
			fmt.Fprintf(&b, "      - {at: %q, nothing: true}\n", at)
		}
	}
	top, err := encode(reflect.ValueOf(t))
	return b.String(), "# The topology of the case beside it.\n" + top, err
}

// WriteCase writes the files of a difference to a directory of their own below
// dir, and returns the name of the case file.
func WriteCase(dir string, d *Difference) (string, error) {
	dir = filepath.Join(dir, fmt.Sprintf("fuzz-%d", d.Seed))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "topology.yaml"), []byte(d.Topology), 0o644); err != nil {
		return "", err
	}
	name := filepath.Join(dir, "case.yaml")
	return name, os.WriteFile(name, []byte(d.Case), 0o644)
}

// encode writes a topology as YAML: a line for each of its keys, nodes and
// links, and for what a node has a lot of.
func encode(v reflect.Value) (string, error) {
	var b strings.Builder
	var block func(v reflect.Value, indent string, depth int) error
	block = func(v reflect.Value, indent string, depth int) error {
		return each(v, func(key string, value reflect.Value) error {
			v := reflect.Indirect(value)
			deep := v.Kind() == reflect.Map && key == "nodes" || v.Kind() == reflect.Struct && depth == 1
			if deep {
				fmt.Fprintf(&b, "%s%s:\n", indent, key)
				return block(v, indent+"  ", depth+1)
			}
			if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Pointer {
				fmt.Fprintf(&b, "%s%s:\n", indent, key)
				for i := range v.Len() {
					line, err := flow(v.Index(i))
					if err != nil {
						return err
					}
					fmt.Fprintf(&b, "%s  - %s\n", indent, line)
				}
				return nil
			}
			line, err := flow(v)
			fmt.Fprintf(&b, "%s%s: %s\n", indent, key, line)
			return err
		})
	}
	err := block(reflect.Indirect(v), "", 0)
	return b.String(), err
}

// flow is a value on one line.
func flow(v reflect.Value) (string, error) {
	if text, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, err := text.MarshalText()
		return fmt.Sprintf("%q", b), err
	}
	v = reflect.Indirect(v)
	var parts []string
	switch v.Kind() {
	case reflect.String:
		return fmt.Sprintf("%q", v.String()), nil
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			s, err := flow(v.Index(i))
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case reflect.Map, reflect.Struct:
		err := each(v, func(key string, value reflect.Value) error {
			s, err := flow(value)
			parts = append(parts, key+": "+s)
			return err
		})
		return "{" + strings.Join(parts, ", ") + "}", err
	}
	return fmt.Sprint(v.Interface()), nil
}

// each calls f for the keys of a map, sorted, or the fields of a struct that
// are set, by their names in YAML.
func each(v reflect.Value, f func(key string, value reflect.Value) error) error {
	if v.Kind() == reflect.Map {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			if err := f(k.String(), v.MapIndex(k)); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if name == "-" || v.Field(i).IsZero() {
			continue
		}
		if err := f(name, v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}
