package stages

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages/prepare"
)

// CheckSparse returns a *[prepare.DenseError] if features, which pass [Check], can't be made of sparse rows, with previous predictions if
// scores is set.
func CheckSparse(f schemas.Features, scores bool) error {
	if len(Check(f)) > 0 {
		return nil
	}
	return checkSparse(f, &prepare.Preparation{Factors: &prepare.Factors{}}, scores)
}

// checkSparse returns a *[prepare.DenseError] if features can't be made of inputs that are sparse, and a *[prepare.SparseError] if they
// can't be made of others.
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

// OnlySparse reports whether features are made of sparse rows only.
func OnlySparse(f schemas.Features) bool {
	k, ok := find(f.Kind)
	return ok && k.onlySparse
}

// Counts reports whether the weights of features are made of counts, so that no input may be below 0.
func Counts(f schemas.Features) bool {
	k, _ := find(f.Kind)
	return k.counted
}

// InUpdates reports whether updates of a chain on sparse rows can go on from a stage of these features: they fit its weights, which are of
// all inputs, or count them.
func InUpdates(f schemas.Features) (fits, counts bool) {
	k, _ := find(f.Kind)
	return k.sparse && !k.counted && !k.inBlocks, k.sparse && k.counted
}

// UpdatedNames returns the kinds of which [InUpdates] says so.
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

// Counted reports whether the stage's weights are counted from its rows and their classes, and not fitted to what
// earlier stages leave over.
func (m *Map) Counted() bool { return m.counted }

// FittedAtATime returns how many inputs are fitted at a time; 0: all.
func (m *Map) FittedAtATime() int {
	if m.inBlocks {
		return m.features.Size
	}
	return 0
}

// Rounds returns how often each input of a stage that is fitted some inputs at a time has its turn, at most; 0: no matter how often.
func (m *Map) Rounds() int { return m.features.Rounds }

// InBlocks reports whether some inputs are fitted at a time: see [Map.FittedAtATime].
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
