package stages

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// CheckSparse returns a *[DenseError] if features do not support sparse rows, with previous predictions if scores is
// set. It returns nil for features that do not pass [Check].
func CheckSparse(f schemas.Features, scores bool) error {
	if len(Check(f)) > 0 {
		return nil
	}
	switch k := KindOf(f); {
	case !k.Sparse:
		names := Names(func(k Kind) bool { return k.Sparse })
		return &DenseError{What: "features.kind: " + f.Kind, Want: "it to " + strings.Join(names, " or ")}
	case !k.InBlocks && f.Size > 0 || f.Replacement:
		return &DenseError{What: fmt.Sprintf("features.size: %d", f.Size), Want: "it to 0, which is all columns"}
	case scores:
		return &DenseError{What: "scores: true", Want: "it to false"}
	}
	return nil
}

// NeedDense reports whether the examples must be dense: the preparation, features, or another component (need) does not
// support sparse rows, and nothing requires them.
func NeedDense(p schemas.Prepare, list []schemas.Stage, need bool) bool {
	if CheckRows(p, false) != nil {
		return false
	}
	need = need || CheckRows(p, true) != nil
	for _, s := range list {
		if k := KindOf(s.Features); k.name == "" || k.OnlySparse {
			return false
		}
		need = need || CheckSparse(s.Features, s.Scores) != nil
	}
	return need
}

// Sparse reports whether the block has sparse rows.
func (m *Map) Sparse() bool { return m.sparse }

// Counted reports whether the stage's weights are computed from counts of its rows by class, instead of fitted to the
// residuals of earlier stages.
func (m *Map) Counted() bool { return m.kind.Counted }

// FittedAtATime returns the number of inputs per block of a blockwise fit; 0: all.
func (m *Map) FittedAtATime() int {
	if m.kind.InBlocks {
		return m.features.Size
	}
	return 0
}

// Rounds returns the largest number of turns of each input in a blockwise fit; 0: unlimited.
func (m *Map) Rounds() int { return m.features.Rounds }

// ExpandSparse returns the block (n × [Map.Size]) of prepared inputs x (n × m), whose memory it shares. It panics
// unless [Map.Sparse] is true.
func (m *Map) ExpandSparse(x kernel.Sparse) kernel.Sparse {
	if !m.sparse || x.Cols != m.inputs {
		panic(fmt.Sprintf("stages: %d sparse inputs, the map has %d", x.Cols, m.inputs))
	}
	x.Ones = m.extra > 0
	return x
}
