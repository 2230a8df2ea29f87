package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// Source is a file, or several files that belong together, as the images and
// labels of idx do. Sources makes it; the zero value can't be read.
type Source struct {
	// ID is the digest of the files' bytes and of how their columns are read. So
	// the same examples have the same ID under any name, in any split, and however
	// they are cut into messages, and count once.
	ID    string
	Split schemas.Split // what the examples are for
	Files []string      // in the order of the options, as people know them
	Width int           // number of features of each example
	// Columns are those that the features are of; nil if the files don't say.
	Columns schemas.Columns
	// Vocabulary has the words and phrases of texts, in the order of their columns;
	// nil if they are not texts, or if a hash gives their columns.
	Vocabulary []string

	format  format
	options Options
	opened  []string         // the names of Files in the options
	digests []schemas.Digest // of Files
}

// identity is the JSON whose digest is the ID of a source. So the names and the
// order of the fields must not change.
type identity struct {
	Files  []schemas.Digest
	Format string
	reading
}

// Sources returns the sources that the files of the options make, in their
// order, those to train on first. It reads every file once, for its digest and
// for the words of Categorical and of a counted vocabulary, and its first rows
// again to see whether they make sense. So a missing file, a
// file of another format, and a file with other features than the first are a
// *FileError before anything is published. An option that does not pass Check
// is a schemas.Problem.
func Sources(ctx context.Context, o Options) ([]Source, error) {
	return find(ctx, o, true)
}

// Inspect is Sources without the digests: it reads the first rows of each file,
// and more only to find the words of Categorical and of a counted vocabulary. So the sources have no ID, and
// files with the same bytes are not found.
func Inspect(ctx context.Context, o Options) ([]Source, error) {
	return find(ctx, o, false)
}

func find(ctx context.Context, o Options, digests bool) ([]Source, error) {
	if problems := o.Check(); problems != nil {
		return nil, problems[0]
	}
	var err error
	if o.Train, err = Files(o.Train); err != nil {
		return nil, err
	}
	if o.Test, err = Files(o.Test); err != nil {
		return nil, err
	}
	if o.FindsWords() {
		if o, err = o.findWords(ctx, o.Train, digests); err != nil {
			return nil, err
		}
	}
	train, err := sources(ctx, o, schemas.Train, o.Train, digests)
	if err != nil {
		return nil, err
	}
	test, err := sources(ctx, o, schemas.Test, o.Test, digests)
	if err != nil {
		return nil, err
	}
	all := append(train, test...)
	for i, s := range all {
		if first := all[0]; s.Width != first.Width {
			return nil, wholeFile(s.Files[0], fmt.Errorf("%d features, but %s has %d", s.Width, first.Files[0], first.Width))
		}
		if err := sameColumns(all[0], s); err != nil {
			return nil, err
		}
		if j := slices.IndexFunc(all[:i], func(other Source) bool { return s.ID != "" && other.ID == s.ID }); j >= 0 {
			return nil, wholeFile(s.Files[0], fmt.Errorf("the same bytes as %s: an example can't count twice", all[j].Files[0]))
		}
	}
	return all, nil
}

// sameColumns returns an error if two sources have different columns. A model
// knows a feature by its place, not by its name.
func sameColumns(first, s Source) error {
	if first.Columns == nil || s.Columns == nil {
		return nil
	}
	if difference := s.Columns.Difference(first.Columns); difference != "" {
		err := fmt.Errorf("%s, as in %s: all files need the same columns in the same order", difference, first.Files[0])
		e := wholeFile(s.Files[0], err)
		if slices.Contains(s.format.keys, "header") {
			e.Line = 1
		}
		return e
	}
	return nil
}

// sources makes the sources of one split.
func sources(ctx context.Context, o Options, split schemas.Split, files []string, digests bool) ([]Source, error) {
	var found []Source
	for len(files) > 0 {
		f, err := o.formatOfFile(ctx, files[0])
		if err != nil {
			return nil, err
		}
		if len(files) < f.files {
			return nil, wholeFile(shown(files[0]), fmt.Errorf("no file follows it: expected %s %s", f.name, f.wantFiles))
		}
		s := Source{Split: split, Vocabulary: o.phrases, format: f, options: o, opened: files[:f.files:f.files]}
		for _, name := range s.opened {
			s.Files = append(s.Files, shown(name))
		}
		if digests {
			if err := s.digest(ctx); err != nil {
				return nil, err
			}
		}
		if err := s.describe(ctx); err != nil {
			return nil, err
		}
		found, files = append(found, s), files[f.files:]
	}
	return found, nil
}

func (o Options) formatOfFile(ctx context.Context, name string) (format, error) {
	c, err := o.openContent(ctx, name)
	if err != nil {
		return format{}, err
	}
	defer c.Close()
	return o.formatOf(c)
}

