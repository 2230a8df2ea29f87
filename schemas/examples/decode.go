package examples

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// ValueError describes an invalid value of an examples message. It wraps [wire.ErrDamaged].
type ValueError struct {
	Row    int // from 0
	Column int // of a feature, from 0; -1 for any other value
	Reason string
}

// Error implements error.
func (e *ValueError) Error() string {
	if e.Column < 0 {
		return fmt.Sprintf("row %d: %s", e.Row, e.Reason)
	}
	return fmt.Sprintf("row %d, feature %d: %s", e.Row, e.Column, e.Reason)
}

// Unwrap returns ErrDamaged.
func (e *ValueError) Unwrap() error { return wire.ErrDamaged }

// MaxLabel is the maximum length of a label in bytes. Thousands of labels must fit into a plan and a manifest.
const MaxLabel = 1024

// wantFeatures names the valid types of the column of features.
const wantFeatures = "a list of float32, float64 or uint8, or a list of structs of index and value (float32)"

// Decode decodes and checks the value of an examples message. Features are finite or missing, but infinite if they are too large for
// float32, weights are finite and not negative, splits are known, and labels that are text are UTF-8 of at most [MaxLabel] bytes. The rows
// have memory of their own; that of mem is released. An error wraps [wire.ErrDamaged]; it is a *[ValueError] if a single value is at fault.
func Decode(value []byte, mem memory.Allocator) (*Rows, error) {
	record, err := stream.Decode(value, mem, isKnown)
	if err != nil {
		return nil, err
	}
	defer record.Release()
	if record.NumRows() > int64(len(value)) { // lists of no features take no bytes, but the rows would take memory
		return nil, fmt.Errorf("%w: examples without features", wire.ErrDamaged)
	}
	d := decoder{Rows: &Rows{Rows: int(record.NumRows()), described: record.Schema().Metadata()}, own: map[string]string{}}
	for i, column := range record.Columns() {
		name := record.ColumnName(i)
		if len(record.Schema().FieldIndices(name)) > 1 {
			return nil, fmt.Errorf("%w: column %s occurs twice", wire.ErrDamaged, stream.Quote(name))
		}
		if !isKnown(name) { // not validated
			continue
		}
		switch err := d.column(name, column); {
		case errors.As(err, new(*ValueError)):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: column %s: %w", wire.ErrDamaged, stream.Quote(name), err)
		}
	}
	if d.Floats == nil && d.Bytes == nil && d.Sparse == nil {
		return nil, fmt.Errorf("%w: no column %q: expected a column of this name with a list of numbers in each row, found %s",
			wire.ErrDamaged, columnFeatures, columnNames(record.Schema()))
	}
	d.answers()
	return d.Rows, nil
}

// isKnown reports whether a column of this name is read.
func isKnown(column string) bool {
	return slices.Contains([]string{columnFeatures, columnLabel, columnWeight, columnSplit, columnTargets, columnServed, columnServedVersion},
		column)
}

// columnNames names the first columns of a message, for errors to its producer.
func columnNames(schema *arrow.Schema) string {
	const maxNames = 8
	var names []string
	for _, field := range schema.Fields()[:min(schema.NumFields(), maxNames)] {
		names = append(names, stream.Quote(field.Name))
	}
	switch more := schema.NumFields() - len(names); {
	case len(names) == 0:
		return "no columns"
	case more > 0:
		return fmt.Sprintf("the columns %s and %d more", strings.Join(names, ", "), more)
	}
	return "the columns " + strings.Join(names, ", ")
}

// decoder fills rows from Arrow columns.
type decoder struct {
	*Rows
	own map[string]string // texts in memory of the rows: a dictionary may repeat a long one in every row

	served, versions *stream.Values // of answers
}

// column reads a column that stagewise knows.
func (d *decoder) column(name string, column arrow.Array) error {
	values := stream.ValuesOf(column)
	switch name {
	case columnFeatures:
		if column.NullN() > 0 {
			return fmt.Errorf("%d rows without features", column.NullN())
		}
		return d.features(values)
	case columnLabel:
		items := values
		if values.Type == stream.List {
			items = values.Items()
		}
		if !isScalar(items) {
			return fmt.Errorf("type %v, expected text, numbers or booleans, or a list of them", column.DataType())
		}
		return d.labels(values)
	case columnWeight:
		if !isFloat(values) {
			return fmt.Errorf("type %v, expected float32 or float64", column.DataType())
		}
		return d.weights(values)
	case columnSplit:
		if values.Type != stream.Text && values.Type != stream.Null {
			return fmt.Errorf("type %v, expected text", column.DataType())
		}
		return d.splits(values)
	case columnTargets:
		if values.Type != stream.List || !isFloat(values.Items()) {
			return fmt.Errorf("type %v, expected a list of float64 or float32", column.DataType())
		}
		return d.targets(values)
	case columnServed, columnServedVersion:
		if !isScalar(values) {
			return fmt.Errorf("type %v, expected text or whole numbers", column.DataType())
		}
		if name == columnServed {
			d.served = values
		} else {
			d.versions = values
		}
	}
	return nil // a producer may add columns of its own
}

