package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/parquet"
)

// Range reads the rows of a partition with offsets in a range, in order of offset. It holds a block of each open file. Several files are
// open only if they overlap.
type Range struct {
	archive   *Archive
	partition int
	from, to  int64   // to −1: to the end
	needed    int64   // offset before which a gap is an error
	files     []*file // that are not open yet
	leftOut   bool    // some files that begin before from, and may have rows, were left out
	wanted    func(path string) bool
	open      []*cursor
	begun     bool
	ahead     *Rows  // the next rows, also those before the range
	failed    error  // why there are no next rows
	end       int64  // offset after the last row, or of the next one after a gap
	file      string // of the last row; "": there was none
}

// cursor is an open file with its next rows.
type cursor struct {
	*contents
	head *Rows
	of   *file
	next int64   // offset of the next row, if rows do not include their offsets
	rows []*Rows // of an unsorted file: those after head; nil: the file is sorted
}

// Range returns a reader of the rows of a partition with offsets in [from, to). Rows before the offset needed must not be missing.
func (a *Archive) Range(partition int, from, to, needed int64) *Range {
	r := &Range{archive: a, partition: partition, from: from, to: to, needed: min(needed, to), wanted: a.wanted}
	if partition < len(a.partitions) && from < to {
		r.choose(true)
	}
	return r
}

// choose selects the files that may have rows of the range. A file that begins before the range may end before it too, if its end is
// unknown. Of these files, likely selects only the last to begin, because only files of different folders overlap.
func (r *Range) choose(likely bool) {
	all := r.archive.partitions[r.partition]
	search := func(offset int64) int {
		at, _ := slices.BinarySearchFunc(all, offset, func(f *file, offset int64) int { return cmp.Compare(f.first, offset) })
		return at
	}
	later := search(r.from + 1)
	for _, f := range all[:later] {
		switch end := f.end.Load(); {
		case end > r.from || end == 0 && (!likely || f.first == all[later-1].first):
			r.files = append(r.files, f)
		case end == 0:
			r.leftOut = true
		}
	}
	r.files = append(r.files, all[later:max(later, search(r.to))]...)
}

// Next returns the next rows, or one row with its copies; io.EOF after the last. An error is a *[GapError] if no file has the offsets
// before the next row, or before the end, and rows before the offset needed are missing. The next call continues after the gap.
func (r *Range) Next(ctx context.Context) (*Rows, error) {
	for {
		rows, err := r.next(ctx)
		gap, is := errors.AsType[*GapError](err)
		if err == io.EOF {
			gap = &GapError{Topic: r.archive.Topic, Partition: r.partition, From: max(r.end, r.from), To: r.to}
		} else if !is {
			return rows, err
		}
		if gap.To = min(gap.To, r.needed); gap.From >= gap.To {
			if is {
				continue
			}
			return rows, err
		}
		if !r.leftOut {
			r.end = max(r.end, gap.To)
			return rows, gap
		}
		_ = r.Close() // only read
		again := Range{archive: r.archive, partition: r.partition, from: gap.From, to: r.to, needed: r.needed, wanted: r.wanted}
		again.choose(false)
		*r = again
	}
}

