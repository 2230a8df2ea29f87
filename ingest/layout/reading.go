package layout

import (
	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Reading says how the columns of a file were read. The zero value is for
// formats without columns. The names and the order of the fields are part of the
// IDs of sources: a field that is added here needs `omitempty`, so that sources
// ingested before keep their IDs.
type Reading struct {
	Label  string // the number of the column; "": there is none
	Weight string
	Header bool // the first row is no example

	Delimiter      string            `json:",omitempty"` // if it is not a comma
	Ignored        []int             `json:",omitempty"` // numbers of columns that are left out
	Categories     []examples.Column `json:",omitempty"` // the columns of words, with their words
	Labels         string            `json:",omitempty"` // if an example may have several
	LabelSeparator string            `json:",omitempty"` // between the labels of a text, if it is not any
	LabelColumns   []int             `json:",omitempty"` // numbers of the columns of 0 and 1
	Targets        []int             `json:",omitempty"` // numbers of the columns to predict, in the order of the key
	MissingValues  []string          `json:",omitempty"` // if they are not the default

	LabelWords    []string `json:",omitempty"` // words for missing values that are labels, as they are among the classes
	BooleanLabels bool     `json:",omitempty"` // the labels are booleans: true and false
	NumberLabels  bool     `json:",omitempty"` // the labels are numbers, and not all of the first are written in their shortest form

	Image string `json:",omitempty"` // shape of images of files that do not all say the same

	Text  string              `json:",omitempty"` // the number of the column of texts
	Words *vocabulary.Options `json:",omitempty"` // how it is read

	Vocabulary wire.Digest `json:",omitempty"` // of a counted vocabulary

	Encoding string   `json:",omitempty"` // of text, if it is not UTF-8
	Path     []string `json:",omitempty"` // the values of columns that the names of folders have

	Offsets map[int]float64 `json:",omitempty"` // of columns of numbers, by the numbers of the columns

	Hash *Hashing `json:",omitempty"` // how categorical columns are hashed

	Dense *Extent `json:",omitempty"` // the columns of sparse rows that were made dense

	Times map[int][]examples.Column `json:",omitempty"` // the parts of columns of times, by the numbers of the columns

	Order []int `json:",omitempty"` // numbers of the columns that are features, if their places are not in that of the file
}

// Hashing says how the words of columns become columns of sparse rows.
type Hashing struct {
	Names   []string // of the columns, as the configuration has them
	Columns int
	Cross   Crosses `json:",omitempty"`
}
