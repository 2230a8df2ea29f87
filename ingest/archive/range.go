package archive

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/parquet"
)

// Range iterates over the rows of a partition with offsets in [from, to), in order of offset: adjacent rows, or one row with its copies. An
// error is a *[GapError] if no file has the offsets before the next rows, or before the end, and rows before the offset needed are missing.
// The iteration continues after the gap. It holds a block of each open file; several files are open only if they overlap.
func (a *Archive) Range(ctx context.Context, partition int, from, to, needed int64) iter.Seq2[*Rows, error] {
	return func(yield func(*Rows, error) bool) {
		next, again := a.read(ctx, partition, from, to, min(needed, to), true, yield)
		if again {
			a.read(ctx, partition, next, to, min(needed, to), false, yield)
		}
	}
}

// read yields the rows of a range in the files that choose selects. again means that it ended at the offset next, because files that were
// left out may have the rows from there on.
func (a *Archive) read(ctx context.Context, partition int, from, to, needed int64, likely bool, yield func(*Rows, error) bool) (
	next int64, again bool) {
	files, leftOut := a.choose(partition, from, to, likely)
	file := "" // of the last rows
	next = from
	lacks := func(end int64) (stop bool) {
		gap := &GapError{Topic: a.Topic, Partition: partition, From: next, To: min(end, needed)}
		if gap.From >= gap.To {
			return false
		}
		if again = leftOut; again {
			return true
		}
		next = gap.To
		return !yield(nil, gap)
	}
	for rows, err := range a.merge(ctx, partition, files) {
		switch {
		case err != nil:
			yield(nil, err)
			return next, false
		case rows.File != file && lacks(rows.Offset):
			return next, again
		case rows.Offset >= to:
			return next, false
		}
		file, next = rows.File, max(next, rows.Offset) // offsets that are missing within a file are no gap
		if end := min(rows.Offset+int64(rows.Len()), to); end > next {
			if !yield(rows.Cut(int(next-rows.Offset), int(end-rows.Offset)), nil) {
				return next, false
			}
			next = end
		}
	}
	lacks(to)
	return next, again
}

// choose returns the files that may have rows of a range. A file that begins before the range may end before it too, if its end is
// unknown. Of these files, likely selects only the last to begin, because only files of different folders overlap.
func (a *Archive) choose(partition int, from, to int64, likely bool) (files []*file, leftOut bool) {
	if partition >= len(a.partitions) || from >= to {
		return nil, false
	}
	all := a.partitions[partition]
	search := func(offset int64) int {
		at, _ := slices.BinarySearchFunc(all, offset, func(f *file, offset int64) int { return cmp.Compare(f.first, offset) })
		return at
	}
	later := search(from + 1)
	for _, f := range all[:later] {
		switch end := f.end.Load(); {
		case end > from || end == 0 && (!likely || f.first == all[later-1].first):
			files = append(files, f)
		case end == 0:
			leftOut = true
		}
	}
	return append(files, all[later:max(later, search(to))]...), leftOut
}

// GapError means that neither an archive nor the topic has some messages.
type GapError struct {
	Topic     string
	Partition int
	From, To  int64 // the offsets, [From, To)
}

// Error includes the remedy.
func (e *GapError) Error() string {
	return fmt.Sprintf("%s[%d]: neither the archive nor the topic has the offsets %d to %d: add the files with them to "+
		"examples.archive.files, or set examples.archive.on_gap to %s to count them as lost", e.Topic, e.Partition, e.From, e.To-1, GapContinue)
}

// cursor is an open file with its next rows.
type cursor struct {
	head *Rows // nil: there are none
	pull func() (*Rows, error, bool)
	stop func() // closes the file before its end
}

// take returns the next rows, before an offset.
func (c *cursor) take(before int64) (rows *Rows, err error) {
	rows = c.head
	if n := before - rows.Offset; n < int64(rows.Len()) {
		c.head = rows.Cut(int(n), rows.Len())
		return rows.Cut(0, int(n)), nil
	}
	c.head, err, _ = c.pull()
	return rows, err
}

// merge iterates over the rows of files, which are sorted by their first offsets. A row that may be in several files comes alone, with its
// copies.
func (a *Archive) merge(ctx context.Context, partition int, files []*file) iter.Seq2[*Rows, error] {
	return func(yield func(*Rows, error) bool) {
		var open []*cursor
		defer func() {
			for _, c := range open {
				c.stop()
			}
		}()
		for {
			slices.SortStableFunc(open, func(a, b *cursor) int { return cmp.Compare(a.head.Offset, b.head.Offset) })
			var rows *Rows
			var err error
			switch {
			case len(files) > 0 && (len(open) == 0 || files[0].first <= open[0].head.Offset):
				c := &cursor{}
				c.pull, c.stop = iter.Pull2(a.rowsOf(ctx, partition, files[0], a.wanted))
				c.head, err, _ = c.pull()
				open, files = append(open, c), files[1:]
			case len(open) == 0:
				return
			default:
				offset, another := open[0].head.Offset, int64(math.MaxInt64) // of the rows, and of the next ones of another file
				if len(open) > 1 {
					another = open[1].head.Offset
				}
				if len(files) > 0 {
					another = min(another, files[0].first)
				}
				rows, err = open[0].take(max(another, offset+1))
				for _, c := range open {
					for err == nil && c.head != nil && c.head.Offset == offset {
						var copied *Rows
						copied, err = c.take(offset + 1)
						rows.Copies = append(rows.Copies, copied)
					}
				}
			}
			if rows != nil && !yield(rows, nil) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			open = slices.DeleteFunc(open, func(c *cursor) bool { return c.head == nil })
		}
	}
}

// rowsOf iterates over the rows of a partition in a file, in order of offset. At the end, the end of the file is known.
func (a *Archive) rowsOf(ctx context.Context, partition int, f *file, wanted func(path string) bool) iter.Seq2[*Rows, error] {
	return func(yield func(*Rows, error) bool) {
		next, indexed, unsorted := f.first, a.layout.of == nil, []*Rows(nil)
		for rows, err := range a.rowsIn(ctx, f.dataFile, wanted) {
			if err != nil {
				yield(nil, err)
				return
			}
			found := rows.partition()
			other := found != unknown && found != partition
			if other && indexed {
				continue
			}
			if rows.Offset == unknown {
				rows.Offset = next
			}
			switch {
			case other:
				err = rows.fail("row %d, counted from 0, is of partition %d, and the name of the file says %d: is it a file of another topic?",
					rows.number, found, partition)
			case rows.Offset < next && !indexed:
				err = rows.fail("row %d, counted from 0, has the offset %d: expected at least %d", rows.number, rows.Offset, next)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			next = rows.Offset + int64(rows.Len())
			if !f.sorted { // all of them are needed
				for i := range rows.Len() {
					unsorted = append(unsorted, rows.Cut(i, i+1))
				}
			} else if !yield(rows, nil) {
				return
			}
		}
		f.end.Store(max(f.end.Load(), next))
		slices.SortStableFunc(unsorted, func(a, b *Rows) int { return cmp.Compare(a.Offset, b.Offset) })
		for _, rows := range unsorted {
			if !yield(rows, nil) {
				return
			}
		}
	}
}

// wanted returns a function that reports whether the properties in some columns, and the values at some paths, need a column at a path.
func wanted(columns [properties][]string, paths ...string) func(path string) bool {
	return parquet.Wanted(slices.Concat(append(columns[:], paths)...))
}