// isFloat reports whether values are float32 or float64.
func isFloat(values *stream.Values) bool {
	return values.Column.DataType().ID() == arrow.FLOAT32 || values.Column.DataType().ID() == arrow.FLOAT64
}

// isScalar reports whether values are text, numbers or booleans.
func isScalar(values *stream.Values) bool {
	switch values.Type {
	case stream.Null, stream.Boolean, stream.Whole, stream.Number, stream.Text:
		return true
	}
	return false
}

// features reads the features. The width of dense ones must be the same in all rows: their values are contiguous.
func (d *decoder) features(lists *stream.Values) error {
	wrong := fmt.Errorf("type %v, expected %s", lists.Column.DataType(), wantFeatures)
	if lists.Type != stream.List {
		return wrong
	}
	items := lists.Items()
	if items.Type == stream.Struct {
		if items.Column.DataType().(*arrow.StructType).NumFields() != 2 || lists.Column.DataType().ID() != arrow.LIST {
			return wrong
		}
		indices, values := items.At(0), items.At(1)
		singles, ok := stream.Raw[float32](values.Column)
		if !ok || indices.Type != stream.Whole || indices.Unsigned() {
			return wrong
		}
		if items.Column.NullN() > 0 || indices.Column.NullN() > 0 || values.Column.NullN() > 0 {
			return errors.New("nulls among sparse features: leave out a feature that is 0")
		}
		return d.sparse(lists, indices, singles)
	}
	first := 0
	d.Cols, _ = lists.Width()
	for row := range d.Rows.Rows {
		from, to := lists.Range(row)
		if row == 0 {
			first, d.Cols = from, to-from
		}
		if n := to - from; n != d.Cols {
			return fmt.Errorf("row %d: %d features, row 0 has %d: expected as many in each row", row, n, d.Cols)
		}
	}
	end := first + d.Rows.Rows*d.Cols
	if singles, ok := stream.Raw[float32](items.Column); ok {
		return readDense(d.Rows, items.Column, singles[first:end], first)
	}
	if doubles, ok := stream.Raw[float64](items.Column); ok {
		if d.ColumnsText() != "" {
			d.doubles = items.AppendNumbers(nil, first, end)
		}
		return readDense(d.Rows, items.Column, doubles[first:end], first)
	}
	bytes, ok := stream.Raw[uint8](items.Column)
	switch {
	case !ok:
		return wrong
	case items.Column.NullN() > 0:
		return errors.New("nulls among uint8 features: features that may be missing must be float32 or float64")
	}
	d.Bytes = append([]uint8{}, bytes[first:end]...)
	return nil
}

// readDense reads dense features; first is the index of the first one in the column. They must be finite, but a value that is too large
// for float32 is not an error of the message: only its row is unusable.
func readDense[T float32 | float64](r *Rows, column arrow.Array, values []T, first int) error {
	r.Floats = make([]float32, len(values))
	nulls := column.NullN() > 0
	for i, v := range values {
		switch {
		case nulls && column.IsNull(first+i):
			r.Floats[i] = float32(math.NaN())
		case v-v != 0: // 0 only if v is finite
			return &ValueError{i / r.Cols, i % r.Cols, fmt.Sprintf("%v is not a finite number", v)}
		default:
			r.Floats[i] = float32(v)
		}
	}
	return nil
}

