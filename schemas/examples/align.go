package examples

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Align makes [Batch.Features] return the features with the offsets of these columns, which may differ from those of the
// message, for example if files are ingested at different times. A message without columns is assumed to have the same
// columns. An error wraps [wire.ErrDamaged].
func (e *Batch) Align(columns Columns) error {
	e.deltas = nil
	text := e.Columns()
	if e.Sparse || columns == nil || text == "" || !columns.HasOffsets() && !strings.Contains(text, `"offset"`) {
		return nil
	}
	own, err := ParseColumns(text)
	if err != nil {
		return err
	}
	if own.Features() != e.Width || columns.Features() != e.Width {
		return fmt.Errorf("%w: %d features, its columns have %d", wire.ErrDamaged, e.Width, own.Features())
	}
	deltas, differ, at := make([]float64, e.Width), false, 0
	for i, column := range own {
		deltas[at] = column.Offset - columns[min(i, len(columns)-1)].Offset
		differ = differ || deltas[at] != 0
		at += column.Features()
	}
	if differ {
		e.deltas = deltas
	}
	return nil
}

// align adds the differences of [Batch.Align] to features (Rows × Width).
func (e *Batch) align(dst []float32) {
	for i := range dst {
		if delta := e.deltas[i%e.Width]; delta != 0 {
			dst[i] = float32(float64(dst[i]) + delta)
		}
	}
}
