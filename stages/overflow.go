package stages

import (
	"github.com/stagewise/stagewise/internal/kernel"
)

// Overflowed returns the number of rows of a block (n × [Map.Size]) of prepared inputs x (n × m) whose features
// overflow.
func (m *Map) Overflowed(block, x kernel.Dense) (rows int) {
	if !m.kind.products {
		return 0
	}
	for i := range block.Rows {
		if kernel.SquaredLength(block.Row(i)[:m.size]) == 0 && kernel.SquaredLength(x.Row(i)) > 1 {
			rows++
		}
	}
	return rows
}
