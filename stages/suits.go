package stages

import (
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Examples is the type of examples, which determines suitable features.
type Examples int

const (
	Vectors    Examples = iota // rows of numbers without names
	Tables                     // rows with named columns
	SparseRows                 // rows of mostly zeros, such as texts
	Images                     // rows of pixels
)

// Suiting returns the kinds of features worth trying for examples, in the order of the documentation.
func Suiting(e Examples) (names []string) {
	for k := range kinds {
		if slices.Contains(k.suits, e) {
			names = append(names, k.name)
		}
	}
	return names
}

// Opening returns the kinds worth a block before blocks of trees.
func Opening() (names []string) {
	for k := range kinds {
		if k.opens {
			names = append(names, k.name)
		}
	}
	return names
}

// ScaleOf returns the effect of `prepare.scale: auto` on dense rows with named columns, for a run of the given stages.
func ScaleOf(list []schemas.Stage) string {
	for _, s := range list {
		if k, _ := find(s.Features.Kind); k.scaled {
			return prepare.ScaleStandard
		}
	}
	return prepare.ScaleNone
}
