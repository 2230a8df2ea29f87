package message

import (
	"context"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
)

// Format is a format of messages. Its value owns everything that is particular to it. To add one, write one file with its value and
// list it in messageFormats of package ingest.
type Format struct {
	// Name is its value of examples.format.
	Name string
	// Meaning says what a value is, for the documentation.
	Meaning string
	// Label is the column of the label, if no key says another.
	Label layout.Column
	// Keys are the keys under examples that this format reads, other than those that all formats read.
	Keys []string
	// IsText reports whether values are text, which may be in encodings other than UTF-8.
	IsText bool
	// Width returns how many columns are read of rows whose columns have no names, when the first row has n, and whether all rows must
	// have as many as this one. nil: the columns have names.
	Width func(o layout.Options, n int) (columns int, exact bool, err error)
	// Unframed reports whether values have no frame of a schema registry, whatever they begin with.
	Unframed bool
	// Schema says what a schema describes the values in: the ending of its file, and what a registry calls its type. The zero value:
	// values need no schema.
	Schema SchemaKind
	// Check finds impossible values of the keys, other than columns.
	Check func(Options) []option.Problem
	// Open returns what reads values.
	Open func(Options) (Reader, error)
}

// SchemaKind is a language of schemas.
type SchemaKind struct {
	Type   string // what a registry calls it
	Ending string // of files, such as .avsc
	Beside bool   // a file may be beside a registry: it has defaults
	Named  bool   // a file may describe several messages: Settings.Message names one, and indexes behind the ID of a registry do
}

// Options say how values are read.
type Options struct {
	layout.Options
	Settings
}

// Settings are the keys under examples for messages alone.
type Settings struct {
	// Rows is the path of the rows of a message; "": a message is a row, or a list of rows. As the configuration has it, it may also say
	// whether rows are dense.
	Rows string `mapstructure:"rows" yaml:"rows"`
	// Schema is a file with the schema of the values, in the language of their format; "": a registry has it, or there is none.
	Schema string `mapstructure:"schema" yaml:"schema" path:"file"`
	// Message is the full name of the message in Schema that the values are; "": the schema has one.
	Message string `mapstructure:"message" yaml:"message"`
}

// Reader reads values. It belongs to one goroutine.
type Reader interface {
	// Read returns the rows of a value, with a cell for each of Columns, or for each column if they have no names. They are valid until
	// the next call. An error says why the value can't be used, but for an *UnavailableError and the context's.
	Read(ctx context.Context, p Payload) ([][]tabular.Cell, error)
}

// Payload is a value without what frames it.
type Payload struct {
	Value []byte
	// Schema is that of a registry; nil: there is none.
	Schema *Schema
	// Indexes are the places of the message in the file of the schema, and within others of it, if its format has them.
	Indexes []int
}