// digest sets the digests of the files.
func (s *Source) digest(ctx context.Context) error {
	for _, name := range s.opened {
		if known, ok := s.options.digests[name]; ok {
			s.digests = append(s.digests, known)
			continue
		}
		c, err := s.options.openContent(ctx, name)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, c.file)
		c.Close()
		if err != nil {
			return wholeFile(c.name, err)
		}
		s.digests = append(s.digests, c.digest())
	}
	return nil
}

// describe sets the ID, if there are digests, and the width and the names of the
// features.
func (s *Source) describe(ctx context.Context) error {
	r, opened, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll(opened)
	if s.digests != nil {
		s.ID = string(schemas.DigestJSON(identity{s.digests, s.format.name, r.reading()}))
	}
	s.Width, s.Columns = r.width(), r.columns()
	if shape := s.options.Shape(); shape != (schemas.Image{}) && shape.Size() != s.Width {
		return wholeFile(s.Files[0], fmt.Errorf("%d features, but examples.image %v has %d: expected as many", s.Width, s.options.Image, shape.Size()))
	}
	if s.format.inspect == nil || s.Split != schemas.Train { // a few rows to test on show nothing
		return nil
	}
	return s.format.inspect(r)
}

// names returns the names of the files without their folders.
func (s *Source) names() (names []string) {
	for _, f := range s.Files {
		names = append(names, filepath.Base(f))
	}
	return names
}

// open returns a reader of the source and its files. The caller closes the
// files, unless there is an error.
func (s *Source) open(ctx context.Context) (r reader, opened []*content, err error) {
	defer func() {
		if err != nil {
			closeAll(opened)
		}
	}()
	for _, name := range s.opened {
		c, err := s.options.openContent(ctx, name)
		if err != nil {
			return nil, opened, err
		}
		opened = append(opened, c)
	}
	r, err = s.format.open(opened, s.options)
	return r, opened, err
}

func closeAll(contents []*content) {
	for _, c := range contents {
		c.Close() // it was only read, so an error loses nothing
	}
}

// Batches reads the source in order, in batches of at most BatchRows rows that
// fit a message. The batches depend on the files' bytes and the options alone.
// An error is the last value; it is a *FileError or the context's error.
//
// A batch is valid until the next one is read, which overwrites its columns.
func (s Source) Batches(ctx context.Context) iter.Seq2[*schemas.ExampleRows, error] {
	return func(yield func(*schemas.ExampleRows, error) bool) {
		r, opened, err := s.open(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer closeAll(opened)
		var splits []schemas.Split
		for rows, err := range all(ctx, r) {
			if err != nil {
				yield(nil, err)
				return
			}
			if shape := s.options.Shape(); shape != (schemas.Image{}) {
				rows.Image = shape
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
		for i, c := range opened {
			if c.digest() != s.digests[i] {
				yield(nil, wholeFile(c.name, errors.New("the file changed while it was ingested")))
				return
			}
		}
	}
}

// File reads rows to predict from a file, in batches as Batches makes them,
// without labels and weights. want says what the model needs; a file that lacks
// it is a *FileError. A CSV with a header may have its columns in any order, and
// more than the model needs. In one without, columns that the options give by
// name are not looked for. For idx it is the file of images.
func File(ctx context.Context, name string, o Options, want Features) iter.Seq2[*schemas.ExampleRows, error] {
	return func(yield func(*schemas.ExampleRows, error) bool) {
		o.predicts = true
		checked := o
		if o.Header != nil && !*o.Header {
			checked.Header = nil // training may have had one
		}
		if problems := checked.check([]string{name}); problems != nil {
			yield(nil, problems[0])
			return
		}
		c, err := o.openContent(ctx, name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.Close()
		f, err := o.formatOf(c)
		if err != nil {
			yield(nil, err)
			return
		}
		r, err := f.openFeatures(c, o, want)
		if err != nil {
			yield(nil, err)
			return
		}
		all(ctx, r)(yield)
	}
}

// all iterates over the batches that a reader has left.
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
	// maxBatchBytes is the maximum size of the rows of a message. It leaves 10 KB
	// for the schema, the framing and the padding of the columns, which
	// together take less than 3.
	maxBatchBytes = schemas.MaxMessage - 10_000
	// rowOverhead is how many bytes a row takes beside its features and the text
	// of its label: label 8 (number, or offset of the text), weight 4, split 4
	// and its text 7, and less than 1 for the validity of all of them.
	rowOverhead = 24
)

// byteRowBytes is how many bytes of a message a row of uint8 features takes.
func byteRowBytes(cols int) int { return cols + rowOverhead }

// floatRowBytes is how many bytes of a message a row of float32 features takes,
// with a bit for the validity of each, without the text of its label.
func floatRowBytes(cols int) int { return 4*cols + (cols+7)/8 + rowOverhead }
