package accumulate

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// Sum is a sum over examples: named arrays that add elementwise, an absent one
// being zero, and what was summed. The zero value is the sum over nothing.
type Sum struct {
	schemas.Coverage
	fields []schemas.Tensor[float64]
}

// Field is the array of that name, made of zeros if it is absent. It panics if
// it is there with another number of values.
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
	s.fields = append(s.fields, schemas.Tensor[float64]{Name: name, Shape: slices.Clone(shape), Data: make([]float64, size)})
	return s.fields[len(s.fields)-1].Data
}

// Take removes a field and returns it; false if it is absent.
func (s *Sum) Take(name string) (schemas.Tensor[float64], bool) {
	for i, f := range s.fields {
		if f.Name == name {
			s.fields = slices.Delete(s.fields, i, i+1)
			return f, true
		}
	}
	return schemas.Tensor[float64]{}, false
}

// Tensors is the fields, shared, in the order in which they were made.
func (s *Sum) Tensors() schemas.Tensors[float64] { return s.fields }

// NewSum is the sum with these fields, which it does not copy.
func NewSum(covered schemas.Coverage, fields schemas.Tensors[float64]) *Sum {
	return &Sum{covered, fields}
}

// Merge adds o to s. It answers with a *schemas.OverlapError if they share
// offsets, a *schemas.ShapeError if a field differs in shape, and leaves s as
// it was then. o is not changed and not kept.
func (s *Sum) Merge(o *Sum) error {
	for _, f := range o.fields {
		if mine, ok := schemas.Tensors[float64](s.fields).Find(f.Name); ok && !slices.Equal(mine.Shape, f.Shape) {
			return &schemas.ShapeError{Tensor: f.Name, Got: f.Shape, Want: mine.Shape}
		}
	}
	if err := s.Coverage.Merge(o.Coverage); err != nil {
		return err
	}
	for _, f := range o.fields {
		mine, ok := schemas.Tensors[float64](s.fields).Find(f.Name)
		if !ok {
			f.Data = slices.Clone(f.Data)
			s.fields = append(s.fields, f)
			continue
		}
		for i, v := range f.Data {
			mine.Data[i] += v
		}
	}
	return nil
}

// groupSize is how many partitions are merged before their groups are: a tree
// of merges can be put between without changing a bit.
const groupSize = 32

// Reduction merges the sums of partitions in a fixed order, in whatever order
// they come: partitions in order within their group, then the groups in order.
// It holds one sum a group.
type Reduction struct {
	Spares *Spares // gets the Gram matrices that are merged; may be nil

	parts  int
	groups []*Sum
	added  []int // to each group
}

// NewReduction is of so many partitions.
func NewReduction(parts int) *Reduction {
	groups := (parts + groupSize - 1) / groupSize
	return &Reduction{parts: parts, groups: make([]*Sum, groups), added: make([]int, groups)}
}

// Groups is how many there are.
func (r *Reduction) Groups() int { return len(r.groups) }

// Next is the ordinal of the partition that a group needs next; false when it
// has all of its own.
func (r *Reduction) Next(group int) (part int, more bool) {
	part = group*groupSize + r.added[group]
	return part, part < min((group+1)*groupSize, r.parts)
}

// Add merges the sum of the partition that the group needs next. It sums into
// the group's first, and keeps it. Errors are those of [Sum.Merge].
func (r *Reduction) Add(group int, part *Sum) error {
	r.added[group]++
	if r.groups[group] == nil {
		r.groups[group] = part
		return nil
	}
	if err := r.groups[group].Merge(part); err != nil {
		return err
	}
	r.Spares.Keep(part)
	return nil
}

// Sum is that of all partitions, once each is added.
func (r *Reduction) Sum() (*Sum, error) {
	for group := range r.groups {
		if part, more := r.Next(group); more {
			panic(fmt.Sprintf("accumulate: a reduction of %d partitions lacks the one at %d", r.parts, part))
		}
	}
	if len(r.groups) == 0 {
		return &Sum{}, nil
	}
	for _, group := range r.groups[1:] {
		if err := r.groups[0].Merge(group); err != nil {
			return nil, err
		}
		r.Spares.Keep(group)
	}
	return r.groups[0], nil
}

// Reduce merges the sums of partitions, which are in the order of partitions.
// It sums into them: they are not to be used again.
func Reduce(parts []*Sum) (*Sum, error) {
	r := NewReduction(len(parts))
	for i, part := range parts {
		if err := r.Add(i/groupSize, part); err != nil {
			return nil, err
		}
	}
	return r.Sum()
}
