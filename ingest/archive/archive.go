// Package archive reads the messages of a topic from files to which a sink has written them, each with its partition and offset.
// The files are in directories or buckets, or on a web server.
//
// A layout defines where file names and rows have the topic, the partition and the offset. A row of a file is decoded once, and
// package ingest reads it like a message of a topic.
package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
)

// Archive is the listing of an archive. It is safe for concurrent use.
type Archive struct {
	Topic string

	store      store
	layout     layout
	columns    [properties][]string
	wanted     func(path string) bool // nil: all columns
	partitions [][]*file              // each by first offset

	paths   []string // of the values that are read; nil: unknown
	first   string   // name of the first file
	numbers []string // the paths at which it has numbers
}

// file is a file with rows of a partition.
type file struct {
	dataFile
	first  int64
	end    atomic.Int64 // offset after its last row; 0: not known yet
	sorted bool
}

// Open lists the files of an archive. If file names do not include offsets, it reads the offsets from the rows. topic is the topic of the
// messages; if it is empty, the files name the topic. columns are the paths of the values to read; nil means all of them.
func Open(ctx context.Context, o Options, topic string, columns []string) (*Archive, error) {
	from, err := openStore(o.Files, o)
	if err != nil {
		return nil, err
	}
	a := &Archive{Topic: topic, store: from}
	var found []dataFile
	if l, _ := layoutOf(o.Layout, ""); l.live != nil {
		at, _ := time.Parse(time.RFC3339, o.AsOf)
		root := strings.TrimSuffix(strings.TrimSuffix(o.Files, "**"), "/")
		if found, err = l.live(&table{ctx: ctx, store: from, root: root}, snapshotName{ID: o.Snapshot, AsOf: at}); err != nil {
			return nil, err
		}
	} else {
		for file, err := range from.List(ctx, o.Files) {
			if err != nil {
				return nil, err
			}
			found = append(found, dataFile{Path: file})
		}
	}
	if len(found) == 0 {
		return nil, input.WholeFile(o.Files, errNoFiles)
	}
	if a.layout, err = layoutOf(o.Layout, found[0].Path); err != nil {
		return nil, err
	}
	a.columns = a.layout.columns
	for i, name := range []string{o.Partition, o.Offset, o.Timestamp, o.Key} {
		if name != "" {
			a.columns[i] = []string{name}
		}
	}
	if columns != nil {
		paths := slices.Clone(columns)
		if a.layout.value != "" {
			for _, c := range columns {
				paths = append(paths, a.layout.value+"."+c)
			}
		}
		a.wanted, a.paths = wanted(a.columns, paths...), paths
	}
	if a.layout.of == nil {
		err = a.index(ctx, found)
	} else {
		err = a.place(found)
	}
	if err != nil {
		return nil, err
	}
	for _, files := range a.partitions {
		slices.SortFunc(files, func(a, b *file) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.Path, b.Path)) })
	}
	a.first, a.numbers = a.numbersOfFirst(ctx)
	return a, nil
}

// TopicOf returns the topic of the messages in an archive, according to its first file. It returns a topic even with an error.
func TopicOf(ctx context.Context, o Options) (string, error) {
	from, err := openStore(o.Files, o)
	if l, _ := layoutOf(o.Layout, ""); err != nil || o.Layout != "" && l.of == nil {
		return unnamed, err
	}
	for file, err := range from.List(ctx, o.Files) {
		if err != nil {
			return unnamed, err
		}
		l, err := layoutOf(o.Layout, file)
		if err != nil {
			return unnamed, err
		}
		if p, besides, ok := l.placeOf(file); ok && !besides {
			return p.topic, nil
		}
	}
	return unnamed, input.WholeFile(o.Files, errNoFiles)
}

// unnamed is the topic of an archive whose files do not say it.
const unnamed = "archive"

var errNoFiles = errors.New("no files of an archive: check examples.archive.files and examples.archive.layout")

