package solver

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/solver/gate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// hasGateRows reports whether the newest increment has rows that the gate is about.
func (s *Solver) hasGateRows() bool {
	if s.plan.Chain.Gate == nil {
		return false
	}
	offered, ok := s.chained.found.sum.Tensors().Find(statistics.FieldOffered)
	return ok && len(offered.Data) > 0 && offered.Data[0] > 0
}

// compare compares the version that the run makes with the one that subscribers have, given the sums of the visit with its weights.
func (s *Solver) compare(sum *accumulate.Sum) {
	if s.chained.compared = nil; s.plan.Chain == nil || !s.hasGateRows() {
		return
	}
	scale := s.chain.Prepared.TargetScale
	fields := 1 + max(len(scale), 1)
	offered, err := s.chained.found.sum.Tensors().Shaped(schemas.FieldOfferedGroups, schemas.GateGroups, fields)
	if err != nil {
		return
	}
	made, err := sum.Tensors().Shaped(schemas.FieldJudgedGroups, schemas.GateGroups, 2)
	if err != nil {
		return
	}
	losses := make([]float64, 0, len(made))
	for at := range len(offered) / fields {
		sums := offered[at*fields:][:fields]
		loss := sums[1]
		if scale != nil { // in the units of the run
			loss = 0
			for i, unit := range scale {
				loss += sums[1+i] / (float64(unit) * float64(unit))
			}
		}
		losses = append(losses, sums[0], loss)
	}
	again, err := sum.Tensors().Shaped(schemas.FieldRevisitedGroups, schemas.GateGroups, 3)
	if err != nil {
		again = nil // no such rows
	}
	s.chained.compared = gate.Compare(gate.NewestGroups(losses, made), gate.RevisitedGroups(again))
}
