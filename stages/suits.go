package stages

import (
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Examples is what examples are, as far as it says which features suit them.
type Examples int

const (
	Vectors    Examples = iota // rows of numbers without names
	Tables                     // rows with named columns
	SparseRows                 // rows of which most features are 0, such as texts
	Images                     // rows of pixels
)

// Suiting returns the kinds of features that are worth a try for examples, in the order of the documentation.
func Suiting(e Examples) (names []string) {
	for k := range kinds {
		if slices.Contains(k.suits, e) {
			names = append(names, k.name)
		}
	}
	return names
}

// Opening returns the kinds that are worth a block before blocks of trees.
func Opening() (names []string) {
	for k := range kinds {
		if k.opens {
			names = append(names, k.name)
		}
	}
	return names
}

// ScaleOf returns how `prepare.scale: auto` scales dense rows with named columns for a run of some stages.
func ScaleOf(list []schemas.Stage) string {
	for _, s := range list {
		if k, _ := find(s.Features.Kind); k.scaled {
			return prepare.ScaleStandard
		}
	}
	return prepare.ScaleNone
}
