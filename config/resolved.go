package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// withheld is the section that is not written: it configures the login of a process, not its computation.
const withheld = "security"

// MarshalJSON returns the values of all keys, including defaults, in the order of the fields. It omits the section security, and
// so any password. As JSON is YAML, [Load] reads it, as an equivalent configuration.
//
// File names are absolute, because those in a configuration file are relative to its folder.
func (c *Config) MarshalJSON() ([]byte, error) {
	said := *c
	if said.Examples.Archive.Alone { // the topic is that of its files
		said.Examples.FromTopic = ""
	}
	return resolved(reflect.ValueOf(said))
}

// YAML returns the values of all keys, like [Config.MarshalJSON], in readable form. [Load] reads it.
func (c *Config) YAML() ([]byte, error) {
	text, err := c.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(escaped(text), &document); err != nil {
		return nil, fmt.Errorf("write the configuration as YAML: %w", err)
	}
	unbraced(&document)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, fmt.Errorf("write the configuration as YAML: %w", err)
	}
	return out.Bytes(), encoder.Close()
}

// resolved returns a part of a configuration as JSON: a struct as an object of its keys, without keys that are nil.
func resolved(v reflect.Value) (json.RawMessage, error) {
	v = reflect.Indirect(v)
	if d, is := v.Interface().(time.Duration); is {
		return json.Marshal(d.String())
	}
	if isValue(v.Type()) {
		return json.Marshal(v.Interface())
	}
	if isList(v.Type()) {
		items := make([]json.RawMessage, v.Len())
		for i := range items {
			var err error
			if items[i], err = resolved(v.Index(i)); err != nil {
				return nil, err
			}
		}
		return json.Marshal(items)
	}
	var members []string
	for name, field := range keysOf(v.Type()) {
		value, failed := v.FieldByIndex(field.Index), error(nil)
		if name == withheld || value.Kind() == reflect.Pointer && value.IsNil() {
			continue
		}
		if isPath(field.Tag) {
			value = eachPath(value, func(path string) string {
				path, failed = filepath.Abs(path)
				return path
			})
		}
		text, err := resolved(value)
		if err = errors.Join(failed, err); err != nil {
			return nil, err
		}
		members = append(members, fmt.Sprintf("%q:%s", name, text))
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), nil
}

// escaped escapes the characters in the texts of JSON that YAML does not allow.
func escaped(text []byte) (escaped []byte) {
	for _, r := range string(text) {
		if r == 0x7f || r >= 0x80 && r < 0xa0 && r != 0x85 || r == 0xfffe || r == 0xffff {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
			continue
		}
		escaped = utf8.AppendRune(escaped, r)
	}
	return escaped
}

// unbraced takes the braces and quotes of JSON from a node; lists of plain values stay on one line.
func unbraced(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode || slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return item.Kind != yaml.ScalarNode }) {
		n.Style = 0
	}
	for _, item := range n.Content {
		unbraced(item)
	}
}