// layoutOf returns the layout with the given name. If the name is empty, it returns the layout that the file's name matches.
func layoutOf(name, file string) (layout, error) {
	for _, l := range layouts() {
		matches := false
		if name == "" && l.of != nil {
			_, _, matches = l.placeOf(file)
		}
		if matches || l.name == name {
			return l, nil
		}
	}
	return layout{}, input.WholeFile(file, errors.New("no file name of a sink: set examples.archive.layout to where rows have partition "+
		"and offset"))
}

// place finds partitions and offsets in the names of files.
func (a *Archive) place(files []dataFile) error {
	for _, f := range files {
		name := f.Path
		p, besides, ok := a.layout.placeOf(name)
		switch {
		case besides:
			continue
		case !ok:
			return input.WholeFile(name, fmt.Errorf("not named as files of the layout %s: %s", a.layout.name, a.layout.meaning))
		case a.Topic == "":
			a.Topic = p.topic
		case p.topic != a.Topic:
			return input.WholeFile(name, fmt.Errorf("a file of the topic %s: expected files of %s; make the pattern examples.archive.files narrower",
				p.topic, a.Topic))
		}
		a.add(p.partition, &file{dataFile: f, first: p.first, sorted: true})
	}
	return nil
}

// maxPartitions limits the partitions that rows may have.
const maxPartitions = 100_000

// index finds partitions and offsets in the rows of files.
func (a *Archive) index(ctx context.Context, files []dataFile) error {
	needed := wanted([properties][]string{atPartition: a.columns[atPartition], atOffset: a.columns[atOffset]})
	for _, of := range files {
		found := map[int]*file{}
		for rows, err := range a.rowsIn(ctx, of, needed) {
			if err != nil {
				return err
			}
			partition := rows.partition()
			if rows.Offset == unknown || partition == unknown {
				return rows.fail("row %d, counted from 0: no partition and offset: set examples.archive.partition and "+
					"examples.archive.offset to the columns that have them", rows.number)
			}
			f := found[partition]
			if f == nil {
				f = &file{dataFile: of, first: rows.Offset, sorted: true}
				found[partition] = f
				a.add(partition, f)
			}
			end := f.end.Load()
			f.sorted, f.first = f.sorted && rows.Offset >= end, min(f.first, rows.Offset)
			f.end.Store(max(end, rows.Offset+int64(rows.Len())))
		}
	}
	a.Topic = cmp.Or(a.Topic, unnamed)
	return nil
}

func (a *Archive) add(number int, f *file) {
	for len(a.partitions) <= number {
		a.partitions = append(a.partitions, nil)
	}
	a.partitions[number] = append(a.partitions[number], f)
}

// Partitions returns the number of partitions.
func (a *Archive) Partitions() int { return len(a.partitions) }

// First returns the first offset of a partition; false: it has no files.
func (a *Archive) First(number int) (offset int64, ok bool) {
	if number >= len(a.partitions) || len(a.partitions[number]) == 0 {
		return 0, false
	}
	return a.partitions[number][0].first, true
}

// Bounds returns the first offset of a partition, and the offset after its last row. They are equal if it has no files.
func (a *Archive) Bounds(ctx context.Context, number int) (first, end int64, err error) {
	first, ok := a.First(number)
	if !ok {
		return 0, 0, nil
	}
	// A sink fills a folder in order. With a folder for each hour, files of several folders overlap.
	folders := map[string][]*file{}
	for _, f := range a.partitions[number] {
		folder := path.Dir(f.Path)
		folders[folder] = append(folders[folder], f)
	}
	for _, files := range folders {
		for i, f := range slices.Backward(files) {
			if f.end.Load() == 0 {
				for _, err := range a.rowsOf(ctx, number, f, wanted(a.columns)) {
					if err != nil {
						return 0, 0, err
					}
				}
			}
			to := f.end.Load()
			if end = max(end, to); i+1 < len(files) && to <= files[i+1].first {
				break // the last of overlapping files need not be the one that ends last
			}
		}
	}
	return first, end, nil
}

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
