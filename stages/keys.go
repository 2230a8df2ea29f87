package stages

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/internal/option"
)

// Keys documents the keys under `features` of a stage, in the order of the fields of [schemas.Features]. The text about
// a kind comes from the kind itself.
func Keys() []option.Key {
	var names []string
	for k := range kinds {
		names = append(names, fmt.Sprintf("`%s` (%s)", k.name, k.meaning))
	}
	return []option.Key{
		{Name: "kind", Meaning: option.Enumerate(names, "or")},
		{Name: "size", Meaning: "number of features of the block; " + meaning("size")},
		{Name: "bandwidth_scale", Meaning: meaning("bandwidth_scale")},
		{Name: "degree", Meaning: meaning("degree")},
		{Name: "replacement", Meaning: meaning("replacement")},
		{Name: "weight", Meaning: meaning("weight")},
		{Name: "rounds", Meaning: meaning("rounds")},
		{Name: "leaves", Meaning: meaning("leaves")},
		{Name: "sample", Meaning: meaning("sample")},
		{Name: "patch", Meaning: meaning("patch")},
		{Name: "filters", Meaning: meaning("filters")},
		{Name: "grid", Meaning: meaning("grid")},
		{Name: "overlap", Meaning: meaning("overlap")},
		{Name: "root", Meaning: meaning("root")},
		{Name: "rectify", Meaning: meaning("rectify")},
		{Name: "whiten", Meaning: meaning("whiten")},
		{Name: "contrast", Meaning: meaning("contrast")},
		{Name: "mirror", Meaning: meaning("mirror")},
		{Name: "source", Meaning: meaning("source")},
	}
}

// meaning joins the meanings of a key for each kind that reads it, as in "`a`, `b`: this; `c`: that".
func meaning(name string) string {
	var meanings []string
	readers := map[string][]string{}
	for k := range kinds {
		for _, key := range k.keys {
			if key.Name != name {
				continue
			}
			if readers[key.Meaning] == nil {
				meanings = append(meanings, key.Meaning)
			}
			readers[key.Meaning] = append(readers[key.Meaning], "`"+k.name+"`")
		}
	}
	for i, m := range meanings {
		meanings[i] = strings.Join(readers[m], ", ") + ": " + m
	}
	return strings.Join(meanings, "; ")
}
