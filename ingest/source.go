package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// Source is a file, or an idx pair of images and labels, as a series of
// batches. Sources makes it.
type Source struct {
	// ID is the digest of the files' bytes, the split and the options that
	// change what is put on the topic: not of names or times. So a source that
	// is on the topic already is known, whatever it is called now.
	ID    string
	Split schemas.Split
	Files []string // one, or images and labels
	Width int      // features of each example
	Names []string // of the features, where a header has them

	format  string
	options Options
	digests []schemas.Digest
}

// identity is what a source's ID is the digest of. Options that the format
// does not use are left at zero.
type identity struct {
	Files      []schemas.Digest
	Split      string
	Format     string
	Classes    []string
	Partitions int
	BatchRows  int
	Label      Column
	Weight     Column
	Header     bool
	Missing    string
}

// Sources finds what the files of the options are, in their order, training
// before test. It reads each file once to digest it, and as much again as
// tells whether its first rows make sense: a missing file, another format, or
// another width than the first file's is a *FileError before anything is
// ingested. An option that Check finds impossible is a Problem.
func Sources(ctx context.Context, o Options) ([]Source, error) {
	if problems := o.Check(); problems != nil {
		return nil, problems[0]
	}
	train, err := sources(ctx, o, schemas.Train, o.Train)
	if err != nil {
		return nil, err
	}
	test, err := sources(ctx, o, schemas.Test, o.Test)
	if err != nil {
		return nil, err
	}
	all := append(train, test...)
	for i, s := range all {
		if first := all[0]; s.Width != first.Width {
			return nil, wholeFile(s.Files[0], fmt.Errorf("%d features, but %s has %d", s.Width, first.Files[0], first.Width))
		}
		if err := sameNames(all[0], s); err != nil {
			return nil, err
		}
		if j := slices.IndexFunc(all[:i], func(other Source) bool { return other.ID == s.ID }); j >= 0 {
			return nil, wholeFile(s.Files[0], fmt.Errorf("the same bytes as %s, and examples are counted once", all[j].Files[0]))
		}
	}
	return all, nil
}

// sameNames tells whether the features of two files are the same, as far as
// their headers say: columns count by their place.
func sameNames(first, s Source) error {
	if first.Names == nil || s.Names == nil {
		return nil
	}
	for i, name := range s.Names {
		if want := first.Names[i]; name != want {
			err := fmt.Errorf("feature %d is %q, but in %s it is %q: columns count by their place", i, name, first.Files[0], want)
			return &FileError{File: s.Files[0], Line: 1, Offset: -1, Err: err}
		}
	}
	return nil
}

func sources(ctx context.Context, o Options, split schemas.Split, files []string) ([]Source, error) {
	var found []Source
	for len(files) > 0 {
		s := Source{Split: split, options: o}
		var err error
		if s.format, err = o.formatOf(ctx, files[0]); err != nil {
			return nil, err
		}
		take := 1
		if s.format == formatIDX {
			take = 2
		}
		if len(files) < take {
			return nil, wholeFile(files[0], errors.New("without a pair: expected "+wantPairs))
		}
		s.Files, files = files[:take:take], files[take:]
		if err := s.identify(ctx); err != nil {
			return nil, err
		}
		r, err := s.open(ctx)
		if err != nil {
			return nil, err
		}
		s.Width = r.width()
		if named, ok := r.(*csvReader); ok {
			s.Names = named.names()
		}
		r.close()
		found = append(found, s)
	}
	return found, nil
}

func (o Options) formatOf(ctx context.Context, name string) (string, error) {
	c, err := openContent(ctx, name)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return o.formatOfContent(c)
}

func (o Options) formatOfContent(c *content) (string, error) {
	switch format := o.formatOfName(c.name); format {
	case formatIDX, formatCSV:
		return format, nil
	case "":
		found, err := looksLikeIDX(c)
		if err != nil {
			return "", err
		}
		if found {
			return formatIDX, nil
		}
		return "", wholeFile(c.name, errors.New("neither name nor content tells the format: set examples.format"))
	}
	return "", wholeFile(c.name, errors.New("unknown format: expected "+wantFormat))
}

