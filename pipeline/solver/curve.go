package solver

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// inLogOrder returns how the messages of an update were predicted before they were learnt, in the order in which cuts take them.
func (c *chained) inLogOrder(chain *schemas.Chain) []partitionMessage {
	messages := slices.Clone(c.messages)
	slices.SortStableFunc(messages, func(a, b partitionMessage) int {
		return cmp.Or(cmp.Compare(a.distance(chain), b.distance(chain)), cmp.Compare(a.partition, b.partition))
	})
	return messages
}

// distance returns how far a message is from where its partition began.
func (m *partitionMessage) distance(chain *schemas.Chain) int64 {
	if m.partition < len(chain.Begins) {
		return m.Offset - chain.Begins[m.partition]
	}
	return m.Offset
}

// curveBins is how many bins the curve of a run has at most.
const curveBins = 100

// curve returns the prequential error of an update by message.
func (c *chained) curve(chain *schemas.Chain) (curve []schemas.ErrorBin) {
	for _, m := range c.inLogOrder(chain) {
		curve = append(curve, m.Bin(m.distance(chain)))
	}
	return schemas.Shorten(curve, curveBins)
}
