package coverage

import (
	"cmp"
	"slices"
)

// GroupSize is the default number of partitions that are merged into a group before the groups are merged.
const GroupSize = 32

// Tree defines how sums over partitions associate: partitions in order within groups, then the groups in order. A worker with all
// partitions of a group, or of the first groups, can therefore merge their sums without changing a bit.
type Tree struct {
	Parts int // partitions
	Group int // partitions per group; 0: GroupSize
}

// Groups returns the number of groups.
func (t Tree) Groups() int { return (t.Parts + t.Size() - 1) / t.Size() }

// Size returns the number of partitions per group; the last group may have fewer.
func (t Tree) Size() int { return cmp.Or(t.Group, GroupSize) }

// Range returns the partitions of a group: the ordinal of the first, and the one after the last.
func (t Tree) Range(group int) (from, to int) {
	return group * t.Size(), min((group+1)*t.Size(), t.Parts)
}

// Has reports whether n merged partitions, beginning with from, are those of a group or of the first groups, and at least two.
func (t Tree) Has(from, n int) bool {
	if from < 0 || n < 2 || from%t.Size() != 0 || from > t.Parts-n || (from+n)%t.Size() != 0 && from+n != t.Parts {
		return false
	}
	return from == 0 || n <= t.Size()
}

// Blocks divides partitions, given by ascending ordinals, into the fewest blocks that can be merged: the first groups, groups, and single
// partitions.
func (t Tree) Blocks(ordinals []int) (blocks [][]int) {
	for len(ordinals) > 0 {
		n := 1
		for n < len(ordinals) && ordinals[n] == ordinals[0]+n {
			n++
		}
		for n > 1 && !t.Has(ordinals[0], n) {
			n--
		}
		blocks = append(blocks, ordinals[:n:n])
		ordinals = ordinals[n:]
	}
	return blocks
}

// Merged returns the numbers of n consecutive partitions of an ascending list, beginning with first; nil if the list has
// fewer.
func Merged(numbers []int, first, n int) []int {
	from, found := slices.BinarySearch(numbers, first)
	if !found || n < 0 || n > len(numbers)-from {
		return nil
	}
	return numbers[from : from+max(n, 1)]
}
