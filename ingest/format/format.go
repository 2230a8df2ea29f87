package format

import (
	"context"
	"io"
	"iter"
	"path"
	"slices"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Format is an input format. Its value owns everything that is particular to
// it. To add a format, write one file with its value and list it in formats.
type Format struct {
	// Name is its value of examples.format.
	Name string
	// Meaning describes its files, for the documentation.
	Meaning string
	// Patterns claim names of files, as path.Match does. Names are compared in
	// lower case, without their folder and without .gz, .bz2 or .zst.
	Patterns []string
	// Recognise reports whether a file of this format begins with these bytes. It
	// gets peekBytes of them, or all if the file is shorter. nil: the first bytes
	// of this format are like those of others.
	Recognise func(first []byte) bool
	// IsText reports whether its files are text, which may be in encodings other than
	// UTF-8.
	IsText bool

	// ReadsFolders reports whether a folder is a source of this format, regardless of its file names.
	ReadsFolders bool

	// Files is the number of files of a source.
	Files int
	// WantFiles describes these files, for errors and the documentation. A
	// format with one file leaves it empty.
	WantFiles string

	// Label is the default column of the label; "": its files have
	// no columns.
	Label layout.Column
	// Keys are the keys under examples that this format reads, other than those
	// that all formats read.
	Keys []string
	// Check finds invalid values of these keys, other than columns. nil: all are
	// valid.
	Check func(layout.Options) []option.Problem

	// Open reads examples from the files of a source.
	Open func([]*input.Content, layout.Options) (Reader, error)
	// Words adds the words of the categorical columns and of the texts of a file.
	// nil: the format has no such columns.
	Words func(*input.Content, layout.Options, *layout.FoundWords) error
	// Extent adds the indices of the sparse rows of a file. nil: rows of the format are not made dense.
	Extent func(*input.Content, layout.Options, *layout.FoundExtent) error
	// Spread adds the numbers of the features of the first rows of a file, by their columns. nil: the format has no columns with names.
	Spread func(*input.Content, layout.Options, layout.Spreads) error
	// View shows all columns and cells of a file, whatever roles the options give them. nil: the format has no columns with names.
	View func(*input.Content, layout.Options, Viewer) error
	// Inspect returns a *input.Error for examples that can be read but are probably
	// a mistake. It gets a reader of a source that is not used further. nil:
	// no check.
	Inspect func(Reader) error
	// OpenFeatures reads rows to predict, without labels and weights, from one
	// file. It returns a *input.Error if the rows don't have the features that the model wants.
	OpenFeatures func(c *input.Content, o layout.Options, want layout.Features) (Reader, error)
}

// Reader is an open source. It does not close its files.
type Reader interface {
	// Width is the number of features.
	Width() int
	// Columns are those that the features are of; nil if the files don't say.
	Columns() examples.Columns
	// Reading describes how the columns are read. It is part of a source's ID.
	Reading() layout.Reading
	// Next returns the next batch, which is valid until the next call. After
	// the last batch it has read all files to their end and returns io.EOF. Its
	// other errors are *input.Error.
	Next() (*examples.Rows, error)
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

// Claims reports whether a pattern of the format matches a name in lower case, without its folder and what says that it is compressed.
func (f Format) Claims(name string) bool {
	return slices.ContainsFunc(f.Patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // its only error is a malformed pattern
		return ok
	})
}

// PeekBytes is where the magic number ends that is farthest from the beginning: that of tar.
const PeekBytes = 262
