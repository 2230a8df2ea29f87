package stages

import (
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages/prepare"
)

// NeedDense reports whether a preparation or features can't be made of sparse rows, or something else can't, as need says, and nothing
// can be made of sparse rows only.
func NeedDense(p schemas.Prepare, list []schemas.Stage, need bool) bool {
	if prepare.CheckRows(p, false) != nil {
		return false
	}
	need = need || prepare.CheckRows(p, true) != nil
	for _, s := range list {
		k, ok := find(s.Features.Kind)
		if !ok || k.onlySparse {
			return false
		}
		need = need || CheckSparse(s.Features, s.Scores) != nil
	}
	return need
}
