package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// errSecret is the error of every secret in a file or a setting: configurations are kept with the code, and every user of a
// machine can read command lines.
var errSecret = errors.New("expected the password in the environment (STAGEWISE_SECURITY_SASL_PASSWORD) or in a separate file " +
	"(security.sasl.password_file)")

// parse returns what a YAML node means as a value of a type. A type that parses text or JSON parses itself, and its errors
// say what it expected.
func parse(y *yaml.Node, t reflect.Type) (reflect.Value, error) {
	value := reflect.New(t)
	switch target := value.Interface().(type) {
	case *kafkalog.Secret:
		return value, errSecret
	case *time.Duration:
		d, err := time.ParseDuration(y.Value) // "0" needs no unit
		*target = d
		return value.Elem(), err
	case encoding.TextUnmarshaler:
		return value.Elem(), target.UnmarshalText([]byte(y.Value)) // of a list or a mapping: the empty text
	}
	text, err := toJSON(y, t)
	if err == nil {
		err = json.Unmarshal(text, value.Interface())
	}
	return value.Elem(), err
}

// toJSON returns a node as JSON for a value of a type. Texts keep their spelling, such as that of a label 007.
func toJSON(y *yaml.Node, t reflect.Type) ([]byte, error) {
	y = resolve(y)
	below := t
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		below = t.Elem()
	}
	switch y.Kind {
	case yaml.SequenceNode:
		items := make([][]byte, len(y.Content))
		for i, item := range y.Content {
			var err error
			if items[i], err = toJSON(item, below); err != nil {
				return nil, err
			}
		}
		return enclosed('[', items, ']'), nil
	case yaml.MappingNode:
		names, items := map[string]bool{}, make([][]byte, len(y.Content)/2)
		for i := range items {
			name := resolve(y.Content[2*i])
			if name.Kind != yaml.ScalarNode || isMerge(name) || names[name.Value] {
				return nil, errors.New("a name twice, or that is no text")
			}
			names[name.Value] = true
			item, err := toJSON(y.Content[2*i+1], below)
			if err != nil {
				return nil, err
			}
			quoted, err := json.Marshal(name.Value)
			if err != nil {
				return nil, err
			}
			items[i] = append(append(quoted, ':'), item...)
		}
		return enclosed('{', items, '}'), nil
	}
	return scalarToJSON(y, t)
}

func enclosed(open byte, items [][]byte, end byte) []byte {
	return append(append([]byte{open}, bytes.Join(items, []byte{','})...), end)
}

// scalarToJSON lets the tag decide what a scalar is: yaml decodes a float into an integer by truncation, and many values
// into text.
func scalarToJSON(y *yaml.Node, t reflect.Type) ([]byte, error) {
	tag := y.ShortTag()
	var whole int64
	var natural uint64
	var number float64
	var flag bool
	switch {
	case tag == "!!null" && t.Kind() == reflect.Interface: // of a resolved configuration
		return []byte("null"), nil
	case tag == "!!null":
		return nil, errors.New("null")
	case t.Kind() == reflect.String:
	case tag == "!!int" && y.Decode(&whole) == nil:
		return strconv.AppendInt(nil, whole, 10), nil
	case tag == "!!int" && y.Decode(&natural) == nil:
		return strconv.AppendUint(nil, natural, 10), nil
	case (tag == "!!int" || tag == "!!float") && y.Decode(&number) == nil:
		if math.IsNaN(number) || math.IsInf(number, 0) {
			return nil, errors.New("expected a finite number")
		}
		text := strconv.AppendFloat(nil, number, 'g', -1, 64)
		if !bytes.ContainsAny(text, ".e") {
			text = append(text, ".0"...) // which is no whole number in JSON either
		}
		return text, nil
	case tag == "!!bool" && y.Decode(&flag) == nil:
		return strconv.AppendBool(nil, flag), nil
	}
	return json.Marshal(y.Value)
}

// want returns what was expected in place of a node that parse refused with an error.
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

// wanted returns what a value of a type is, in the words of an error message after "expected".
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a time such as 24h, 90m or 30s"
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
