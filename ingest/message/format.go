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
	// Open returns a decoder of values.
	Open func(Options) (Decoder, error)
}

// Decoder decodes values. It is not safe for concurrent use.
type Decoder struct {
	// Decode returns the value of a message, which is valid until the next call: a row, or a list of rows.
	Decode func(ctx context.Context, p Payload) (tabular.Cell, error)
	// Adapt returns a value that another decoder of the format has decoded as this one would. nil returns it as it is.
	Adapt func(tabular.Cell) tabular.Cell
	// Names returns the names of the members of values, as the schema in the file has them, and Has reports whether there is one. nil: there
	// is no such file.
	Names func() []string
	Has   func(name string) bool
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

// Payload is a value without framing.
type Payload struct {
	Value []byte
	// Schema is the schema from a registry; nil: there is none.
	Schema *Schema
	// Indexes are the index path of the message type in the schema, if the format has one.
	Indexes []int
}
