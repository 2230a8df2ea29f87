package ingest

import (
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// format is an input format. Its value owns everything that is particular to
// it. To add a format, write one file with its value and list it in formats.
type format struct {
	// name is its value of examples.format.
	name string
	// meaning says what its files hold, for the documentation.
	meaning string
	// patterns claim names of files, as path.Match does. Names are compared in
	// lower case, without their folder and without .gz or .bz2.
	patterns []string
	// recognise reports whether a file of this format begins with these bytes. It
	// gets peekBytes of them, or all if the file is shorter. nil: the first bytes
	// of this format are like those of others.
	recognise func(first []byte) bool

	// files is how many files make a source.
	files int
	// wantFiles says which files these are, for errors and the documentation. A
	// format with one file leaves it empty.
	wantFiles string

	// label is the column of the label, if no key says another. "": its files have
	// no columns.
	label Column
	// keys are the keys under examples that this format reads, other than those
	// that all formats read.
	keys []string
	// check finds impossible values of these keys, other than columns. nil: all are
	// possible.
	check func(Options) []schemas.Problem

	// open reads examples from the files of a source.
	open func([]*content, Options) (reader, error)
	// words adds the words of the categorical columns and of the texts of a file.
	// nil: the format has no such columns.
	words func(*content, Options, *foundWords) error
	// inspect returns a *FileError for examples that can be read, but are hardly
	// what people mean. It gets a reader of a source that is not used further. nil:
	// there is nothing to be said.
	inspect func(reader) error
	// openFeatures reads rows to predict, without labels and weights, from one
	// file. It returns a *FileError if the rows don't have the features that the model wants.
	openFeatures func(c *content, o Options, want Features) (reader, error)
}

// formats are the input formats, in the order of the documentation. When
// several recognise a content, the first one reads it.
func formats() []format {
	return []format{
		idxFormat(),
		csvFormat(),
		libsvmFormat(),
		arrowFormat(),
		parquetFormat(),
		jsonlFormat(),
		imagesFormat(),
	}
}

// reading says how the columns of a file were read. The zero value is for
// formats without columns. The names and the order of the fields are part of the
// IDs of sources: a field that is added here needs `omitempty`, so that sources
// ingested before keep their IDs.
type reading struct {
	Label  string // the number of the column; "": there is none
	Weight string
	Header bool // the first row is no example

	Delimiter      string           `json:",omitempty"` // if it is not a comma
	Ignored        []int            `json:",omitempty"` // numbers of columns that are left out
	Categories     []schemas.Column `json:",omitempty"` // the columns of words, with their words
	Labels         string           `json:",omitempty"` // if an example may have several
	LabelSeparator string           `json:",omitempty"` // between the labels of a text, if it is not any
	LabelColumns   []int            `json:",omitempty"` // numbers of the columns of 0 and 1
	Targets        []int            `json:",omitempty"` // numbers of the columns to predict, in the order of the key
	MissingValues  []string         `json:",omitempty"` // if they are not the default

	Image string `json:",omitempty"` // shape of images of files that do not all say the same

	Text  string `json:",omitempty"` // the number of the column of texts
	Words *Text  `json:",omitempty"` // how it is read

	Vocabulary schemas.Digest `json:",omitempty"` // of a counted vocabulary
}

// reader is an open source. It does not close its files.
type reader interface {
	// width is the number of features.
	width() int
	// columns are those that the features are of; nil if the files don't say.
	columns() schemas.Columns
	// reading says how the columns are read. It is part of a source's ID.
	reading() reading
	// next returns the next batch, which is valid until the next call. After
	// the last batch it has read all files to their end and returns io.EOF. Its
	// other errors are *FileError.
	next() (*schemas.ExampleRows, error)
}

// peekBytes is at least where the magic number ends that is farthest from the beginning.
const peekBytes = tarOffset + len(tarMagic)

// formatByName returns the format that examples.format or else the file's name
// tells. ok is false if neither tells.
func (o Options) formatByName(file string) (f format, ok bool) {
	all := formats()
	i := slices.IndexFunc(all, func(f format) bool { return f.name == o.Format })
	if o.Format == "" {
		file = strings.ToLower(filepath.Base(file))
		file = strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".bz2")
		i = slices.IndexFunc(all, func(f format) bool { return f.claims(file) })
	}
	if i < 0 {
		return format{}, false
	}
	return all[i], true
}

func (f format) claims(name string) bool {
	return slices.ContainsFunc(f.patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // its only error is a malformed pattern
		return ok
	})
}

// formatsOf returns the formats that the files may have, as far as their names
// tell; all formats if there are no files.
func (o Options) formatsOf(files []string) (told []format) {
	if len(files) == 0 && o.Format == "" {
		return formats()
	}
	for _, file := range append([]string{""}, files...) { // the format that the options name needs no file
		if f, ok := o.formatByName(file); ok {
			told = append(told, f)
		}
	}
	return told
}

// formatOf returns the format of an open file, by its name or else by its
// first bytes. It returns a *FileError if neither tells the format.
func (o Options) formatOf(c *content) (format, error) {
	f, ok := o.formatByName(c.name)
	if !ok {
		first, err := c.Peek(peekBytes)
		all := formats()
		i := slices.IndexFunc(all, func(f format) bool { return f.recognise != nil && f.recognise(first) })
		switch {
		case i >= 0:
			f = all[i]
		case err != nil && err != io.EOF:
			return format{}, err
		default:
			return format{}, wholeFile(c.name, errors.New("neither name nor content tells the format: set "+o.key("format")))
		}
	}
	return f, o.readsText(f, c.name)
}

// wantFormat lists the formats, for people who gave another one.
func wantFormat() string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return enumerate(names, "or")
}

// enumerate joins words as a sentence does: "a", "a or b", "a, b or c".
func enumerate(words []string, conjunction string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
