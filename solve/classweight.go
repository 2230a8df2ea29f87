package solve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// maxNamed is the maximum number of classes in an error.
const maxNamed = 10

// ClassWeights returns the weight factors of the training rows of each class (k); nil means 1 for all. rows has the
// number of training rows of each label. A class without rows has 1 unless w names it. An error
// means that w names a label that is not a class; the factors are valid despite it.
func ClassWeights(w schemas.ClassWeight, classes []string, rows map[string]int64) ([]float32, error) {
	if w.IsZero() {
		return nil, nil
	}
	factors, by, labels := make([]float32, len(classes)), make(map[string]float64, len(w.By)), examples.NewLabels(classes)
	for label, factor := range w.By {
		by[labels.Spelt(label)] = factor
	}
	all, filled := int64(0), int64(0)
	for _, class := range classes {
		if n := rows[class]; n > 0 {
			all, filled = all+n, filled+1
		}
	}
	for c, class := range classes {
		factors[c] = 1
		if factor, has := by[class]; has {
			factors[c] = float32(factor)
		} else if n := rows[class]; w.Balanced && n > 0 {
			factors[c] = float32(float64(all) / (float64(filled) * float64(n)))
		}
	}
	for _, label := range slices.Sorted(maps.Keys(w.By)) {
		if !slices.Contains(classes, labels.Spelt(label)) {
			named, more := classes, ""
			if len(classes) > maxNamed {
				named, more = classes[:maxNamed], fmt.Sprintf(" and %d more", len(classes)-maxNamed)
			}
			return factors, fmt.Errorf("examples.class_weight: no row has the label %q: expected one of the classes %q%s", label, named, more)
		}
	}
	return factors, nil
}
