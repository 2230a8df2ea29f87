package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"go.yaml.in/yaml/v3"
)

// A kind is what a value may be.
type kind int

const (
	kindText kind = iota
	kindTexts
	kindWhole
	kindNatural
	kindReal
	kindFlag
	kindSize
	kindColumn
	kindSecret
)

// String is the kind in the words of an error message, after "expected".
func (k kind) String() string {
	return [...]string{
		kindText: "text", kindTexts: "a list, as in [a, b]", kindWhole: "a whole number", kindNatural: "a whole number from 0 to 2^64-1",
		kindReal: "a number", kindFlag: "true or false", kindSize: "a size such as 512MB or 1GiB, or a number of bytes",
		kindColumn: "the number or the name of a column",
		kindSecret: "it in the environment (STAGEWISE_SECURITY_SASL_PASSWORD) or in a file of its own (security.sasl.password_file)",
	}[k]
}

func kindOf(t reflect.Type) (kind, bool) {
	switch t {
	case reflect.TypeFor[Bytes]():
		return kindSize, true
	case reflect.TypeFor[ingest.Column]():
		return kindColumn, true
	case reflect.TypeFor[kafkalog.Secret]():
		return kindSecret, true
	case reflect.TypeFor[[]string]():
		return kindTexts, true
	}
	switch t.Kind() {
	case reflect.String:
		return kindText, true
	case reflect.Int, reflect.Int64:
		return kindWhole, true
	case reflect.Uint64:
		return kindNatural, true
	case reflect.Float64:
		return kindReal, true
	case reflect.Bool:
		return kindFlag, true
	}
	return 0, false
}

// read is the value of a YAML node, or false if it is not of the kind. None is a secret: configurations are kept with code,
// and every user of a machine sees command lines.
func (k kind) read(n *yaml.Node) (any, bool) {
	if k == kindSecret {
		return nil, false
	}
	if k == kindTexts {
		if n.Kind != yaml.SequenceNode {
			return nil, false
		}
		list := make([]string, len(n.Content))
		for i, item := range n.Content {
			item = resolve(item)
			if item.Kind != yaml.ScalarNode || isNull(item) {
				return nil, false
			}
			list[i] = item.Value
		}
		return list, true
	}
	if n.Kind != yaml.ScalarNode {
		return nil, false
	}
	// YAML reads a float into an integer by cutting it, and much into text: what the value is says its tag.
	tag := n.ShortTag()
	switch k {
	case kindText:
		return n.Value, true
	case kindWhole:
		var v int64
		ok := tag == "!!int" && n.Decode(&v) == nil
		return v, ok
	case kindNatural:
		var v uint64
		ok := tag == "!!int" && n.Decode(&v) == nil
		return v, ok
	case kindReal:
		var v float64
		ok := (tag == "!!int" || tag == "!!float") && n.Decode(&v) == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
		return v, ok
	case kindFlag:
		var v bool
		ok := tag == "!!bool" && n.Decode(&v) == nil
		return v, ok
	case kindSize:
		var v Bytes
		ok := v.UnmarshalText([]byte(n.Value)) == nil
		return v, ok
	case kindColumn:
		return n.Value, true
	}
	panic(fmt.Sprintf("config: kind %d", k))
}

// resolve follows an alias to its anchor.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// split makes a list of a scalar, at its commas: what the environment and the command line say of a list.
func split(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.ScalarNode {
		return n
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for item := range strings.SplitSeq(n.Value, ",") {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(item)})
	}
	return list
}
