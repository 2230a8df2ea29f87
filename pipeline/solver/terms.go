package solver

import (
	"fmt"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver/columns"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The record of an update's visit has the terms of the partition's increments. At the end of a stage of a full run they
// are separate records. In both cases they are summed by increment.

// places returns the number of increments in a visit to a stage.
func (s *Solver) places() int {
	if u := s.plan.Update(); u != nil {
		return 1 + len(u.Refresh)
	}
	return max(len(s.plan.Chain.Increments), 1)
}

// apart reports whether a visit has separate terms for each increment.
func (s *Solver) apart(visit int) bool {
	u := s.plan.Update()
	return u != nil && schemas.KeepsTerms(visit, u.Passes)
}

// sealsTerms reports whether workers send the terms of increments with the seals of a stage.
func (s *Solver) sealsTerms(stage int) bool {
	if s.plan.Chain == nil || s.plan.Update() != nil {
		return false
	}
	of, err := s.chain.Stage(stage)
	return err == nil && !of.Link.Learnt
}

// termsIdentities returns the identities of the records with a partition's terms.
func (s *Solver) termsIdentities(v protocol.Visit, partition int) (list []wire.Identity) {
	for _, v.Number = range s.plan.Chain.TermsOn(partition, s.chained.found.TermsPlaces) {
		list = append(list, s.identity(statistics.KindIncrement, v, partition))
	}
	return list
}

// sealLacksTerms reports whether a seal has arrived, with the terms in separate records before it. Earlier releases wrote
// them into the seal: withTerms returns an error for these.
func (s *Solver) sealLacksTerms(id wire.Identity) bool {
	r := s.inbox.Peek(id)
	if r == nil {
		return false
	}
	_, any := r.Tensors.Find(statistics.FieldTerms)
	return !any
}

// withTerms adds the terms of a partition to the sum of its seal.
func (s *Solver) withTerms(sum *accumulate.Sum, v protocol.Visit, partition int) (*accumulate.Sum, error) {
	if terms, any := sum.Tensors().Find(statistics.FieldTerms); any {
		return nil, fmt.Errorf("%w: a seal with terms of shape %v, expected separate records: all workers of a run must run the same "+
			"release", wire.ErrDamaged, terms.Shape)
	}
	p, k := s.shape(v.Stage)
	if s.sparse() {
		return columns.WithTerms(sum, s.termsIdentities(v, partition), s.inbox.Double, p, k)
	}
	fields := sum.Tensors()
	for _, id := range s.termsIdentities(v, partition) {
		terms, err := statistics.IncrementTermsOf(s.inbox.Double(id), p, k)
		if err != nil {
			return nil, err
		}
		fields = append(fields, wire.Tensor[float64]{Name: statistics.Increment(id.Visit).Terms(), Shape: []int{2, p, k}, Data: terms.Terms})
	}
	return accumulate.NewSum(sum.Coverage, fields), nil
}
