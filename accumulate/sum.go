// Package accumulate turns feature blocks into statistics: sums over examples, which can be split in any way and merged.
//
//	block, residual, weights ──Accumulator──▶ Sum ──Merge──▶ Sum
//
// Sums form a commutative monoid. A Sum carries the spans that it covers, so that nothing is counted twice.
// Floating-point addition does not associate, so the order of merging is fixed: tiles of whole messages within a segment,
// the segments of all partitions of a share in order, then the shares in order.
//
// Sums over rows are computed here; package solve computes with these sums.
package accumulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Sum is a sum over examples: named arrays, and what they were summed over. Arrays add elementwise; an absent one is zero.
// The zero value is the sum over nothing.
type Sum struct {
	coverage.Coverage
	fields    []wire.Tensor[float64]
	occurring *occurring // nil: the fields cover all columns
}

// Field returns the array of the field with the given name, and adds zeros if the field is absent. It panics if the
// field has another number of values.
func (s *Sum) Field(name string, shape ...int) []float64 {
	size := 1
	for _, n := range shape {
		size *= n
	}
	for _, f := range s.fields {
		if f.Name == name {
			if len(f.Data) != size {
				panic(fmt.Sprintf("accumulate: field %s of shape %v, not %v", name, f.Shape, shape))
			}
			return f.Data
		}
	}
	s.fields = append(s.fields, wire.Tensor[float64]{Name: name, Shape: slices.Clone(shape), Data: make([]float64, size)})
	return s.fields[len(s.fields)-1].Data
}

// Move moves a field of from to s under another name, without a copy. It does nothing if from lacks the field. s and
// from may be the same.
func (s *Sum) Move(from *Sum, name, as string) {
	if field, ok := from.Take(name); ok {
		field.Name = as
		s.fields = append(s.fields, field)
	}
}

// read returns the values of the field of that name, or zeros if it is absent or has another shape, as records of a topic may.
func (s *Sum) read(name string, shape ...int) []float64 {
	if data, err := s.Tensors().Shaped(name, shape...); err == nil {
		return data
	}
	size := 1
	for _, n := range shape {
		size *= n
	}
	return make([]float64, size)
}

// Take removes a field and returns it. It returns false if the field is absent.
func (s *Sum) Take(name string) (wire.Tensor[float64], bool) {
	for i, f := range s.fields {
		if f.Name == name {
			s.fields = slices.Delete(s.fields, i, i+1)
			return f, true
		}
	}
	return wire.Tensor[float64]{}, false
}

// Tensors returns the fields in the order in which they were added. It shares their memory.
func (s *Sum) Tensors() wire.Tensors[float64] {
	return s.fields
}

// NewSum returns the sum with the given fields, which it does not copy.
func NewSum(covered coverage.Coverage, fields wire.Tensors[float64]) *Sum {
	return &Sum{Coverage: covered, fields: fields}
}

// Merge adds o to s. It moves fields that s lacks from o, so o must not be used afterwards. It returns an error if both
// cover the same offset, and a *[wire.ShapeError] if a field differs in shape; s is then unchanged.
func (s *Sum) Merge(o *Sum) error {
	s.Spread()
	for _, f := range o.fields {
		mine, ok := s.Tensors().Find(f.Name)
		same := slices.Equal(mine.Shape, o.occurring.shape(f)) && !isTable(f.Name)
		if ok && !sameTables(mine, f) && !same {
			return &wire.ShapeError{Tensor: f.Name, Got: o.occurring.shape(f), Want: mine.Shape}
		}
	}
	if err := s.Coverage.Merge(o.Coverage); err != nil {
		return err
	}
	for _, f := range o.fields {
		mine, ok := s.Tensors().Find(f.Name)
		switch {
		case o.occurring != nil && byColumn(f.Name):
			o.occurring.addTo(s.Field(f.Name, o.occurring.shape(f)...), f)
		case !ok:
			s.fields = append(s.fields, f)
		case isTable(f.Name):
			i := slices.IndexFunc(s.fields, func(of wire.Tensor[float64]) bool { return of.Name == f.Name })
			s.fields[i] = mergedTables(mine, f)
		default:
			kernel.Add(mine.Data, f.Data)
		}
	}
	return nil
}

// SetPart adds the fields of part to s, with the given name and a slash as the prefix of their names. It does not copy them.
func (s *Sum) SetPart(name string, part *Sum) {
	for _, f := range part.Tensors() {
		f.Name = name + "/" + f.Name
		s.fields = append(s.fields, f)
	}
}

// Part returns the sum of the fields that [Sum.SetPart] added. It has the coverage of s, and shares its memory.
func (s *Sum) Part(name string) *Sum {
	var fields wire.Tensors[float64]
	for _, f := range s.fields {
		if of, ok := strings.CutPrefix(f.Name, name+"/"); ok {
			f.Name = of
			fields = append(fields, f)
		}
	}
	return NewSum(s.Coverage, fields)
}
