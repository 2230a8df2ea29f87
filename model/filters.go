package model

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Filters returns the filters of a stage of patches, one a row (f × q), and their shape: a filter is compared with
// whitened patches, and has their pixels. Both are zero for a stage of another kind.
func (m *Model) Filters(stage int) (filters kernel.Dense, shape examples.Image) {
	t, ok := m.preparation.Find(statistics.OfStage(statistics.TensorFilters, stage))
	if !ok || len(t.Shape) != 2 {
		return filters, shape
	}
	size := m.Manifest.Plan.Stages[stage].Features.Patch
	filters = kernel.NewDense(t.Shape[1], t.Shape[0])
	for i, v := range t.Data {
		filters.Data[i%filters.Rows*filters.Cols+i/filters.Rows] = v
	}
	return filters, examples.Image{size, size, m.Image().Channels()}
}
