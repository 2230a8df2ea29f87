package accumulate

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The record of a visit in a chain has the sums of each increment stacked in two tensors. They add up by increment only apart.

// Unstack makes of these tensors the fields of each increment. places is how many increments a visit has; apart says that the terms are
// those of each increment, otherwise they are a sum over all. It changes nothing in a sum without increments: of a survey, or of a
// stage with a learnt link. An error is a *[wire.ShapeError] or wraps [wire.ErrDamaged].
func (s *Sum) Unstack(places int, apart bool) error {
	visited, any := s.Take(statistics.FieldVisited)
	if !any {
		return nil
	}
	if len(visited.Shape) != 2 || visited.Shape[1] != 5 {
		return &wire.ShapeError{Tensor: statistics.FieldVisited, Got: visited.Shape, Want: []int{-1, 5}}
	}
	m := visited.Shape[0]
	var terms wire.Tensor[float64]
	size := 0
	if apart {
		if terms, any = s.Take(statistics.FieldTerms); !any || len(terms.Shape) != 4 || terms.Shape[0] != m || terms.Shape[1] != 2 {
			return &wire.ShapeError{Tensor: statistics.FieldTerms, Got: terms.Shape, Want: []int{m, 2, -1, -1}}
		}
		size = 2 * terms.Shape[2] * terms.Shape[3]
	}
	for i := range m {
		place, losses := int(visited.Data[5*i]), visited.Data[5*i+1:5*i+5]
		if place < 0 || place >= places {
			return fmt.Errorf("%w: terms of increment %d of %d", wire.ErrDamaged, place, places)
		}
		of := statistics.Increment(place)
		if apart {
			s.fields = append(s.fields, wire.Tensor[float64]{Name: of.Terms(), Shape: terms.Shape[1:], Data: terms.Data[i*size : (i+1)*size]})
		}
		s.fields = append(s.fields, wire.Vector(of.Visited(), losses))
	}
	return nil
}
