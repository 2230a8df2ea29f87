package accumulate

import (
	"cmp"
	"fmt"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// Reduction merges the sums of partitions in a fixed order: partitions in order within their group, then the groups in
// order. It takes the sum of a partition, of a whole group, or of the first groups, whichever comes: all have the same bits. It holds
// one sum of the first groups, and one for each later group that has begun.
type Reduction struct {
	Buffers *BufferPool // takes the memory of merged Gram matrices; may be nil
	Crosses *CrossPool  // takes that of merged cross moments; may be nil

	tree   coverage.Tree
	first  *Sum // of the groups before next
	next   int  // the first group that is not part of first
	groups map[int]*begun
}

// begun is a group of which partitions have come.
type begun struct {
	sum   *Sum
	added int // partitions
}

// NewReduction returns the reduction of as many partitions as the tree has.
func NewReduction(tree coverage.Tree) *Reduction {
	return &Reduction{tree: tree, groups: map[int]*begun{}}
}

// Groups returns the number of groups.
func (r *Reduction) Groups() int { return r.tree.Groups() }

// First returns how many groups, the first ones, are reduced.
func (r *Reduction) First() int { return r.next }

// Next returns the ordinal of the partition that a group needs next, or false if the group is complete.
func (r *Reduction) Next(group int) (part int, more bool) {
	from, to := r.tree.Range(group)
	if group < r.next {
		return to, false
	}
	if g := r.groups[group]; g != nil {
		from += g.added
	}
	return from, from < to
}

// Add merges the sum of the partition that the group needs next. The caller must not use part any more, as the group may
// keep it. Errors are those of [Sum.Merge].
func (r *Reduction) Add(group int, part *Sum) error {
	g := r.groups[group]
	if g == nil {
		r.groups[group] = &begun{part, 1}
	} else if g.added++; true {
		if err := g.sum.MergeWhole(part, r.Buffers, r.Crosses); err != nil {
			return err
		}
	}
	return r.fold()
}

// AddGroup takes the sum of a whole group, which is not complete, instead of those of its partitions that have come. The caller must not
// use it any more.
func (r *Reduction) AddGroup(group int, sum *Sum) error {
	from, to := r.tree.Range(group)
	r.drop(group)
	r.groups[group] = &begun{sum, to - from}
	return r.fold()
}

// AddFirst takes the sum of the first groups, of more than [Reduction.First], instead of what has come of them. The caller must not use
// it any more.
func (r *Reduction) AddFirst(groups int, sum *Sum) error {
	for group := range groups {
		r.drop(group)
	}
	if r.first != nil {
		r.putBack(r.first)
	}
	r.first, r.next = sum, groups
	return r.fold()
}

// drop drops what has come of a group.
func (r *Reduction) drop(group int) {
	if g := r.groups[group]; g != nil {
		r.putBack(g.sum)
		delete(r.groups, group)
	}
}

func (r *Reduction) putBack(sum *Sum) {
	r.Buffers.Put(sum)
	r.Crosses.Put(sum)
}

// fold adds the groups that are complete to those before them.
func (r *Reduction) fold() error {
	for r.next < r.Groups() {
		g := r.groups[r.next]
		if g == nil {
			return nil
		}
		if _, more := r.Next(r.next); more {
			return nil
		}
		delete(r.groups, r.next)
		r.next++
		if r.first == nil {
			r.first = g.sum
		} else if err := r.first.MergeWhole(g.sum, r.Buffers, r.Crosses); err != nil {
			return err
		}
	}
	return nil
}

// AddReady adds the sums that have come. come returns the sum of the partitions from one ordinal to before another, or nil if it has
// not come: it is asked for the first groups, for groups and for single partitions. AddReady returns the ordinal of a partition that lacks;
// -1 if none does.
func (r *Reduction) AddReady(come func(from, to int) (*Sum, error)) (lacking int, err error) {
	for groups := r.Groups(); groups > max(r.First(), 1); groups-- {
		_, to := r.tree.Range(groups - 1)
		if to == 1 {
			continue
		}
		sum, err := come(0, to)
		if err == nil && sum != nil {
			err = r.AddFirst(groups, sum)
		}
		if err != nil {
			return 0, err
		}
	}
	lacking = -1
	for group := r.First(); group < r.Groups(); group++ {
		if _, more := r.Next(group); !more {
			continue
		}
		if from, to := r.tree.Range(group); to-from > 1 {
			sum, err := come(from, to)
			if err == nil && sum != nil {
				err = r.AddGroup(group, sum)
			}
			if err != nil {
				return 0, err
			}
		}
		for ordinal, more := r.Next(group); more; ordinal, more = r.Next(group) {
			sum, err := come(ordinal, ordinal+1)
			if err != nil {
				return 0, err
			}
			if sum == nil {
				lacking = max(lacking, ordinal)
				break
			}
			if err := r.Add(group, sum); err != nil {
				return 0, err
			}
		}
	}
	return lacking, nil
}

// Sum returns the sum over all partitions. It panics unless each partition was added. It may be called once.
func (r *Reduction) Sum() (*Sum, error) {
	if r.next < r.Groups() {
		part, _ := r.Next(r.next)
		panic(fmt.Sprintf("accumulate: the sum of partition %d of %d is missing", part, r.tree.Parts))
	}
	return cmp.Or(r.first, &Sum{}), nil
}