// sparse reads sparse features. A feature of 0 is the same as an omitted one.
func (d *decoder) sparse(lists, indices *stream.Values, values []float32) error {
	leading := int64(0) // numeric table columns, which may be missing
	if text := d.ColumnsText(); text != "" {
		columns, err := ParseColumns(text)
		if err != nil {
			return err
		}
		leading = int64(columns.Features())
	}
	n := d.Rows.Rows
	to := &SparseRows{Ends: make([]int, 0, n)}
	if n > 0 {
		first, _ := lists.Range(0)
		_, end := lists.Range(n - 1)
		to.Indices, to.Values = make([]int32, 0, end-first), make([]float32, 0, end-first)
	}
	for row := range n {
		from, end := lists.Range(row)
		last := int64(-1)
		for i, v := range values[from:end] {
			index, _ := indices.Whole(from + i)
			switch {
			case index <= last || index > math.MaxInt32-1:
				return &ValueError{row, -1, fmt.Sprintf("index %d after %d: expected ascending indices below 2³¹-1", index, last)}
			case v-v != 0 && (v == v || index >= leading):
				return &ValueError{row, int(index), fmt.Sprintf("%v is not a finite number", v)}
			}
			to.Append(int32(index), v)
			last = index
		}
		to.End()
		d.Cols = max(d.Cols, int(last)+1)
	}
	d.Sparse = to
	return nil
}

// weights reads the weights.
func (d *decoder) weights(values *stream.Values) error {
	d.Weights = make([]float32, d.Rows.Rows)
	for row := range d.Weights {
		if values.Null(row) {
			return &ValueError{row, -1, "weight is null: expected a finite number ≥ 0"}
		}
		w := values.Number(row)
		if d.Weights[row] = float32(w); !(w >= 0) || math.IsInf(float64(d.Weights[row]), 1) {
			return &ValueError{row, -1, fmt.Sprintf("weight %v: expected a finite number ≥ 0", w)}
		}
	}
	return nil
}

// splits reads the splits. A row without one is for training.
func (d *decoder) splits(values *stream.Values) (err error) {
	d.Splits = make([]Split, d.Rows.Rows)
	for row := range d.Splits {
		if values.Null(row) {
			continue
		}
		if d.Splits[row], err = ParseSplit(values.Text(row)); err != nil {
			return &ValueError{row, -1, err.Error()}
		}
	}
	return nil
}

// labels reads the labels, or the lists of labels.
func (d *decoder) labels(values *stream.Values) error {
	n := d.Rows.Rows
	switch {
	case values.Type == stream.List:
		d.LabelLists = make([][]string, n)
	case values.Type == stream.Null:
		return nil
	case values.Type == stream.Whole && !values.Unsigned():
		d.Numbers, d.NoLabel = make([]int64, n), make([]bool, n)
	default:
		d.Words, d.NoLabel = make([]string, n), make([]bool, n)
	}
	for row := range n {
		var err error
		switch {
		case values.Null(row):
			if d.NoLabel != nil {
				d.NoLabel[row] = true
			}
		case d.LabelLists != nil:
			d.LabelLists[row], err = d.labelList(values, row)
		case d.Numbers != nil:
			d.Numbers[row], _ = values.Whole(row)
		case isNaN(values, row):
			d.NoLabel[row] = true
		default:
			d.Words[row], err = d.label(values, row)
		}
		if err != nil {
			return &ValueError{row, -1, err.Error()}
		}
	}
	d.MissLabels(value.Missing{})
	return nil
}

// isNaN reports whether a value that is not null is NaN, which counts as none.
func isNaN(values *stream.Values, row int) bool {
	return values.Type == stream.Number && math.IsNaN(values.Number(row))
}

// labelList reads the list of labels of a row.
func (d *decoder) labelList(lists *stream.Values, row int) ([]string, error) {
	from, to := lists.Range(row)
	labels, items := make([]string, to-from), lists.Items()
	for i := range labels {
		err := errors.New("null: expected a label; a row without labels has an empty list")
		if !items.Null(from+i) && !isNaN(items, from+i) {
			labels[i], err = d.label(items, from+i)
		}
		if err == nil && strings.TrimSpace(labels[i]) == "" {
			err = errors.New("empty: expected a label; a row without labels has an empty list")
		}
		if err != nil {
			return nil, fmt.Errorf("label %d of the list: %w", i, err)
		}
	}
	return labels, nil
}

// label reads a label as it is written.
func (d *decoder) label(values *stream.Values, i int) (string, error) {
	text := values.Text(i)
	if values.Type == stream.Text && (len(text) > MaxLabel || !utf8.ValidString(text)) {
		return "", fmt.Errorf("label of %d bytes: expected at most %d of UTF-8", len(text), MaxLabel)
	}
	return d.owned(text), nil
}

