package solver

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// hasGateRows reports whether the newest increment has rows for the gate.
func (s *Solver) hasGateRows() bool {
	if s.plan.Chain.Gate == nil {
		return false
	}
	offered, ok := s.chained.found.Sum.Tensors().Find(statistics.FieldOffered)
	return ok && len(offered.Data) > 0 && offered.Data[0] > 0
}

// compare compares the run's version with the version for subscribers, from the sums of the visit with the run's weights.
func (s *Solver) compare(sum *accumulate.Sum) {
	if s.chained.compared = nil; s.plan.Chain == nil || !s.hasGateRows() {
		return
	}
	s.chained.compared = compareSums(s.chained.found.Sum.Tensors(), sum.Tensors(), s.chain.Prepared)
}
