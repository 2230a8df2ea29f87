// Package layout assigns a role to each column of a row from any source: a feature, a category, a label, a target, a
// weight, or none.
//
// Options configure the columns. A Layout has the roles of the columns of one file, and turns blocks of its rows into
// examples: Fill is the only code that reads values by role. A Request is the layout of rows to predict that come from no file.
package layout

import (
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Reading describes how the columns of a file were read. The zero value is for formats without columns. The names and the
// order of the fields are part of source IDs: an added field needs `omitempty`, so that existing sources keep their IDs.
type Reading struct {
	Label  string // column number; "": there is none
	Weight string
	Header bool // the first row is a header

	Delimiter      string            `json:",omitempty"` // unless it is a comma
	Ignored        []int             `json:",omitempty"` // numbers of ignored columns
	Categories     []examples.Column `json:",omitempty"` // the categorical columns, with their words
	Labels         string            `json:",omitempty"` // unless single-label
	LabelSeparator string            `json:",omitempty"` // of labels in a text, unless any
	LabelColumns   []int             `json:",omitempty"` // numbers of the 0/1 columns
	Targets        []int             `json:",omitempty"` // numbers of the target columns, in the order of the key
	MissingValues  []string          `json:",omitempty"` // unless they are the default

	LabelWords    []string `json:",omitempty"` // missing-value texts that are labels, because they are among the classes
	BooleanLabels bool     `json:",omitempty"` // the labels are the booleans true and false
	NumberLabels  bool     `json:",omitempty"` // the labels are numbers, and some of the first are not in their shortest form

	Image string `json:",omitempty"` // image shape, for files that do not all include it

	Text  string       `json:",omitempty"` // number of the text column
	Words *WordOptions `json:",omitempty"` // how it is read

	Vocabulary wire.Digest `json:",omitempty"` // of a counted vocabulary

	Encoding string   `json:",omitempty"` // of text, unless UTF-8
	Path     []string `json:",omitempty"` // partition values from directory names

	Offsets map[int]float64 `json:",omitempty"` // by number of the numeric column

	Hash *Hashing `json:",omitempty"` // how categorical columns are hashed

	Dense *Extent `json:",omitempty"` // columns of sparse rows that were converted to dense ones

	Times map[int][]examples.Column `json:",omitempty"` // parts of time columns, by column number

	Order []int `json:",omitempty"` // numbers of the feature columns, if their positions are not in file order
}

// Hashing describes how the words of columns become columns of sparse rows.
type Hashing struct {
	Names   []string // column names from the configuration
	Columns int
	Cross   Crosses `json:",omitempty"`
}
