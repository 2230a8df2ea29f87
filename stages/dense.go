package stages

import (
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages/prepare"
)

// NeedDense reports whether a preparation, features or another component, as need says, does not support sparse rows,
// and none requires them.
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
