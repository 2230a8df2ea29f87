package config

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
)

// errSecret is the error of every secret in a file or a setting: configurations are kept with the code, and every user of a
// machine can read command lines.
var errSecret = errors.New("expected the password in the environment (STAGEWISE_SECURITY_SASL_PASSWORD) or in a separate file " +
	"(security.sasl.password_file)")

// parse returns a YAML node as a value of a type. A type that parses text or JSON parses itself, and its errors state what
// it expected.
func parse(y *yaml.Node, t reflect.Type) (reflect.Value, error) {
	value := reflect.New(t)
	switch target := value.Interface().(type) {
	case *kafkalog.Secret:
		return value, errSecret
	case *time.Duration:
		if days, found := strings.CutSuffix(y.Value, "d"); found {
			n, err := strconv.ParseUint(days, 10, 16)
			*target = time.Duration(n) * 24 * time.Hour
			return value.Elem(), err
		}
		d, err := time.ParseDuration(y.Value) // "0" needs no unit
		*target = d
		return value.Elem(), err
	case encoding.TextUnmarshaler:
		return value.Elem(), target.UnmarshalText([]byte(y.Value)) // of a list or a mapping: the empty text
	}
	plain, err := toPlain(y, t)
	if err != nil {
		return value.Elem(), err
	}
	text, err := json.Marshal(plain)
	if err == nil {
		err = json.Unmarshal(text, value.Interface())
	}
	return value.Elem(), err
}

// toPlain returns a node as a value whose JSON is that of a type. The tag decides what a scalar is, because yaml decodes a float into an
// integer by truncation, and many values into text. Texts keep their spelling, such as that of a label 007.
func toPlain(y *yaml.Node, t reflect.Type) (any, error) {
	y = resolve(y)
	below := t
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		below = t.Elem()
	}
	switch y.Kind {
	case yaml.SequenceNode:
		items := make([]any, len(y.Content))
		for i, item := range y.Content {
			var err error
			if items[i], err = toPlain(item, below); err != nil {
				return nil, err
			}
		}
		return items, nil
	case yaml.MappingNode:
		items := map[string]any{}
		for i := 0; i < len(y.Content); i += 2 {
			name := resolve(y.Content[i])
			if name.Kind != yaml.ScalarNode || isMerge(name) || items[name.Value] != nil {
				return nil, errors.New("a name twice, or that is no text")
			}
			var err error
			if items[name.Value], err = toPlain(y.Content[i+1], below); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	if isNull(y) {
		if t.Kind() == reflect.String {
			return nil, errors.New("expected " + wanted(reflect.TypeFor[[]string]()) + `; the word null is "null", in quotes`)
		}
		return nil, errors.New("null")
	}
	var scalar any
	if t.Kind() == reflect.String || y.Decode(&scalar) != nil {
		return y.Value, nil
	}
	switch v := scalar.(type) {
	case int, int64, uint64, bool:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("expected a finite number")
		}
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // which is not a whole number in JSON either
		}
		return json.Number(text), nil
	}
	return y.Value, nil
}

// want describes the expected value, given a node that parse rejected, and its error.
func want(y *yaml.Node, t reflect.Type, err error) string {
	_, expected, ok := strings.Cut(err.Error(), "expected ")
	_, whole := strconv.ParseInt(y.Value, 10, 64)
	_, number := strconv.ParseFloat(y.Value, 64)
	switch {
	case ok:
	case errors.Is(whole, strconv.ErrRange) && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64):
		expected = "a whole number from -2^63 to 2^63-1"
	case errors.Is(number, strconv.ErrRange) && t.Kind() == reflect.Float64:
		expected = "a finite number"
	default:
		expected = wanted(t)
	}
	if y.Kind == yaml.ScalarNode && y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		if _, err := parse(&yaml.Node{Kind: yaml.ScalarNode, Value: y.Value}, t); err == nil {
			expected += ", without quotes"
		}
	}
	return expected
}

// wanted describes the values of a type, in the words of an error message after "expected".
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a time such as 7d, 24h, 90m or 30s"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number from 0 to 2^64-1"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		list := map[reflect.Kind]string{reflect.String: "texts, as in [a, b]", reflect.Int: "whole numbers, as in [1, 2]"}[t.Elem().Kind()]
		if list == "" {
			return "lists of texts, as in [[a, b], [c, d]]"
		}
		return "a list of " + list
	case reflect.Map:
		return fmt.Sprintf("%s for each of some names, as in {name: …}", wanted(t.Elem()))
	}
	return "text"
}

// The keys are the fields of Config and of the structs below it. Tags of a field:
//
//   - path:"file" is a file, or a list of files: the configuration file has paths relative to its own folder
//   - single:"split" is a list that needs no brackets around values with commas between them. Other lists of texts need none in
//     variables and settings. A single value never needs brackets.
//   - null:"none" is a text for which null means the empty text, not the default

// behind returns the type that a pointer points to, and any other type unchanged.
func behind(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isValue reports whether a field of this type is the value of one key: it has no fields, or parses itself.
func isValue(t reflect.Type) bool {
	if t.Kind() == reflect.Slice && !isValue(t.Elem()) {
		return false
	}
	pointer := reflect.PointerTo(t)
	return t.Kind() != reflect.Struct || t == reflect.TypeFor[kafkalog.Secret]() ||
		pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// isPath reports whether the tag of a field says that it is a file, or a list of files.
func isPath(tag reflect.StructTag) bool { return tag.Get("path") == "file" }

// isList reports whether a type is a list of mappings.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice && !isValue(t) }

// keysOf returns the fields that are the keys of a mapping; none for a value or a list. Those of an embedded struct are on the same level.
func keysOf(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	if isValue(t) || isList(t) {
		return func(func(string, reflect.StructField) bool) {}
	}
	return option.KeysOf(t)
}

// namesOf returns the names of the keys of a mapping.
func namesOf(t reflect.Type) (names []string) {
	for name := range keysOf(t) {
		names = append(names, name)
	}
	return names
}

// fieldAt returns the field of a key below a type, regardless of the numbers of list elements in it.
func fieldAt(t reflect.Type, key string) (field reflect.StructField, ok bool) {
	for name := range strings.SplitSeq(key, ".") {
		if isList(t) {
			field = reflect.StructField{Type: t.Elem()}
		} else if field, ok = maps.Collect(keysOf(t))[name]; !ok {
			return field, false
		}
		t = behind(field.Type)
	}
	return field, true
}

// walk visits a key of a type and every key below it, in which * stands for the number of an element of a list.
func walk(key string, t reflect.Type, visit func(key string, t reflect.Type)) {
	t = behind(t)
	visit(key, t)
	if isList(t) {
		walk(option.Join(key, "*"), t.Elem(), visit)
	}
	for name, field := range keysOf(t) {
		walk(option.Join(key, name), field.Type, visit)
	}
}

// suggest returns the full key that was probably meant by name in the mapping of a key: the key in it with the nearest
// spelling, or else the only key elsewhere with exactly this name. It returns "" if there is neither.
func suggest(key string, t reflect.Type, name string) string {
	if near := option.Nearest(name, namesOf(t)); near != "" {
		return option.Join(key, near)
	}
	var elsewhere []string
	walk("", reflect.TypeFor[Config](), func(key string, _ reflect.Type) {
		if name != "" && key[strings.LastIndexByte(key, '.')+1:] == strings.ToLower(name) {
			elsewhere = append(elsewhere, key)
		}
	})
	if len(elsewhere) == 1 {
		return elsewhere[0]
	}
	return ""
}
