// Package stack has the sums of a visit by increment:
//
//	record of a visit ──Unstack──▶ sums by increment ──(added over partitions)──▶ Stack ──▶ what an update fits
package stack

import (
	"fmt"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Unstack returns the sum of a record of a visit to so many increments, with the sums of each increment apart; the terms are those of all
// increments if apart is not set. The error is a *[wire.ShapeError], or wraps [wire.ErrDamaged].
func Unstack(covered coverage.Coverage, sums wire.Tensors[float64], increments int, apart bool) (*accumulate.Sum, error) {
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
		if place < 0 || place >= increments {
			return nil, fmt.Errorf("%w: terms of increment %d of %d", wire.ErrDamaged, place, increments)
		}
		of := statistics.Increment(place)
		if apart {
			fields = append(fields, wire.Tensor[float64]{Name: of.Terms(), Shape: terms.Shape[1:], Data: terms.Data[i*size : (i+1)*size]})
		}
		fields = append(fields, wire.Vector(of.Visited(), losses))
	}
	return accumulate.NewSum(covered, fields), nil
}

// Stack puts what a visit to m increments has of each of them into two fields of a sum, given the shape of the stage: visited [m, 2],
// and terms [m, 2, p, k] if apart is set. Otherwise terms [1, 2, p, k] is there, unless the visit has no rows. The error is a
// *[wire.ShapeError].
func Stack(sum *accumulate.Sum, m int, apart bool, p, k int) error {
	var terms []float64
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
		copy(visited[2*i:], TakeVisited(sum, i))
	}
	return nil
}

// TakeVisited takes the losses of an increment out of a sum, and returns Σw and Σw·loss of its training rows; nil if it has none.
func TakeVisited(sum *accumulate.Sum, place int) []float64 {
	field, any := sum.Take(statistics.Increment(place).Visited())
	if !any {
		return nil
	}
	return field.Data[:2]
}
