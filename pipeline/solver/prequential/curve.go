package prequential

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Message is how a message was predicted before it was learnt.
type Message struct {
	Partition int
	statistics.MessageLosses
}

// inLogOrder returns how the messages of an update were predicted before they were learnt, in the order in which cuts take them.
func inLogOrder(messages []Message, chain *schemas.Chain) []Message {
	messages = slices.Clone(messages)
	slices.SortStableFunc(messages, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.distance(chain), b.distance(chain)), cmp.Compare(a.Partition, b.Partition))
	})
	return messages
}

// distance returns how far a message is from where its partition began.
func (m *Message) distance(chain *schemas.Chain) int64 {
	if m.Partition < len(chain.Begins) {
		return m.Offset - chain.Begins[m.Partition]
	}
	return m.Offset
}

// curveBins is how many bins the curve of a run has at most.
const curveBins = 100

// Curve returns the prequential error of an update by message.
func Curve(messages []Message, chain *schemas.Chain) (curve []statistics.ErrorBin) {
	for _, m := range inLogOrder(messages, chain) {
		curve = append(curve, m.Bin(m.distance(chain)))
	}
	return statistics.Shorten(curve, curveBins)
}
