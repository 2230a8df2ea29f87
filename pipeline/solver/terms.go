package solver

import (
	"fmt"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The record of an update's visit has the terms of the increments that its partition has. At the end of a stage of a
// full run they are in records of their own. Either way they are summed by increment.

// places returns how many increments a visit to a stage has.
func (s *Solver) places() int {
	if u := s.plan.Update(); u != nil {
		return 1 + len(u.Refresh)
	}
	return max(len(s.plan.Chain.Increments), 1)
}

// apart reports whether a visit has the terms of each increment.
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

// termsIdentities returns the identities of the records that have the terms of a partition.
func (s *Solver) termsIdentities(v protocol.Visit, partition int) (list []wire.Identity) {
	for _, v.Number = range s.plan.Chain.TermsOn(partition, s.chained.found.termsPlaces) {
		list = append(list, s.identity(statistics.KindIncrement, v, partition))
	}
	return list
}

// sealLacksTerms reports whether a seal has come, and the terms are in records of their own, which stand before it.
// Releases before this one wrote them into the seal: withTerms says so.
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
		return nil, fmt.Errorf("%w: a seal with terms of shape %v, expected them in records of their own: all workers of a run "+
			"must be of one release", wire.ErrDamaged, terms.Shape)
	}
	p, k := s.shape(v.Stage)
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

// unstacked returns the sum of a visit's record with the sums of each increment apart; the terms are those of all
// increments if apart is not set.
func (s *Solver) unstacked(covered coverage.Coverage, sums wire.Tensors[float64], apart bool) (*accumulate.Sum, error) {
	sum := accumulate.NewSum(covered, sums)
	visited, any := sum.Take(statistics.FieldVisited)
	if !any {
		return sum, nil // of a survey, or of a stage with a learnt link
	}
	if len(visited.Shape) != 2 || visited.Shape[1] != 5 {
		return nil, &wire.ShapeError{Tensor: statistics.FieldVisited, Got: visited.Shape, Want: []int{-1, 5}}
	}
	m := visited.Shape[0]
	var terms wire.Tensor[float64]
	size := 0
	if apart {
		if terms, any = sum.Take(statistics.FieldTerms); !any || len(terms.Shape) != 4 || terms.Shape[0] != m || terms.Shape[1] != 2 {
			return nil, &wire.ShapeError{Tensor: statistics.FieldTerms, Got: terms.Shape, Want: []int{m, 2, -1, -1}}
		}
		size = 2 * terms.Shape[2] * terms.Shape[3]
	}
	fields := sum.Tensors()
	for i := range m {
		place, losses := int(visited.Data[5*i]), visited.Data[5*i+1:5*i+5]
		if place < 0 || place >= s.places() {
			return nil, fmt.Errorf("%w: terms of increment %d of %d", wire.ErrDamaged, place, s.places())
		}
		of := statistics.Increment(place)
		if apart {
			fields = append(fields, wire.Tensor[float64]{Name: of.Terms(), Shape: terms.Shape[1:], Data: terms.Data[i*size : (i+1)*size]})
		}
		fields = append(fields, wire.Vector(of.Visited(), losses))
	}
	return accumulate.NewSum(covered, fields), nil
}

// stack puts what a visit has of each increment into two fields of a sum, given the shape of the stage: visited [m, 2], and terms
// [m, 2, p, k] if apart is set. Otherwise terms [1, 2, p, k] is there, unless the visit has no rows. The error is a *[wire.ShapeError].
func (s *Solver) stack(sum *accumulate.Sum, apart bool, p, k int) error {
	m, terms := s.places(), []float64(nil)
	want := []int{1, 2, p, k}
	if apart {
		want[0] = m
	}
	if field, any := sum.Tensors().Find(statistics.FieldTerms); any && len(field.Data) != want[0]*2*p*k {
		return &wire.ShapeError{Tensor: statistics.FieldTerms, Got: field.Shape, Want: want}
	}
	visited := sum.Field(statistics.FieldVisited, m, 2)
	if all := sum.Field(statistics.FieldTerms, want...); apart {
		terms = all
	}
	for i := range m {
		if field, any := sum.Take(statistics.Increment(i).Terms()); any {
			copy(terms[2*i*p*k:], field.Data)
		}
		copy(visited[2*i:], s.takeVisited(sum, i))
	}
	return nil
}

// takeVisited takes the losses of an increment out of a sum, and returns Σw and Σw·loss of its training rows; nil if it has none.
func (s *Solver) takeVisited(sum *accumulate.Sum, place int) []float64 {
	field, any := sum.Take(statistics.Increment(place).Visited())
	if !any {
		return nil
	}
	return field.Data[:2]
}
