package statistics

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// ErrorBin is the prequential error of consecutive messages: measured before training on them.
type ErrorBin struct {
	Offset   int64   `json:"offset"`   // distance of the first message from the first offset of its partition
	Messages int64   `json:"messages"` // number of messages
	Rows     int64   `json:"rows"`     // number of training rows
	Weight   float64 `json:"weight"`   // Σw of these rows
	Error    float64 `json:"error"`    // percent
	Loss     float64 `json:"loss"`     // loss of the last stage's link
}

// and merges two adjacent bins.
func (b ErrorBin) and(next ErrorBin) ErrorBin {
	if weight := b.Weight + next.Weight; weight > 0 {
		b.Error = wire.Finite((b.Weight*b.Error + next.Weight*next.Error) / weight)
		b.Loss = wire.Finite((b.Weight*b.Loss + next.Weight*next.Loss) / weight)
		b.Weight = weight
	}
	b.Messages, b.Rows = b.Messages+next.Messages, b.Rows+next.Rows
	return b
}

// Shorten returns a curve with at most that many bins. It merges neighbours.
func Shorten(curve []ErrorBin, most int) []ErrorBin {
	for len(curve) > max(most, 1) {
		half := make([]ErrorBin, 0, (len(curve)+1)/2)
		for i := 0; i < len(curve); i += 2 {
			if i+1 == len(curve) {
				half = append(half, curve[i])
			} else {
				half = append(half, curve[i].and(curve[i+1]))
			}
		}
		curve = half
	}
	return curve
}

// Bin returns the bin of one message, given its distance from the first offset of its partition.
func (m *MessageLosses) Bin(offset int64) ErrorBin {
	return ErrorBin{Offset: offset, Messages: 1, Rows: int64(m.Rows), Weight: m.Weight, Error: wire.Finite(m.ErrorPercent()),
		Loss: wire.Finite(m.MeanLoss())}
}
