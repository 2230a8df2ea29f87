// Package format defines the interface of input formats: how files are recognised and opened as batches of examples, and how the values
// of messages are decoded to rows of cells. The columns of such a row are identified by name, or by path if they are nested. A format is a
// line in the table of package ingest.
package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Format is an input format. Its value owns everything that is specific to the format. To add a format, write one file
// with its value and list it in formats.
type Format struct {
	// Name is the value of examples.format.
	Name string
	// Meaning describes the files, for the documentation.
	Meaning string
	// Patterns match file names, as in path.Match. Names are compared in lower case, without directory and without .gz, .bz2
	// or .zst.
	Patterns []string
	// IsText reports whether the files are text, which may have an encoding other than UTF-8.
	IsText bool

	// ReadsFolders reports whether a directory is a source of this format, regardless of its file names.
	ReadsFolders bool

	// Files is the number of files of a source; 0: only messages have the format.
	Files int
	// WantFiles describes these files, for errors and the documentation; "" for one file.
	WantFiles string

	// Label is the default column of the label; "": the files have no columns.
	Label layout.Column
	// HasHeader reports whether the first row of a file may have the names of the columns.
	HasHeader bool
	// OneLabel reports whether the examples always have one label.
	OneLabel bool

	// IsSparse reports whether the rows are lists of index and value, which may be converted to dense ones: there are no columns that keys may
	// name.
	IsSparse bool

	// Table opens a file that is a table. nil: Rows reads the files. want describes the rows to predict; nil means that rows are for training.
	Table func(c *input.Content, o layout.Options, want *layout.Features) (Table, error)
	// Rows opens the examples in the files of a source, or the rows to predict, without labels, in one file.
	Rows func(files []*input.Content, o layout.Options, want *layout.Features) (*Reader, error)

	// Values describes the values of messages, for errors; "": as Meaning does.
	Values string
	// Decoder returns a decoder of the values of messages. nil: only files have the format.
	Decoder func(Options) (Decoder, error)
	// Width returns the number of columns to read from messages without column names whose first row has n columns. exact means that all
	// rows must have n columns. Nil means that columns have names.
	Width func(o layout.Options, n int) (columns int, exact bool, err error)
	// Unframed means that values never have the framing of a schema registry.
	Unframed bool
	// Schema is the schema language of the values: the file extension, and the schema type in a registry. The zero value: no
	// schema is needed.
	Schema SchemaKind
}

// IsOfFiles reports whether files have the format.
func (f Format) IsOfFiles() bool { return f.Files > 0 }

// IsOfMessages reports whether messages have the format.
func (f Format) IsOfMessages() bool { return f.Decoder != nil }

// IsTable reports whether the files have columns, which keys may name.
func (f Format) IsTable() bool { return f.Table != nil && !f.IsSparse }

// Open opens the examples in the files of a source, or the rows to predict in one file if there are features that a model wants. It returns
// a *input.Error if the rows don't have these. all collects the errors of columns; nil: the first one ends the reading.
func (f Format) Open(files []*input.Content, o layout.Options, want *layout.Features, all *Collected) (*Reader, error) {
	if f.Table == nil {
		return f.Rows(files, o, want)
	}
	r, err := f.openTable(files[0], o, want, all)
	if err != nil {
		return nil, err
	}
	r.lost = map[string]int64{}
	return &Reader{Width: r.Width(), Columns: r.Layout.Table, Next: r.next, Reading: r.reading, Inspect: r.inspect, Lost: r.lost}, nil
}

// Survey adds the rows of a file, which is a table, to a survey.
func (f Format) Survey(c *input.Content, o layout.Options, s layout.Survey, all *Collected) error {
	r, err := f.openRoles(c, o, all)
	if err != nil {
		return err
	}
	return r.survey(s)
}

// Reader is an open source. It does not close its files.
type Reader struct {
	Width   int              // number of features
	Columns examples.Columns // of the features; nil if the files don't include them
	// Next returns the next batch, which is valid until the next call. After the last batch it has read all files completely
	// and returns io.EOF. Its other errors are *input.Error.
	Next func() (*examples.Rows, error)
	// Reading describes how the columns are read. It is part of a source's ID. nil: there are none.
	Reading func() layout.Reading
	// Inspect returns a *input.Error for readable examples that are probably a mistake. The reader must not be used afterwards. nil: all
	// are plausible.
	Inspect func() error
	// Lost has the number of rows so far that lack a column, by column. It only has columns that earlier rows had, and that most rows
	// lack from some row on.
	Lost map[string]int64
}

// BatchesOf iterates over the remaining batches of a reader.
func BatchesOf(ctx context.Context, r *Reader) iter.Seq2[*examples.Rows, error] {
	return func(yield func(*examples.Rows, error) bool) {
		for {
			rows, err := r.Next()
			if ctx.Err() != nil {
				rows, err = nil, ctx.Err()
			}
			if err == io.EOF || !yield(rows, err) || err != nil {
				return
			}
		}
	}
}

// Claims reports whether a pattern of the format matches a name in lower case, without directory and compression suffix.
func (f Format) Claims(name string) bool {
	return slices.ContainsFunc(f.Patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the only error is a malformed pattern
		return ok
	})
}

// Collected are errors of columns, if files are read to report all of them: the first of each column, which is then no longer
// read. Missing values are one error for all columns. A nil *Collected ends the reading with the first error.
type Collected struct {
	Errors  []error
	bad     map[string]bool // columns with an error, by name
	lenient bool            // missing values have been reported
}

// maxCollected is the maximum number of errors.
const maxCollected = 100

// begin directs the errors of columns to the collection. It is called before roles are assigned.
func (c *Collected) begin(l *layout.Layout) {
	if c == nil {
		return
	}
	if c.lenient {
		l.Options.Missing.Mode = layout.MissingMean
	}
	l.Collect = func(column int, err error) error { return c.add(l, column, err) }
}

// ignore excludes the columns with an error.
func (c *Collected) ignore(l *layout.Layout) {
	for at := range l.Cells {
		if c != nil && c.bad[l.NameOf(at)] {
			l.Ignore(at)
		}
	}
}

// add adds the error of a column. It returns an error that ends the reading.
func (c *Collected) add(l *layout.Layout, column int, err error) error {
	placed, ok := errors.AsType[*input.Error](err)
	if !ok || column < 0 || len(c.Errors) == maxCollected {
		return err
	}
	missing := errors.As(err, new(layout.MissingValueError))
	if !missing || !c.lenient {
		if advised := *placed; !strings.Contains(advised.Err.Error(), "examples.") {
			advised.Err = fmt.Errorf("%w: %s", advised.Err, l.KeyOf(column))
			placed = &advised
		}
		c.Errors = append(c.Errors, placed)
	}
	if missing {
		c.lenient, l.Options.Missing.Mode = true, layout.MissingMean
		return nil
	}
	if c.bad == nil {
		c.bad = map[string]bool{}
	}
	c.bad[l.NameOf(column)] = true
	l.Ignore(column)
	return nil
}