// next returns the next rows. An error is a *[GapError] if the offsets before them are missing; the next call returns the rows.
func (r *Range) next(ctx context.Context) (*Rows, error) {
	if !r.begun {
		r.ahead, r.failed = r.rows(ctx)
		r.begun, r.end = true, r.from
	}
	for r.failed == nil {
		rows := r.ahead
		if rows.Offset >= r.to {
			r.failed = io.EOF
			break
		}
		another, end := rows.File != r.file, max(r.end, r.from)
		r.file, r.end = rows.File, rows.Offset
		if another && end < rows.Offset {
			return nil, &GapError{Topic: r.archive.Topic, Partition: r.partition, From: end, To: rows.Offset}
		}
		if n := r.to - rows.Offset; n < int64(rows.Len()) {
			rows, r.ahead = rows.Cut(0, int(n)), rows.Cut(int(n), rows.Len())
		} else {
			r.ahead, r.failed = r.rows(ctx)
		}
		r.end += int64(rows.Len())
		for ; r.failed == nil && r.ahead.Offset == rows.Offset; r.ahead, r.failed = r.rows(ctx) {
			rows.Copies = append(rows.Copies, r.ahead)
		}
		if before := max(0, r.from-rows.Offset); before < int64(rows.Len()) {
			return rows.Cut(int(before), rows.Len()), nil
		}
	}
	return nil, r.failed
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

// rows returns the next rows of all open files, and opens those that may have them. A row that may be in several files is returned alone.
func (r *Range) rows(ctx context.Context) (*Rows, error) {
	for {
		first, limit := -1, int64(math.MaxInt64) // the open file with the next row, and the offset of the next row in another file
		for i, c := range r.open {
			if first < 0 || c.head.Offset < r.open[first].head.Offset {
				first = i
			}
		}
		if len(r.files) > 0 && (first < 0 || r.files[0].first <= r.open[first].head.Offset) {
			if r.to >= 0 && r.files[0].first >= r.to && first < 0 {
				return nil, io.EOF
			}
			if err := r.begin(ctx, r.files[0]); err != nil {
				return nil, err
			}
			r.files = r.files[1:]
			continue
		}
		if first < 0 {
			return nil, io.EOF
		}
		for i, c := range r.open {
			if i != first {
				limit = min(limit, c.head.Offset)
			}
		}
		if len(r.files) > 0 {
			limit = min(limit, r.files[0].first)
		}
		c := r.open[first]
		rows := c.head
		if n := max(1, limit-rows.Offset); n < int64(rows.Len()) {
			c.head = rows.Cut(int(n), rows.Len())
			return rows.Cut(0, int(n)), nil
		}
		more, err := r.advance(c)
		if err != nil {
			return nil, err
		}
		if !more {
			_ = c.Close() // only read
			r.open = slices.Delete(r.open, first, first+1)
		}
		return rows, nil
	}
}

// begin opens a file.
func (r *Range) begin(ctx context.Context, f *file) error {
	contents, err := r.archive.open(ctx, f.dataFile, r.wanted)
	if err != nil {
		return err
	}
	contents.changed = r.archive.changed(ctx, contents)
	c := &cursor{contents: contents, of: f, next: f.first}
	more := false
	if f.sorted {
		more, err = r.advance(c)
	} else {
		more, err = r.load(c)
	}
	if err != nil || !more {
		_ = c.Close() // only read
		return err
	}
	r.open = append(r.open, c)
	return nil
}

// load reads all rows of a file that is not sorted.
func (r *Range) load(c *cursor) (more bool, err error) {
	var rows []*Rows
	for {
		if more, err = r.advance(c); err != nil || !more {
			break
		}
		for i := range c.head.Len() {
			rows = append(rows, c.head.Cut(i, i+1))
		}
	}
	if err != nil || len(rows) == 0 {
		return false, err
	}
	slices.SortStableFunc(rows, func(a, b *Rows) int { return cmp.Compare(a.Offset, b.Offset) })
	c.head, c.rows = rows[0], rows[1:]
	return true, nil
}

// advance reads the next rows of the partition; false: there are none.
func (r *Range) advance(c *cursor) (more bool, err error) {
	if c.rows != nil {
		if len(c.rows) > 0 {
			c.head, c.rows, more = c.rows[0], c.rows[1:], true
		}
		return more, nil
	}
	for {
		rows, err := c.contents.next()
		if err == io.EOF {
			c.of.end.Store(max(c.of.end.Load(), c.next))
			return false, nil
		}
		if err != nil {
			return false, err
		}
		n := int64(rows.Len())
		indexed, partition := r.archive.layout.of == nil, rows.partition()
		if partition != unknown && partition != r.partition {
			if indexed {
				continue
			}
			return false, c.fail(fmt.Errorf("row %d, counted from 0, is of partition %d, and the name of the file says %d: is it a file of "+
				"another topic?", c.row-n, partition, r.partition))
		}
		if rows.Offset == unknown {
			rows.Offset = c.next
		}
		if rows.Offset < c.next && !indexed {
			return false, c.fail(fmt.Errorf("row %d, counted from 0, has the offset %d: expected at least %d", c.row-n, rows.Offset, c.next))
		}
		c.next = rows.Offset + n
		c.head = rows
		return true, nil
	}
}

// Close closes the open files.
func (r *Range) Close() error {
	for _, c := range r.open {
		_ = c.Close() // only read
	}
	r.open, r.files = nil, nil
	return nil
}

// wanted returns a function that reports whether the properties in some columns, and the values at some paths, need a column at a path.
func wanted(columns [properties][]string, paths ...string) func(path string) bool {
	return parquet.Wanted(slices.Concat(append(columns[:], paths)...))
}
