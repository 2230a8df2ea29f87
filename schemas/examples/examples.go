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

// Columns of an examples message.
const (
	columnFeatures = "features"
	columnLabel    = "label"
	columnWeight   = "weight"
	columnSplit    = "split"
	columnTargets  = "targets"
)

// Rows holds the rows of an examples message as plain columns. Exactly one of Floats, Bytes and Sparse is set. The first two have
// Rows × Cols features, row-major; with the last, Cols is 0. At most one of Words and Numbers is set; without both, the
// rows have no labels.
type Rows struct {
	Rows, Cols int
	Floats     []float32 // features; a missing one is NaN
	Bytes      []uint8   // features that are small whole numbers, as in images; they take a quarter of the space
	Sparse     *SparseRows
	Words      []string   // labels that are text
	Numbers    []int64    // labels that are whole numbers
	NoLabel    []bool     // rows of Words or Numbers that have no label; nil: all have one
	LabelLists [][]string // labels of rows that may have several, in place of Words and Numbers; a row that is nil has none that are known
	Targets    []float64  // numbers to predict (Rows × k, row-major); those of a row that has none are NaN; nil: there are none
	Weights    []float32  // nil: every row has weight 1
	Splits     []Split    // nil: every row is Train
	Served     []Served   // what was answered for the rows; nil: nothing is known of any
	// of the messages of a topic that the rows are of; "": of one without a key; nil: none has one, or they are of no
	// topic
	SourceKeys []string
	Origins    RowOrigins // of the rows, of a topic that ingest follows: Origin.TopicMessage writes them to a header
	Columns    Columns    // of the table that the features are of, with Cols features; nil: not known
	Image      Image      // of the images that the rows are, with Cols features; zero: they are none, or it is not known
}

// metadataColumns is the key in the metadata of the schema that has the columns. Other producers may write it too.
const metadataColumns = "stagewise.columns"

// metadataImage is the key in the metadata of the schema that has the shape of images. Other producers may write it too.
const metadataImage = "stagewise.image"

