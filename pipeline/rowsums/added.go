package rowsums

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/solve/online"
)

// adder adds the sums of segments in the order in which workers and the solver do. All have a row for each column of all segments, so no
// column is looked for.
type adder struct {
	columns [][]int32 // of each segment: the numbers of the columns that occur in it
	width   int       // number of columns of all segments
	memory  *online.Memory
}

// addend is the sum over some segments.
type addend struct {
	sum *accumulate.Sum // nil: over none
	tables
	columns []int32 // whose rows are not 0; some may be there twice
}

// begin finds the columns of the segments.
func (a *adder) begin(r *Rows, memory *online.Memory) {
	a.memory = memory
	a.width = len(r.summer.columns)
	seen, batch := make([]int, a.width), 0
	for i, segment := range r.segments {
		var columns []int32
		for range segment.Batches {
			block := r.summer.occurring.Batch(batch)
			for _, column := range block.Columns {
				if seen[column] <= i {
					seen[column] = i + 1
					columns = append(columns, column)
				}
			}
			if ones := int32(block.Cols); block.Ones && block.Rows > 0 && seen[ones] <= i {
				seen[ones] = i + 1
				columns = append(columns, ones)
			}
			batch++
		}
		a.columns = append(a.columns, columns)
	}
}

// of returns the sum over all segments: of those of a partition in their order, then of the partitions of a group, then of the groups.
func (a *adder) of(ctx context.Context, r *Rows, of Stage) (all addend, err error) {
	for group := range r.tree.Groups() {
		var sum addend
		from, to := r.tree.Range(group)
		for _, span := range r.spans[from:to] {
			part, err := a.partition(ctx, r, of, span.Partition)
			if err == nil {
				err = a.add(&sum, part)
			}
			if err != nil {
				return all, err
			}
		}
		if err := a.add(&all, sum); err != nil {
			return all, err
		}
	}
	if all.sum == nil {
		all.sum = &accumulate.Sum{}
	}
	return all, nil
}

// partition returns the sum over the segments of a partition.
func (a *adder) partition(ctx context.Context, r *Rows, of Stage, partition int) (sum addend, err error) {
	end := 0
	for i, segment := range r.segments {
		from := end
		if end += len(segment.Batches); segment.Partition != partition {
			continue
		}
		next := addend{sum: &accumulate.Sum{}, columns: a.columns[i]}
		if next.tables = r.summer.tables(ctx, next.sum, of, from, end, a.memory.Zeros); ctx.Err() != nil {
			return sum, ctx.Err()
		}
		if err := a.add(&sum, next); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// add adds next to sum, and takes its memory.
func (a *adder) add(sum *addend, next addend) error {
	switch {
	case next.sum == nil:
		return nil
	case sum.sum == nil:
		*sum = next
		return nil
	}
	for _, t := range []struct{ to, from []float64 }{{sum.cross, next.cross}, {sum.curvature, next.curvature}, {sum.reach, next.reach}} {
		if t.from == nil {
			continue
		}
		k := len(t.from) / a.width
		for _, column := range next.columns {
			row := t.from[int(column)*k:][:k]
			kernel.Add(t.to[int(column)*k:][:k], row)
			clear(row) // a column that is there twice is added once
		}
		a.memory.Put(t.from)
	}
	sum.columns = append(sum.columns[:len(sum.columns):len(sum.columns)], next.columns...)
	return sum.sum.MergeWhole(next.sum, nil, nil)
}
