package format

import (
	"context"
	"io"
	"iter"
	"path"
	"slices"

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

	// Files is the number of files of a source.
	Files int
	// WantFiles describes these files, for errors and the documentation; "" for one file.
	WantFiles string

	// Label is the default column of the label; "": the files have no columns.
	Label layout.Column
	// HasHeader reports whether the first row of a file may have the names of the columns.
	HasHeader bool
	// OneLabel reports whether the examples always have one label.
	OneLabel bool

	// Open opens the examples in the files of a source.
	Open func([]*input.Content, layout.Options, *Collected) (Reader, error)
	// Words adds the words of the categorical columns and of the texts of a file. nil: the format has no such columns.
	Words func(*input.Content, layout.Options, *layout.FoundWords, *Collected) error
	// Extent adds the indices of the sparse rows of a file. nil: rows of the format are not converted to dense ones.
	Extent func(*input.Content, layout.Options, *layout.FoundExtent) error
	// Spread adds the features of the first rows of a file, by column. nil: the format has no column names.
	Spread func(*input.Content, layout.Options, layout.Spreads, *Collected) error
	// View shows all columns and cells of a file, regardless of their roles. nil: the format has no column names.
	View func(*input.Content, layout.Options, Viewer) error
	// Inspect returns a *input.Error for readable examples that are probably a mistake. It gets a reader that is not used
	// afterwards. nil: no check.
	Inspect func(Reader) error
	// OpenFeatures opens rows to predict, without labels and weights, in one file. It returns a *input.Error if the rows don't
	// have the features of the model.
	OpenFeatures func(c *input.Content, o layout.Options, want layout.Features) (Reader, error)
}

// IsTable reports whether the files have columns, which keys may name.
func (f Format) IsTable() bool { return f.View != nil }

// Reader is an open source. It does not close its files.
type Reader interface {
	// Width is the number of features.
	Width() int
	// Columns are the columns of the features; nil if the files don't include them.
	Columns() examples.Columns
	// Reading describes how the columns are read. It is part of a source's ID.
	Reading() layout.Reading
	// Next returns the next batch, which is valid until the next call. After the last batch it has read all files completely
	// and returns io.EOF. Its other errors are *input.Error.
	Next() (*examples.Rows, error)
}

// Loser is a [Reader] that knows the columns that most rows lack from some row on, although earlier rows had them.
type Loser interface {
	// Lost returns the number of these rows so far, by column.
	Lost() map[string]int64
}

// BatchesOf iterates over the remaining batches of a reader.
func BatchesOf(ctx context.Context, r Reader) iter.Seq2[*examples.Rows, error] {
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
