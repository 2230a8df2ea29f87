package message

import (
	"context"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
)

// Format is a message format. Its value owns everything that is specific to the format. To add one, write one file with
// its value and list it in messageFormats of package ingest.
type Format struct {
	// Name is the value of examples.format.
	Name string
	// Meaning describes values, for the documentation.
	Meaning string
	// Label is the default column of the label.
	Label layout.Column
	// IsText reports whether values are text, which may have an encoding other than UTF-8.
	IsText bool
	// Width returns the number of columns to read if columns have no names and the first row has n, and whether all rows must
	// have as many as the first. nil: the columns have names.
	Width func(o layout.Options, n int) (columns int, exact bool, err error)
	// Unframed means that values never have the framing of a schema registry.
	Unframed bool
	// Schema is the schema language of the values: the file extension, and the schema type in a registry. The zero value: no
	// schema is needed.
	Schema SchemaKind
	// Open returns a reader of values.
	Open func(Options) (Reader, error)
}

// SchemaKind is a schema language.
type SchemaKind struct {
	Type   string // type in a registry
	Ending string // file extension, such as .avsc
	Beside bool   // a file may complement a registry: it has defaults
	Named  bool   // a file may have several message types, selected by Settings.Message or by indexes behind the schema ID
}

// Options describe how values are read.
type Options struct {
	layout.Options
	Settings
}

// Settings are the keys under examples that only apply to messages.
type Settings struct {
	// Rows is the path of the rows of a message; "": a message is a row, or a list of rows. In the configuration, it may also
	// be a density of rows.
	Rows string `yaml:"rows"`
	// Schema is a file with the schema of the values; "": a registry has it, or there is none.
	Schema string `yaml:"schema" path:"file"`
	// Message is the full name of the message type of the values in Schema; "": the schema has one.
	Message string `yaml:"message"`
}

// Reader decodes values. It is not safe for concurrent use.
type Reader interface {
	// Read returns the rows of a value, with a cell for each of Columns, or for each column if they have no names. They are
	// valid until the next call. Except for a *RegistryError and the context's error, an error means that the value is
	// invalid.
	Read(ctx context.Context, p Payload) ([][]tabular.Cell, error)
	// Names returns the paths of the values that the last message and its last row have, read or not; nil: columns have no
	// names.
	Names() []string
}

// Row is the decoded value of a message: a row of a file in another format than the messages on the topic.
type Row struct {
	Format string // name of the message format whose reader reads it
	Of     any    // the value, or the rows that it is in, as this reader has them; nil: the value has bytes
	At     int    // the number of its row
}

// Payload is a value without framing.
type Payload struct {
	Value []byte
	// Row is the decoded value. Nil means that Value has it.
	Row *Row
	// Schema is the schema from a registry; nil: there is none.
	Schema *Schema
	// Indexes are the index path of the message type in the schema, if the format has one.
	Indexes []int
}
