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
	"path"
	"slices"
	"sync/atomic"
	"time"

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
		if found, err = liveFiles(ctx, from, l, o.Files, snapshotName{ID: o.Snapshot, AsOf: at}); err != nil {
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
	a.columns = a.layout.columnsOf(o)
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