// owned returns a text in memory of the rows.
func (d *decoder) owned(text string) string {
	own, known := d.own[text]
	if !known {
		own = strings.Clone(text)
		d.own[own] = own
	}
	return own
}

// maxTargets is the maximum number of targets of the rows of a message. Rows without targets take memory, but no bytes of the message.
const maxTargets = 1 << 24

// targets reads the targets. A null row has none.
func (d *decoder) targets(lists *stream.Values) error {
	n, k := d.Rows.Rows, -1
	for row := range n {
		if lists.Null(row) {
			continue
		}
		from, to := lists.Range(row)
		switch {
		case k < 0 && n*(to-from) > maxTargets:
			return fmt.Errorf("%d targets of %d rows: expected at most %d in all", to-from, n, maxTargets)
		case k < 0:
			k = to - from
			d.Targets = make([]float64, n*k)
			for i := range d.Targets {
				d.Targets[i] = math.NaN()
			}
		case to-from != k:
			return fmt.Errorf("row %d: %d targets, but %d in the rows before: expected the same number in each row", row, to-from, k)
		}
		for i, v := range lists.Items().AppendNumbers(d.Targets[row*k:row*k], from, to) {
			if math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
				return fmt.Errorf("row %d: target %d is null or not a finite float32: expected a number, or null for the whole row if it has no "+
					"targets", row, i)
			}
		}
	}
	return nil
}

// answers reads the served answers. Rows may have none.
func (d *decoder) answers() {
	labels, versions := d.served, d.versions
	if labels == nil || versions == nil || versions.Type != stream.Whole || versions.Unsigned() {
		return
	}
	d.Served = make([]Served, d.Rows.Rows)
	for row := range d.Served {
		if labels.Null(row) || isNaN(labels, row) || versions.Null(row) {
			continue
		}
		if n, _ := versions.Whole(row); n >= 1 && n <= MaxVersion {
			d.Served[row] = Served{d.owned(value.Label(labels.Text(row))), int(n)}
		}
	}
}

// WithoutKeys returns the value of an examples message without the source keys of its rows: the value itself if it has none. An error
// wraps [wire.ErrDamaged].
func WithoutKeys(value []byte, mem memory.Allocator) ([]byte, error) {
	record, err := stream.Decode(value, mem, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	defer record.Release()
	schema := record.Schema()
	at := schema.FieldIndices(columnSourceKey)
	if len(at) != 1 {
		return value, nil
	}
	metadata := schema.Metadata()
	without := array.NewRecord(arrow.NewSchema(slices.Delete(schema.Fields(), at[0], at[0]+1), &metadata),
		slices.Delete(slices.Clone(record.Columns()), at[0], at[0]+1), record.NumRows())
	defer without.Release()
	return Encode(without, mem)
}

// WithBlanks returns the value of an examples message with the columns of a template. Row i is blank if blank[i], otherwise
// the next row of the record, which may be nil if all are blank or there is none, and whose rows may lack keys. An error
// wraps [wire.ErrDamaged].
func WithBlanks(template []byte, rows arrow.Record, blank []bool, mem memory.Allocator) ([]byte, error) {
	columns, err := stream.Decode(template, mem, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	defer columns.Release()
	b := array.NewRecordBuilder(mem, columns.Schema())
	defer b.Release()
	for _, field := range b.Fields() {
		for _, is := range blank {
			if is {
				field.AppendEmptyValue()
			}
		}
	}
	blanks := b.NewRecord()
	defer blanks.Release()
	if rows == nil {
		return Encode(blanks, mem)
	}
	merged := make([]arrow.Array, blanks.NumCols())
	for i, field := range columns.Schema().Fields() {
		var of arrow.Array
		if at := rows.Schema().FieldIndices(field.Name); len(at) > 0 {
			of = rows.Column(at[0])
		} else {
			of = array.MakeArrayOfNull(mem, field.Type, int(rows.NumRows()))
			defer of.Release()
		}
		next, pieces := map[bool]int64{}, []arrow.Array{}
		for _, is := range blank {
			from := of
			if is {
				from = blanks.Column(i)
			}
			piece := array.NewSlice(from, next[is], next[is]+1)
			defer piece.Release()
			pieces = append(pieces, piece)
			next[is]++
		}
		if merged[i], err = array.Concatenate(pieces, mem); err != nil {
			return nil, err
		}
		defer merged[i].Release()
	}
	record := array.NewRecord(columns.Schema(), merged, int64(len(blank)))
	defer record.Release()
	return Encode(record, mem)
}