// Record makes the Arrow record of the rows. The caller releases it. It panics if the columns differ in length, or have other features.
func (r *Rows) Record(mem memory.Allocator) arrow.Record {
	if r.Sparse != nil && r.Sparse.Len() != r.Rows {
		panic(fmt.Sprintf("schemas: %d sparse rows for %d", r.Sparse.Len(), r.Rows))
	}
	if n := len(r.Floats) + len(r.Bytes); n != r.Rows*r.Cols || r.Floats != nil && r.Bytes != nil {
		panic(fmt.Sprintf("schemas: %d features for %d × %d", n, r.Rows, r.Cols))
	}
	metadata := r.metadata()
	fields := []arrow.Field{{Name: columnFeatures, Type: r.featuresType()}}
	switch {
	case r.Words != nil:
		fields = append(fields, arrow.Field{Name: columnLabel, Type: arrow.BinaryTypes.String, Nullable: true})
	case r.Numbers != nil:
		fields = append(fields, arrow.Field{Name: columnLabel, Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	case r.LabelLists != nil:
		fields = append(fields, arrow.Field{Name: columnLabel, Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true})
	}
	if r.Targets != nil {
		k := int32(len(r.Targets) / max(r.Rows, 1))
		fields = append(fields, arrow.Field{Name: columnTargets, Type: arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float64), Nullable: true})
	}
	if r.Weights != nil {
		fields = append(fields, arrow.Field{Name: columnWeight, Type: arrow.PrimitiveTypes.Float32})
	}
	if r.Splits != nil {
		fields = append(fields, arrow.Field{Name: columnSplit, Type: arrow.BinaryTypes.String})
	}
	if r.Served != nil {
		fields = append(fields, servedFields()...)
	}
	if r.SourceKeys != nil {
		fields = append(fields, arrow.Field{Name: columnSourceKey, Type: arrow.BinaryTypes.Binary, Nullable: true})
	}
	b := array.NewRecordBuilder(mem, arrow.NewSchema(fields, metadata))
	defer b.Release()

	switch lists := b.Field(0).(type) {
	case *array.ListBuilder:
		r.Sparse.appendTo(lists)
	case *array.FixedSizeListBuilder:
		r.appendDense(lists)
	}
	next := 1
	switch {
	case r.Words != nil:
		b.Field(next).(*array.StringBuilder).AppendValues(r.Words, r.labelled())
		next++
	case r.Numbers != nil:
		b.Field(next).(*array.Int64Builder).AppendValues(r.Numbers, r.labelled())
		next++
	case r.LabelLists != nil:
		r.appendLists(b.Field(next).(*array.ListBuilder))
		next++
	}
	if r.Targets != nil {
		r.appendTargets(b.Field(next).(*array.FixedSizeListBuilder))
		next++
	}
	if r.Weights != nil {
		b.Field(next).(*array.Float32Builder).AppendValues(r.Weights, nil)
		next++
	}
	if r.Splits != nil {
		splits := b.Field(next).(*array.StringBuilder)
		for _, s := range r.Splits {
			splits.Append(s.String())
		}
		next++
	}
	if r.Served != nil {
		r.appendServed(b.Field(next).(*array.StringBuilder), b.Field(next+1).(*array.Int64Builder))
		next += 2
	}
	if r.SourceKeys != nil {
		keys := b.Field(next).(*array.BinaryBuilder)
		for _, key := range r.SourceKeys {
			if key == "" {
				keys.AppendNull()
				continue
			}
			keys.Append([]byte(key))
		}
	}
	return b.NewRecord()
}

// Labelled returns how many rows have a label, or a list of labels.
func (r *Rows) Labelled() (n int) {
	for row := range r.Rows {
		switch {
		case len(r.LabelLists) > 0 && r.LabelLists[row] != nil, len(r.Words)+len(r.Numbers) > 0 && (len(r.NoLabel) == 0 || !r.NoLabel[row]):
			n++
		}
	}
	return n
}

// labelled returns which rows have a label; nil if all have.
func (r *Rows) labelled() []bool {
	if !slices.Contains(r.NoLabel, true) {
		return nil
	}
	has := make([]bool, len(r.NoLabel))
	for i, none := range r.NoLabel {
		has[i] = !none
	}
	return has
}

// featuresType returns the type of the column of features.
func (r *Rows) featuresType() arrow.DataType {
	switch {
	case r.Sparse != nil:
		return sparseType()
	case r.Bytes != nil:
		return arrow.FixedSizeListOf(int32(r.Cols), arrow.PrimitiveTypes.Uint8)
	}
	return arrow.FixedSizeListOf(int32(r.Cols), arrow.PrimitiveTypes.Float32)
}

// appendDense appends the features of all rows.
func (r *Rows) appendDense(lists *array.FixedSizeListBuilder) {
	lists.Reserve(r.Rows)
	for range r.Rows {
		lists.Append(true)
	}
	switch values := lists.ValueBuilder().(type) {
	case *array.Float32Builder:
		values.AppendValues(r.Floats, present(r.Floats))
	case *array.Uint8Builder:
		values.AppendValues(r.Bytes, nil)
	}
}

// metadata returns what the schema of the rows says about the features; nil if that is nothing.
func (r *Rows) metadata() *arrow.Metadata {
	var keys, values []string
	if r.Columns != nil {
		if n := r.Columns.Features(); n != r.Cols && r.Sparse == nil {
			panic(fmt.Sprintf("schemas: columns of %d features for %d", n, r.Cols))
		}
		keys, values = append(keys, metadataColumns), append(values, r.Columns.Text())
	}
	if r.Image != (Image{}) {
		if n := r.Image.Size(); n != r.Cols {
			panic(fmt.Sprintf("schemas: images of %d features for %d", n, r.Cols))
		}
		keys, values = append(keys, metadataImage), append(values, r.Image.Text())
	}
	if keys == nil {
		return nil
	}
	known := arrow.NewMetadata(keys, values)
	return &known
}

// present returns which floats are not NaN, or nil if all are not.
func present(floats []float32) []bool {
	if !slices.ContainsFunc(floats, func(v float32) bool { return v != v }) {
		return nil
	}
	valid := make([]bool, len(floats))
	for i, v := range floats {
		valid[i] = v == v
	}
	return valid
}

// Encode encodes a record, as of [Rows.Record], as the value of an examples message.
func Encode(record arrow.Record, mem memory.Allocator) ([]byte, error) {
	return stream.Encode(record, mem)
}

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

// Batch is a decoded and checked examples message. Features are finite or missing, but infinite if they are too large
// for float32, weights are finite and not negative, splits are known, and labels that are text are UTF-8 of at most
// [MaxLabel] bytes. Release it after use.
type Batch struct {
	Rows int // number of rows
	// Width is the number of features of each row if they are dense, and the maximum index plus 1 if they are sparse.
	Width  int
	Sparse bool // whether the message has only the features that are not 0

	record  arrow.Record
	floats  *array.Float32
	doubles *array.Float64
	bytes   *array.Uint8
	lists   *array.List // sparse
	indices func(i int) int64
	first   int // index of the first dense value in its array
	missing bool
	leading int            // of sparse rows: the columns that come first and are those of a table, numbers that may be missing
	labels  values         // of the rows, or if there are lists of all their entries
	sets    array.ListLike // of the labels of each row; nil: a row has one label
	weights arrow.Array
	weight  func(row int) float64
	splits  values
	targets *targets // nil: there are none
	// what was answered, and by which versions
	served, servedVersion values

	forgotten     []bool        // rows that have no values any more; nil: there are none
	unlabelled    map[int]bool  // rows whose labels and targets don't count
	deltas        []float64     // what is added to the features; nil: nothing
	missingLabels value.Missing // words that are no label, beside empty text
}

// MaxLabel is the maximum length of a label in bytes. Thousands of labels have to fit a plan and a manifest.
const MaxLabel = 1024

// Retain requires one more Release before the memory is freed.
func (e *Batch) Retain() { e.record.Retain() }

// Release frees the memory of the message. The caller must not use e, or a slice from it, afterwards.
func (e *Batch) Release() { e.record.Release() }

// wantFeatures names the types that the column of features may have.
const wantFeatures = "a list of float32, float64 or uint8, or a list of structs of index and value (float32)"

// Decode decodes and checks the value of an examples message. The caller releases the examples. An error wraps
// [wire.ErrDamaged]; it is a *[ValueError] if a single value is at fault.
func Decode(value []byte, mem memory.Allocator) (_ *Batch, err error) {
	record, err := stream.Decode(value, mem, func(column string) bool {
		switch column {
		case columnFeatures, columnLabel, columnWeight, columnSplit, columnTargets, columnServed, columnServedVersion:
			return true
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	e := &Batch{record: record, Rows: int(record.NumRows())}
	defer func() {
		if err != nil {
			record.Release()
		}
	}()
	for i := range int(record.NumCols()) {
		name, column := record.ColumnName(i), record.Column(i)
		if len(record.Schema().FieldIndices(name)) > 1 {
			return nil, fmt.Errorf("%w: column %s occurs twice", wire.ErrDamaged, stream.Quote(name))
		}
		if err := e.take(name, column); err != nil {
			return nil, fmt.Errorf("%w: column %s: %w", wire.ErrDamaged, stream.Quote(name), err)
		}
	}
	if e.floats == nil && e.doubles == nil && e.bytes == nil {
		return nil, fmt.Errorf("%w: no column %q: expected a column of this name with a list of numbers in each row, found %s",
			wire.ErrDamaged, columnFeatures, columnNames(record.Schema()))
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	return e, nil
}

// columnNames names the first columns of a message, for the producer who sent it.
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

// take keeps a column that stagewise reads.
func (e *Batch) take(name string, column arrow.Array) error {
	switch name {
	case columnFeatures:
		if column.NullN() > 0 {
			return fmt.Errorf("%d rows without features", column.NullN())
		}
		return e.takeFeatures(column)
	case columnLabel:
		return e.takeLabels(column)
	case columnWeight:
		switch weights := column.(type) {
		case *array.Float32:
			e.weight = func(row int) float64 { return float64(weights.Value(row)) }
		case *array.Float64:
			e.weight = weights.Value
		default:
			return fmt.Errorf("type %v, expected float32 or float64", column.DataType())
		}
		e.weights = column
	case columnSplit:
		splits, ok := valuesOf(column)
		if !ok || splits.numbers != nil {
			return fmt.Errorf("type %v, expected text", column.DataType())
		}
		e.splits = splits
	case columnTargets:
		return e.takeTargets(column)
	case columnServed:
		return takeServed(column, &e.served)
	case columnServedVersion:
		return takeServed(column, &e.servedVersion)
	}
	return nil // a producer may add columns of its own
}

func (e *Batch) takeFeatures(column arrow.Array) error {
	switch column := column.(type) {
	case *array.FixedSizeList:
		e.Width = int(column.DataType().(*arrow.FixedSizeListType).Len())
		e.first = column.Data().Offset() * e.Width
		if ok, err := e.takeValues(column.ListValues()); ok || err != nil {
			return err
		}
	case *array.LargeList:
		if ok, err := e.takeLists(column); ok || err != nil {
			return err
		}
	case *array.List:
		if ok, err := e.takeLists(column); ok || err != nil {
			return err
		}
		pairs, ok := column.ListValues().(*array.Struct)
		if !ok || pairs.NumField() != 2 {
			break
		}
		indices, ok := wholeNumbers(pairs.Field(0))
		values, isFloat := pairs.Field(1).(*array.Float32)
		if !ok || !isFloat {
			break
		}
		if pairs.NullN() > 0 || pairs.Field(0).NullN() > 0 || values.NullN() > 0 {
			return errors.New("nulls among sparse features: leave out a feature that is 0")
		}
		e.lists, e.indices, e.floats, e.Sparse = column, indices, values, true
		return nil
	}
	return fmt.Errorf("type %v, expected %s", column.DataType(), wantFeatures)
}

// takeLists keeps dense features in lists of any length, which must be the same in all rows. Their values then follow each other as
// those of a fixed-size list do. It returns false if the values are no numbers that features may have.
func (e *Batch) takeLists(column array.ListLike) (ok bool, err error) {
	if ok, err := e.takeValues(column.ListValues()); !ok || err != nil {
		return ok, err
	}
	for row := range e.Rows {
		from, to := column.ValueOffsets(row)
		if row == 0 {
			e.first, e.Width = int(from), int(to-from)
		}
		if n := int(to - from); n != e.Width {
			return true, &ValueError{row, -1, fmt.Sprintf("%d features, row 0 has %d: expected as many in each row", n, e.Width)}
		}
	}
	return true, nil
}

// takeValues keeps the values of dense features, or returns false if they have another type.
func (e *Batch) takeValues(column arrow.Array) (ok bool, err error) {
	switch column := column.(type) {
	case *array.Float32:
		e.floats = column
	case *array.Float64:
		e.doubles = column
	case *array.Uint8:
		if column.NullN() > 0 {
			return true, errors.New("nulls among uint8 features: features that may be missing must be float32 or float64")
		}
		e.bytes = column
	default:
		return false, nil
	}
	return true, nil
}

// check checks the values of all columns.
func (e *Batch) check() error {
	for i := range e.Rows {
		if e.weights != nil {
			if e.weights.IsNull(i) {
				return &ValueError{i, -1, "weight is null: expected a finite number ≥ 0"}
			}
			if w := e.weight(i); !(w >= 0) || math.IsInf(float64(float32(w)), 1) {
				return &ValueError{i, -1, fmt.Sprintf("weight %v: expected a finite number ≥ 0", w)}
			}
		}
		if e.splits.words != nil && !e.splits.isNull(i) {
			if _, err := ParseSplit(e.splits.words(i)); err != nil {
				return &ValueError{i, -1, err.Error()}
			}
		}
		if e.sets == nil && e.labels.words != nil && !e.labels.isNull(i) {
			if label := e.labels.words(i); len(label) > MaxLabel || !utf8.ValidString(label) {
				return &ValueError{i, -1, fmt.Sprintf("label of %d bytes: expected at most %d of UTF-8", len(label), MaxLabel)}
			}
		}
	}
	if err := e.checkLists(); err != nil {
		return err
	}
	switch {
	case e.Sparse:
		return e.checkSparse()
	case e.floats != nil:
		return checkDense(e, e.floats, e.floats.Float32Values())
	case e.doubles != nil:
		return checkDense(e, e.doubles, e.doubles.Float64Values())
	}
	return nil
}

// checkDense checks that the features are finite, and finds out whether any is missing. One that is too large for
// float32 is no error of the message: only its row can't be used.
func checkDense[T float32 | float64](e *Batch, column arrow.Array, features []T) error {
	nulls := column.NullN() > 0
	for i, v := range features[e.first : e.first+e.Rows*e.Width] {
		if nulls && column.IsNull(e.first+i) {
			e.missing = true
			continue
		}
		if v-v != 0 { // 0 only if v is finite
			return &ValueError{i / e.Width, i % e.Width, fmt.Sprintf("%v is not a finite number", v)}
		}
	}
	return nil
}

// checkSparse checks sparse features and finds the width.
func (e *Batch) checkSparse() error {
	if text := e.Columns(); text != "" {
		columns, err := ParseColumns(text)
		if err != nil {
			return err
		}
		e.leading = columns.Features()
	}
	for row := range e.Rows {
		from, to := e.lists.ValueOffsets(row)
		last := int64(-1)
		for i := int(from); i < int(to); i++ {
			index, v := e.indices(i), e.floats.Value(i)
			switch {
			case index <= last || index > math.MaxInt32-1:
				return &ValueError{row, -1, fmt.Sprintf("index %d after %d: expected ascending indices below 2³¹-1", index, last)}
			case v != v && index < int64(e.leading):
				e.missing = true
			case v-v != 0:
				return &ValueError{row, int(index), fmt.Sprintf("%v is not a finite number", v)}
			}
			last = index
		}
		e.Width = max(e.Width, int(last)+1)
	}
	return nil
}

// Columns returns the columns of the table that the features are of, as [Columns.Text] has them; "" if the message does not say. Read
// them with [ParseColumns].
func (e *Batch) Columns() string {
	metadata := e.record.Schema().Metadata()
	text, _ := metadata.GetValue(metadataColumns)
	return text
}

// Image returns the shape of the images that the examples are, as [Image.Text] has it; "" if the message does not say. Read it with
// [ParseImage].
func (e *Batch) Image() string {
	metadata := e.record.Schema().Metadata()
	text, _ := metadata.GetValue(metadataImage)
	return text
}

// Missing reports whether any feature is missing.
func (e *Batch) Missing() bool { return e.missing }

// Features writes the features into dst, Rows × width, row-major. A missing feature is NaN. The width of dense examples is
// Width, that of sparse ones at least Width. Features panics on any other width or length.
func (e *Batch) Features(dst []float32, width int) {
	if len(dst) != e.Rows*width || width < e.Width || !e.Sparse && width != e.Width {
		panic(fmt.Sprintf("schemas: features of %d × %d into %d values of width %d", e.Rows, e.Width, len(dst), width))
	}
	switch {
	case e.Sparse:
		clear(dst)
		for row := range e.Rows {
			from, to := e.lists.ValueOffsets(row)
			for i := int(from); i < int(to); i++ {
				dst[row*width+int(e.indices(i))] = e.floats.Value(i)
			}
		}
	case e.bytes != nil:
		for i, v := range e.bytes.Uint8Values()[e.first : e.first+len(dst)] {
			dst[i] = float32(v)
		}
		if e.deltas != nil {
			e.align(dst)
		}
	case e.doubles != nil:
		for i, v := range e.doubles.Float64Values()[e.first : e.first+len(dst)] {
			if e.deltas != nil {
				v += e.deltas[i%e.Width]
			}
			dst[i] = float32(v)
		}
		e.markMissing(dst, e.doubles)
	default:
		copy(dst, e.floats.Float32Values()[e.first:e.first+len(dst)])
		if e.deltas != nil {
			e.align(dst)
		}
		e.markMissing(dst, e.floats)
	}
	for row, forgotten := range e.forgotten {
		if forgotten {
			clear(dst[row*width : (row+1)*width])
		}
	}
}

// markMissing writes NaN over the features that are null in their column.
func (e *Batch) markMissing(dst []float32, column arrow.Array) {
	if !e.missing {
		return
	}
	for i := range dst {
		if column.IsNull(e.first + i) {
			dst[i] = float32(math.NaN())
		}
	}
}

// Bytes returns the features, Rows × Width, row-major, if they are bytes as they are and no row was forgotten, or nil
// if not. The slice is shared with e.
func (e *Batch) Bytes() []uint8 {
	if e.bytes == nil || e.forgotten != nil || e.deltas != nil {
		return nil
	}
	return e.bytes.Uint8Values()[e.first : e.first+e.Rows*e.Width]
}

// Weight returns the weight of a row, or 1 if the message has no weights. That of a forgotten row is 0.
func (e *Batch) Weight(row int) float32 {
	if e.forgot(row) {
		return 0
	}
	if e.weights == nil {
		return 1
	}
	return float32(e.weight(row))
}

// Split returns the split of a row, or Train if the message does not say.
func (e *Batch) Split(row int) Split {
	if e.splits.words == nil || e.splits.isNull(row) {
		return Train
	}
	split, _ := ParseSplit(e.splits.words(row)) // check has seen the errors
	return split
}

// Unlabel removes the label and the targets of a row, so that nothing is learnt from it.
func (e *Batch) Unlabel(row int) {
	if e.unlabelled == nil {
		e.unlabelled = map[int]bool{}
	}
	e.unlabelled[row] = true
}

// Label returns the label of a labelled row as text. The text stays valid after Release. Label panics on a row without a
// label column. It is not for messages with lists of labels.
func (e *Batch) Label(row int) string { return e.label(row) }
