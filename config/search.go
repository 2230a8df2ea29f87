package config

import (
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

// searched returns the keys, or prefixes of keys, for which a search may try values: keys that change how a version is made from the rows,
// but not the set of rows.
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
	var items []yaml.Node
	if yaml.Unmarshal([]byte(list), &items) != nil {
		items = nil
	}
	for _, item := range items {
		switch item.Kind {
		case yaml.ScalarNode:
			o.Values = append(o.Values, item.Value)
		case yaml.MappingNode: // as numbers by label
			item.Style = yaml.FlowStyle
			if line, err := yaml.Marshal(&item); err == nil {
				o.Values = append(o.Values, strings.TrimSpace(string(line)))
			}
		}
	}
	if len(o.Values) > 0 && len(o.Values) == len(items) {
		return o, nil
	}
	return o, option.Problem{Key: "--over", Value: quoted(text), Want: "a list of values after the key, as in stages.0.ridge=[1e-4, 1e-3]"}
}
