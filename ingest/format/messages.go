package format

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// Decoder decodes values. It is not safe for concurrent use.
type Decoder struct {
	// Decode returns the value of a message, which is valid until the next call: a row, or a list of rows.
	Decode func(ctx context.Context, p Payload) (tabular.Cell, error)
	// Adapt converts a value that another decoder of the format has decoded to the value of this one. Nil means no conversion.
	Adapt func(tabular.Cell) tabular.Cell
	// Blank is a value with the members that the schema in the file has; null: there is no such file.
	Blank tabular.Cell
}

// SchemaKind is a schema language.
type SchemaKind struct {
	Type   string // type in a registry
	Ending string // file extension, such as .avsc
	Beside bool   // a file may complement a registry: it has defaults
	Named  bool   // a file may have several message types, selected by Settings.Message or by indexes after the schema ID
}

// Options describe how values are read.
type Options struct {
	layout.Options
	Settings
}

// Settings are the keys under examples that only apply to messages: the table of keys of package ingest says what each means.
type Settings struct {
	Rows    string `yaml:"rows"` // in the configuration, it may also be a density of rows
	Schema  string `yaml:"schema" path:"file"`
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

// Label is the default column of the label in messages whose columns have names.
const Label = "label"

// Columns from other messages have names that no message has: LaterLabel for a label, and the prefix LaterTarget for a
// target.
const (
	LaterLabel  = "examples.outcome.label"
	LaterTarget = "examples.targets."
)

// Columns returns the names of the columns that the options read: the label or targets, the weight, the text and the
// served columns, if any, and the features.
func Columns(o layout.Options) []string {
	columns := slices.Concat(o.Targets, o.LabelColumns)
	switch {
	case o.Mode == layout.LabelLater && len(o.Targets) > 0:
		for i, name := range columns {
			columns[i] = LaterTarget + name
		}
	case o.Mode == layout.LabelLater:
		columns = []string{LaterLabel}
	case len(columns) > 0 || o.Mode == layout.Unlabelled:
	default:
		columns = []string{cmp.Or(string(o.Label), Label)}
	}
	for _, c := range []layout.Column{o.Weight, o.Text, o.Served.Label, o.Served.Version} {
		if c != "" {
			columns = append(columns, string(c))
		}
	}
	if len(o.Columns.Use) == 0 && o.Mixed() { // beside a text
		return slices.Concat(columns, o.Categorical, o.Times.Columns())
	}
	return append(columns, o.Columns.Use...)
}

// Meaning describes the values of formats whose columns have names.
const Meaning = "an object with a value for each column, or an array of such objects"

// RowReader reads the rows of messages: a value is a row or a list of rows, or has rows at the path examples.rows, which inherit
// columns that they lack from the enclosing value. It is not safe for concurrent use.
type RowReader struct {
	options Options
	decoder Decoder
	width   func(o layout.Options, n int) (columns int, exact bool, err error) // of rows whose columns have numbers; nil: they have names
	wanted  int                                                                // number of columns of such rows; 0: not known yet
	exact   bool                                                               // such rows have no further columns
	columns *tabular.Paths
	names   []string
	path    *tabular.Paths // to the rows; nil: the value itself
	most    int            // maximum number of rows of a message: those that fit a message of examples
	last    tabular.Cell   // the last value, or a blank one
	rows    tabular.Block
	shared  []tabular.Cell
}

// NewReader returns a reader of the columns of the options.
func (f Format) NewReader(o Options) (*RowReader, error) {
	d, err := f.Decoder(o)
	if err != nil {
		return nil, err
	}
	r := &RowReader{options: o, decoder: d, width: f.Width, names: Columns(o.Options), last: d.Blank}
	r.most = layout.MaxBatchBytes / layout.FloatRowBytes(len(o.Columns.Use)) // a row takes a few bytes of a value, but its cells take more
	r.columns = tabular.NewPaths(r.names)
	if o.Rows != "" {
		r.path = tabular.NewPaths([]string{o.Rows})
	}
	switch { // errors of a schema without the label column or the rows
	case d.Blank.Null():
	case o.Rows != "" && !has(d.Blank, tabular.Path(o.Rows)[0]):
		return nil, r.noRows()
	case o.Rows == "" && r.needsLabel() && !has(d.Blank, r.names[0]) && !has(d.Blank, tabular.Path(r.names[0])[0]):
		return nil, r.noLabel()
	}
	return r, nil
}

// has reports whether a value has a member.
func has(value tabular.Cell, member string) bool {
	paths := tabular.NewPaths([]string{member})
	_ = paths.Walk(value, func(int, tabular.Cell) error { return nil })
	return paths.Has(0)
}

// Read returns the rows of a value, with a cell for each of Columns, or for each column if they have no names. They are valid until the
// next call. Except for a *RegistryError and the context's error, an error means that the value is invalid.
func (r *RowReader) Read(ctx context.Context, p Payload) ([][]tabular.Cell, error) {
	r.rows.Reset(0)
	v, err := r.decoder.Decode(ctx, p)
	if err != nil {
		return nil, err
	}
	r.last = v
	known := r.wanted > 0
	if err = r.add(v); err != nil && !known {
		r.wanted = 0
	}
	return r.rows.Cells, err
}

// Forget makes the next row determine the number of columns of rows without column names.
func (r *RowReader) Forget() { r.wanted = 0 }

// ReadRow is Read for the value of a message that an archive has decoded.
func (r *RowReader) ReadRow(row tabular.Cell) ([][]tabular.Cell, error) {
	if r.decoder.Adapt != nil {
		row = r.decoder.Adapt(row)
	}
	r.last = row
	r.rows.Reset(0)
	err := r.add(row)
	return r.rows.Cells, err
}

// add adds the rows of a value.
func (r *RowReader) add(v tabular.Cell) error {
	r.shared = r.shared[:0]
	if r.path == nil {
		return r.addRows(v)
	}
	rows := tabular.Cell{}
	err := r.path.Walk(v, func(_ int, found tabular.Cell) error {
		rows = found
		return nil
	})
	found := r.path.Has(0) || r.path.Null
	switch {
	case err != nil:
		return err
	case !found && v.IsList():
		return each(v, r.add)
	case !found && !v.Null():
		return r.noRows()
	case rows.Null(): // for example the state after the deletion of a row
		return nil
	}
	r.shared = append(r.shared, make([]tabular.Cell, len(r.names))...)
	if v.IsObject() {
		if err := r.columns.Read(v, r.shared); err != nil {
			return err
		}
	}
	return r.addRows(rows)
}

// addRows adds a row, or a list of rows.
func (r *RowReader) addRows(v tabular.Cell) error {
	if v.IsList() {
		return each(v, r.addRow)
	}
	return r.addRow(v)
}

// each calls add for the items of a list, and adds their number to errors.
func each(list tabular.Cell, add func(tabular.Cell) error) error {
	i := -1
	return list.Each(func(item tabular.Cell) error {
		i++
		if err := add(item); err != nil {
			return fmt.Errorf("row %d, counted from 0: %w", i, err)
		}
		return nil
	})
}

// addRow adds a row.
func (r *RowReader) addRow(v tabular.Cell) error {
	numbered := r.width != nil && v.IsList()
	switch {
	case !numbered && !v.IsObject():
		return fmt.Errorf("%s: expected %s", v.String(), Meaning)
	case r.rows.Rows >= r.most:
		return fmt.Errorf("more than %d rows, which do not fit a message of examples: send fewer in a value", r.most)
	case numbered:
		return r.addList(v.List())
	}
	row := r.rows.Add(len(r.names))
	copy(row, r.shared)
	if err := r.columns.Read(v, row); err != nil {
		return err
	}
	if r.needsLabel() && !r.columns.Has(0) && (len(r.shared) == 0 || r.shared[0].Null()) {
		return r.noLabel()
	}
	return nil
}

// addList adds a row whose columns have numbers.
func (r *RowReader) addList(row []tabular.Cell) (err error) {
	n := len(row)
	if r.wanted == 0 {
		r.wanted, r.exact, err = r.width(r.options.Options, n)
	}
	switch {
	case err != nil:
		return err
	case r.exact && n != r.wanted:
		return fmt.Errorf("%d columns, expected %d as in earlier values", n, r.wanted)
	case n < r.wanted:
		return fmt.Errorf("%d columns, expected at least %d", n, r.wanted)
	}
	copy(r.rows.Add(r.wanted), row)
	return nil
}

// needsLabel reports whether each row must have the label column.
func (r *RowReader) needsLabel() bool {
	o := &r.options
	return len(o.Targets)+len(o.LabelColumns) == 0 && o.Mode == layout.Training
}

// Names returns the paths of all values in the last message and its last row, or, before the first message, the paths that messages may
// have. It returns nil if columns have no names.
func (r *RowReader) Names() (names []string) {
	if of := r.last.Nested(); of != nil {
		names = of.Names()
	}
	inRow := false
	for i, name := range names {
		if within, ok := strings.CutPrefix(name, r.options.Rows+"."); ok {
			names[i], inRow = strings.TrimPrefix(within, "0."), true
		}
	}
	if inRow {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// noRows returns the error of a value without the path of the rows.
func (r *RowReader) noRows() error {
	return fmt.Errorf("no rows at %s (examples.rows): the message has %s", value.Quote(r.options.Rows), r.members())
}

// noLabel returns the error of a row without the label column, with the path at which the value has it.
func (r *RowReader) noLabel() error {
	advice := ": examples.label names the label column"
	for _, name := range r.Names() {
		if within, ok := strings.CutSuffix(name, "."+r.names[0]); ok {
			if r.options.Rows != "" {
				within = r.options.Rows + "." + within
			}
			advice = fmt.Sprintf(". The column is in %s: set examples.rows to that path", value.Quote(strings.TrimSuffix(within, ".0")))
		}
	}
	return fmt.Errorf("no column %s: the message has %s%s", value.Quote(r.names[0]), r.members(), advice)
}

// members lists the members of the last value.
func (r *RowReader) members() string {
	var members []string
	for _, name := range r.Names() {
		if name, _, _ = strings.Cut(name, "."); !slices.Contains(members, name) {
			members = append(members, name)
		}
	}
	if len(members) == 0 {
		return "no members"
	}
	return layout.SomeNames(members)
}

// Schema is a schema of message values.
type Schema struct {
	Name string // origin, for errors
	Type string // schema type in a registry
	Text string
	// References are schemas that this one references, each after its own references.
	References []Reference
}

// Reference is a schema with the name by which it is referenced.
type Reference struct{ Name, Text string }

// SchemaID identifies a schema in a registry: by number or GUID.
type SchemaID struct {
	Number int
	GUID   string // "": Number is set
}

func (id SchemaID) String() string {
	if id.GUID != "" {
		return id.GUID
	}
	return fmt.Sprint(id.Number)
}

const (
	framedNumber = 0 // first byte of a frame: a 4-byte schema number follows
	framedGUID   = 1 // first byte of a header: a 16-byte GUID follows
	frameBytes   = 5
	guidBytes    = 16
)

// Framed reports whether a value has the framing of a schema registry's serializers: a 0 and the schema number
// (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format).
func Framed(content []byte) (id SchemaID, rest []byte, ok bool) {
	if len(content) < frameBytes || content[0] != framedNumber {
		return id, content, false
	}
	return SchemaID{Number: int(binary.BigEndian.Uint32(content[1:frameBytes]))}, content[frameBytes:], true
}

// FramedHeader decodes the schema ID in a message header, where newer serializers write it, and returns the bytes after
// it.
func FramedHeader(header string) (id SchemaID, rest []byte, err error) {
	content := []byte(header)
	if id, rest, ok := Framed(content); ok {
		return id, rest, nil
	}
	if len(content) < 1+guidBytes || content[0] != framedGUID {
		return id, nil, fmt.Errorf("the header %s is %s: expected a 1 and the GUID of a schema", SchemaHeader, value.Quote(header))
	}
	id.GUID = value.UUID(content[1:])
	return id, content[1+guidBytes:], nil
}

// SchemaHeader is the header in which newer serializers write the schema ID of a value.
const SchemaHeader = "__value_schema_id"

// RegistryError means that a registry does not answer with a schema: the message that needs it is not at fault.
type RegistryError struct {
	Err  error
	Away bool // the registry may answer later; false: it refuses requests with these options
}

func (e *RegistryError) Error() string { return e.Err.Error() }

func (e *RegistryError) Unwrap() error { return e.Err }
