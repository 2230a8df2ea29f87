package config

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/stagewise/stagewise/ingest"
)

// withheld is the section that MarshalJSON leaves out: it says how one process logs in, and nothing about what it computes.
const withheld = "security"

// MarshalJSON returns what every key is set to, defaults included, in the order of the fields. It has no section security, and so
// no password. As JSON is YAML, [Load] reads it: it is a configuration that says the same.
//
// Names of files are absolute, as those in a configuration file are relative to its folder.
func (c *Config) MarshalJSON() ([]byte, error) {
	all, err := resolved(reflect.ValueOf(c))
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// resolved returns the value of a field of a configuration as JSON should have it: a struct as a mapping of its keys, without those
// that are nil, which say nothing.
func resolved(v reflect.Value) (any, error) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	t := v.Type()
	if _, ok := kindOf(t); ok {
		return resolvedValue(v), nil
	}
	if v.Kind() == reflect.Slice {
		list := make([]any, v.Len())
		for i := range list {
			var err error
			if list[i], err = resolved(v.Index(i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	var keys mapping
	for _, field := range reflect.VisibleFields(t) {
		name := keyOf(field)
		if name == "-" {
			continue
		}
		if !field.IsExported() || field.Anonymous || name == withheld {
			continue
		}
		value := v.FieldByIndex(field.Index)
		if value.Kind() == reflect.Pointer && value.IsNil() {
			continue
		}
		of, err := resolved(value)
		if err == nil && isPath(field) {
			of, err = absolute(of)
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, entry{name, of})
	}
	return keys, nil
}

// absolute returns a path, or a list of paths, from the root of the file system on.
func absolute(value any) (any, error) {
	from := func(path string) (string, error) {
		if path == "" || path == ingest.StandardInput {
			return path, nil
		}
		return filepath.Abs(path)
	}
	list, ok := value.([]string)
	if !ok {
		return from(value.(string))
	}
	for i, path := range list {
		var err error
		if list[i], err = from(path); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// resolvedValue returns the value of a key.
func resolvedValue(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return value.String()
	case []string:
		return slices.Concat([]string{}, value) // a copy; none is an empty list, not null
	default:
		return value
	}
}

// entry is a key with its value.
type entry struct {
	name  string
	value any
}

// mapping is a JSON object whose keys have an order.
type mapping []entry

// MarshalJSON returns the object.
func (m mapping) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, e := range m {
		if i > 0 {
			text = append(text, ',')
		}
		name, err := json.Marshal(e.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	return append(text, '}'), nil
}
