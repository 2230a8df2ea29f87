// Package accumulate turns feature blocks into statistics: sums over examples, which can be split in any way and merged.
//
//	block, residual, weights ──Accumulator──▶ Sum ──Merge──▶ Sum
//
// Sums form a commutative monoid. A Sum carries the spans that it covers, so that nothing is counted twice.
// Floating-point addition does not associate, so the order of merging is fixed: tiles of whole messages within a segment,
// the segments of all partitions of a share in order, then the shares in order.
package accumulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Sum is a sum over examples: named arrays, and what they were summed over. Arrays add elementwise; an absent one is zero.
// The zero value is the sum over nothing.
type Sum struct {
	coverage.Coverage
	fields    []wire.Tensor[float64]
	tiles     tiles      // of the Gram matrix, which are not in its field yet
	occurring *occurring // nil: the fields are of all columns
}

// Field is the array of that name, made of zeros if it is absent. It panics if
// it is there with another number of values.
func (s *Sum) Field(name string, shape ...int) []float64 {
	if name == statistics.FieldGram {
		s.addTiles()
	}
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

// Move makes a field of from a field of s, with another name and without a copy. It does nothing if from has none. s and from may be the
// same.
func (s *Sum) Move(from *Sum, name, as string) {
	if field, ok := from.Take(name); ok {
		field.Name = as
		s.fields = append(s.fields, field)
	}
}

// AddGram adds the field gram, of a packed Gram matrix that it does not copy: the memory is that of a [BufferPool].
func (s *Sum) AddGram(matrix []float64) {
	s.fields = append(s.fields, wire.Vector(statistics.FieldGram, matrix))
}

// read returns the values of the field of that name, or zeros if it is absent or has another shape: the sum is of records of a topic.
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
	if name == statistics.FieldGram {
		s.addTiles()
	}
	for i, f := range s.fields {
		if f.Name == name {
			s.fields = slices.Delete(s.fields, i, i+1)
			return f, true
		}
	}
	return wire.Tensor[float64]{}, false
}

// set replaces the field of that name.
func (s *Sum) set(field wire.Tensor[float64]) {
	i := slices.IndexFunc(s.fields, func(f wire.Tensor[float64]) bool { return f.Name == field.Name })
	s.fields[i] = field
}

// Tensors returns the fields in the order in which they were added. It shares their memory.
func (s *Sum) Tensors() wire.Tensors[float64] {
	s.addTiles()
	return s.fields
}

// find is Find of [Sum.Tensors], but for tiles of the Gram matrix that are not in its field.
func (s *Sum) find(name string) (wire.Tensor[float64], bool) {
	return wire.Tensors[float64](s.fields).Find(name)
}

// NewSum is the sum with these fields, which it does not copy.
func NewSum(covered coverage.Coverage, fields wire.Tensors[float64]) *Sum {
	return &Sum{Coverage: covered, fields: fields}
}

// Merge adds o to s. It does not change o and does not keep its memory. It returns a *schemas.OverlapError if both cover
// the same offset, and a *schemas.ShapeError if a field differs in shape; s is then unchanged.
func (s *Sum) Merge(o *Sum) error {
	o.addTiles()
	return s.merge(o, slices.Clone)
}

// MergeWhole is Merge for a sum that nobody uses afterwards. A field that s lacks is that of o from then on: partitions with rows to visit
// may come after one that has none. The memory of its Gram matrix and cross moments otherwise goes to the pools, which may be nil.
func (s *Sum) MergeWhole(o *Sum, buffers *BufferPool, crosses *CrossPool) error {
	if !o.isTile() {
		o.addTiles() // their sum is added, not one after the other
	}
	had := s.HasGram()
	var merged []string // cross moments
	for _, f := range o.fields {
		if _, both := s.find(f.Name); both && crosses != nil && statistics.IsCross(f.Name) {
			merged = append(merged, f.Name)
		}
	}
	if err := s.merge(o, func(data []float64) []float64 { return data }); err != nil {
		return err
	}
	if had {
		buffers.Put(o)
	}
	for _, name := range merged {
		crosses.PutField(o, name)
	}
	return nil
}

// merge is Merge for a sum whose Gram matrix is a field or one tile. A field that s lacks becomes what keep makes of that of o.
func (s *Sum) merge(o *Sum, keep func([]float64) []float64) error {
	s.Spread(nil)
	for _, f := range o.fields {
		mine, ok := s.find(f.Name)
		pairs := ofPairs(f.Name) && len(f.Data)%2 == 0 && len(mine.Data)%2 == 0
		same := slices.Equal(mine.Shape, o.occurring.shape(f)) && !statistics.ByColumn(f.Name)
		if ok && !pairs && !sameTables(mine, f) && !same {
			return &wire.ShapeError{Tensor: f.Name, Got: o.occurring.shape(f), Want: mine.Shape}
		}
	}
	if mine, theirs := s.gramSize(), o.gramSize(); mine > 0 && theirs > 0 && mine != theirs {
		return &wire.ShapeError{Tensor: statistics.FieldGram, Got: []int{theirs}, Want: []int{mine}}
	}
	if err := s.Coverage.Merge(o.Coverage); err != nil {
		return err
	}
	if o.isTile() {
		s.mergeTile(o)
	} else if o.HasGram() {
		s.addTiles()
	}
	for _, f := range o.fields {
		mine, ok := s.find(f.Name)
		switch {
		case o.occurring != nil && byColumn(f.Name):
			o.occurring.addTo(s.Field(f.Name, o.occurring.shape(f)...), f)
		case !ok:
			f.Data = keep(f.Data)
			s.fields = append(s.fields, f)
		case ofPairs(f.Name):
			s.set(mergedPairs(mine, f))
		case statistics.ByColumn(f.Name):
			s.set(mergedTables(mine, f))
		default:
			add(mine.Data, f.Data)
		}
	}
	return nil
}

// SetPart makes the fields of part, which it does not copy, fields of s whose names begin with that of the part and a slash.
func (s *Sum) SetPart(name string, part *Sum) {
	for _, f := range part.Tensors() {
		f.Name = name + "/" + f.Name
		s.fields = append(s.fields, f)
	}
}

// Part returns the sum whose fields [Sum.SetPart] has set. It covers what s does, and shares its memory.
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
