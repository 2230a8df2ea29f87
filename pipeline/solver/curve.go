package solver

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// prequentialMessage is the prequential losses of a message: before it was trained on.
type prequentialMessage struct {
	Partition int
	statistics.MessageLosses
}

// inLogOrder returns the prequential losses of an update's messages, in the order in which cuts use them.
func inLogOrder(messages []prequentialMessage, chain *schemas.Chain) []prequentialMessage {
	messages = slices.Clone(messages)
	slices.SortStableFunc(messages, func(a, b prequentialMessage) int {
		return cmp.Or(cmp.Compare(a.distance(chain), b.distance(chain)), cmp.Compare(a.Partition, b.Partition))
	})
	return messages
}

// distance returns the distance of a message from the start of its partition.
func (m *prequentialMessage) distance(chain *schemas.Chain) int64 {
	if m.Partition < len(chain.Begins) {
		return m.Offset - chain.Begins[m.Partition]
	}
	return m.Offset
}

// curveBins is the maximum number of bins of a curve.
const curveBins = 100

// errorCurve returns the prequential error of an update, by message.
func errorCurve(messages []prequentialMessage, chain *schemas.Chain) (curve []statistics.ErrorBin) {
	for _, m := range inLogOrder(messages, chain) {
		curve = append(curve, m.Bin(m.distance(chain)))
	}
	return statistics.Shorten(curve, curveBins)
}
