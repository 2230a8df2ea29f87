package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/internal/option"
)

// Over is a key of the configuration, and the values that a search tries for it, as --set takes them.
type Over struct {
	Key    string
	Values []string
}

// searched are the keys that a search may try values of, or what they begin with: those that change how a version is made of the rows, and
// not which rows there are.
func searched() []string {
	return []string{"stages.", "prepare.", "average", "seed", "intercept", "examples.class_weight"}
}

// ParseOver parses a key and its values, as stages.0.ridge=[1e-4, 1e-3]. The error is a [option.Problem].
func ParseOver(text string) (Over, error) {
	key, list, _ := strings.Cut(text, "=")
	o := Over{Key: strings.TrimSpace(key)}
	if !slices.ContainsFunc(searched(), func(begin string) bool {
		return o.Key == begin || strings.HasSuffix(begin, ".") && strings.HasPrefix(o.Key, begin)
	}) {
		return o, option.Problem{Key: "--over", Value: quoted(text), Want: "a key under stages or prepare, or average, seed, " +
			"intercept or examples.class_weight: runs with other rows can't be compared"}
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(list), &root); err == nil && len(root.Content) == 1 && root.Content[0].Kind == yaml.SequenceNode {
		for _, item := range root.Content[0].Content {
			switch item.Kind {
			case yaml.ScalarNode:
				o.Values = append(o.Values, item.Value)
			case yaml.MappingNode: // as numbers by label
				item.Style = yaml.FlowStyle
				if line, err := yaml.Marshal(item); err == nil {
					o.Values = append(o.Values, strings.TrimSpace(string(line)))
				}
			}
		}
		if len(o.Values) > 0 && len(o.Values) == len(root.Content[0].Content) {
			return o, nil
		}
	}
	return o, option.Problem{Key: "--over", Value: quoted(text), Want: "a list of values after the key, as in stages.0.ridge=[1e-4, 1e-3]"}
}

// YAML returns what every key is set to, as [Config.MarshalJSON] does, for people to read: [Load] reads it.
func (c *Config) YAML() ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("write the configuration as YAML: %w", err)
	}
	unbraced(&root)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return nil, fmt.Errorf("write the configuration as YAML: %w", err)
	}
	return out.Bytes(), encoder.Close()
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
