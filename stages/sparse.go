package stages

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages/prepare"
)

// CheckSparse returns a *[prepare.DenseError] if features, which pass [Check], do not support sparse rows, with
// previous predictions if scores is set.
func CheckSparse(f schemas.Features, scores bool) error {
	if len(Check(f)) > 0 {
		return nil
	}
	return checkSparse(f, &prepare.Preparation{Factors: &prepare.Factors{}}, scores)
}

// checkSparse returns a *[prepare.DenseError] if features do not support sparse inputs, and a *[prepare.SparseError] if
// they require them.
func checkSparse(f schemas.Features, prepared *prepare.Preparation, scores bool) error {
	k, _ := find(f.Kind)
	switch {
	case prepared.Factors == nil && k.onlySparse:
		return &prepare.SparseError{What: "features.kind: " + f.Kind}
	case prepared.Factors == nil:
		return nil
	case !k.sparse:
		var names []string
		for k := range kinds {
			if k.sparse {
				names = append(names, k.name)
			}
		}
		return &prepare.DenseError{What: "features.kind: " + f.Kind, Want: "it to " + strings.Join(names, " or ")}
	case !k.inBlocks && f.Size > 0 || f.Replacement:
		return &prepare.DenseError{What: fmt.Sprintf("features.size: %d", f.Size), Want: "it to 0, which is all columns"}
	case scores:
		return &prepare.DenseError{What: "scores: true", Want: "it to false"}
	}
	return nil
}

// OnlySparse reports whether features require sparse rows.
func OnlySparse(f schemas.Features) bool {
	k, ok := find(f.Kind)
	return ok && k.onlySparse
}

// Counts reports whether the weights of features are computed from counts, so that inputs must not be negative.
func Counts(f schemas.Features) bool {
	k, _ := find(f.Kind)
	return k.counted
}

// InUpdates reports whether updates of a chain on sparse rows support a stage of these features: they can fit its
// weights, of all inputs, or count them.
func InUpdates(f schemas.Features) (fits, counts bool) {
	k, _ := find(f.Kind)
	return k.sparse && !k.counted && !k.inBlocks, k.sparse && k.counted
}

// UpdatedNames returns the kinds that [InUpdates] accepts.
func UpdatedNames() (names []string) {
	for k := range kinds {
		if fits, counts := InUpdates(schemas.Features{Kind: k.name}); fits || counts {
			names = append(names, k.name)
		}
	}
	return names
}

// Sparse reports whether the block has sparse rows.
func (m *Map) Sparse() bool { return m.sparse }

// Counted reports whether the stage's weights are computed from counts of its rows by class, instead of fitted to the
// residuals of earlier stages.
func (m *Map) Counted() bool { return m.kind.counted }

// FittedAtATime returns the number of inputs per block of a blockwise fit; 0: all.
func (m *Map) FittedAtATime() int {
	if m.kind.inBlocks {
		return m.features.Size
	}
	return 0
}

// Rounds returns the largest number of turns of each input in a blockwise fit; 0: unlimited.
func (m *Map) Rounds() int { return m.features.Rounds }

// InBlocks reports whether the fit is blockwise: see [Map.FittedAtATime].
func InBlocks(f schemas.Features) bool {
	k, ok := find(f.Kind)
	return ok && k.inBlocks
}

// ExpandSparse returns the block (n × [Map.Size]) of prepared inputs x (n × m), whose memory it shares. It panics
// unless [Map.Sparse] is true.
func (m *Map) ExpandSparse(x kernel.Sparse) kernel.Sparse {
	if !m.sparse || x.Cols != m.inputs {
		panic(fmt.Sprintf("stages: %d sparse inputs, the map has %d", x.Cols, m.inputs))
	}
	x.Ones = m.extra > 0
	return x
}