func (s *Source) identify(ctx context.Context) error {
	for _, name := range s.Files {
		c, err := openContent(ctx, name)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, c.file)
		c.Close()
		if err != nil {
			return wholeFile(name, err)
		}
		s.digests = append(s.digests, c.digest())
	}
	o := s.options
	id := identity{
		Files: s.digests, Split: s.Split.String(), Format: s.format,
		Classes: slices.Sorted(slices.Values(o.Classes)), Partitions: o.Partitions, BatchRows: o.BatchRows,
	}
	if s.format == formatCSV {
		id.Label, id.Weight, id.Header, id.Missing = o.label(), o.Weight, o.hasHeader(), o.Missing
	}
	s.ID = string(schemas.DigestJSON(id))
	return nil
}

// reader is an open source of either format.
type reader interface {
	width() int
	// next answers io.EOF after the last batch. The batch is good until the
	// next call.
	next() (*schemas.ExampleRows, error)
	// contents are all read to their end when next has answered io.EOF.
	contents() []*content
	close()
}

func (s Source) open(ctx context.Context) (r reader, err error) {
	var opened []*content
	defer func() {
		if err != nil {
			closeAll(opened)
		}
	}()
	for _, name := range s.Files {
		c, err := openContent(ctx, name)
		if err != nil {
			return nil, err
		}
		opened = append(opened, c)
	}
	if s.format == formatIDX {
		return newIDXReader(opened[0], opened[1], s.options)
	}
	return newCSVReader(opened[0], s.options)
}

func closeAll(contents []*content) {
	for _, c := range contents {
		c.Close() // opened for reading: nothing to lose
	}
}

// Batches reads the source, in order, in batches of at most BatchRows rows
// that fit a message. They depend on the files' bytes and the options alone.
// After an error there is nothing more; it is a *FileError, or the context's.
//
// A batch is good until the next one is asked for: its columns are used again.
func (s Source) Batches(ctx context.Context) iter.Seq2[*schemas.ExampleRows, error] {
	return func(yield func(*schemas.ExampleRows, error) bool) {
		r, err := s.open(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.close()
		var splits []schemas.Split
		for rows, err := range all(ctx, r) {
			if err != nil {
				yield(nil, err)
				return
			}
			if s.Split != schemas.Train {
				for len(splits) < rows.Rows {
					splits = append(splits, s.Split)
				}
				rows.Splits = splits[:rows.Rows]
			}
			if !yield(rows, nil) {
				return
			}
		}
		for i, c := range r.contents() {
			if c.digest() != s.digests[i] {
				yield(nil, wholeFile(c.name, errors.New("changed while it was ingested")))
				return
			}
		}
	}
}

// File reads a file for prediction, in batches as Batches makes them, without
// labels and weights. A CSV has either width columns, all of them features, or
// those and the label's (and the weight's, if the options have one), which are
// left out. Of idx it is the file of images.
func File(ctx context.Context, name string, o Options, width int) iter.Seq2[*schemas.ExampleRows, error] {
	return func(yield func(*schemas.ExampleRows, error) bool) {
		if problems := o.Check(); problems != nil {
			yield(nil, problems[0])
			return
		}
		c, err := openContent(ctx, name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.Close()
		r, err := newFeatureReader(c, o, width)
		if err != nil {
			yield(nil, err)
			return
		}
		all(ctx, r)(yield)
	}
}

func newFeatureReader(c *content, o Options, width int) (reader, error) {
	format, err := o.formatOfContent(c)
	if err != nil {
		return nil, err
	}
	if format == formatIDX {
		return newImageReader(c, o, width)
	}
	return newCSVFeatureReader(c, o, width)
}

// all is what is left of a reader.
func all(ctx context.Context, r reader) iter.Seq2[*schemas.ExampleRows, error] {
	return func(yield func(*schemas.ExampleRows, error) bool) {
		for {
			rows, err := r.next()
			if ctx.Err() != nil {
				rows, err = nil, ctx.Err()
			}
			if err == io.EOF || !yield(rows, err) || err != nil {
				return
			}
		}
	}
}

const (
	// messageRoom leaves 10 KB of a message for its schema, its framing and the
	// padding of its columns, which together take less than 3.
	messageRoom = schemas.MaxMessage - 10_000
	// rowOverhead is what a row takes beside its features and the text of its
	// label: label 8 (number, or offset of the text), weight 4, split 4 and its
	// text 7, validity of each less than 1 together.
	rowOverhead = 24
)

// byteRowBytes is what a row of uint8 features takes in a message.
func byteRowBytes(cols int) int { return cols + rowOverhead }

// floatRowBytes is what a row of float32 features takes in a message, a bit
// for the validity of each included, and the text of its label not.
func floatRowBytes(cols int) int { return 4*cols + (cols+7)/8 + rowOverhead }
