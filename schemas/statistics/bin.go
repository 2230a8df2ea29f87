package statistics

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// Bin returns the bin of one message, given its distance from the first offset of its partition.
func (m *MessageLosses) Bin(offset int64) ErrorBin {
	return ErrorBin{Offset: offset, Messages: 1, Rows: int64(m.Rows), Weight: m.Weight, Error: wire.Finite(m.ErrorPercent()),
		Loss: wire.Finite(m.MeanLoss())}
}
