package schemas

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// KindExamples is the kind of an examples message that was ingested. Other
// producers need not say it.
const KindExamples Kind = "examples"

// Columns of an examples message.
const (
	columnFeatures = "features"
	columnLabel    = "label"
	columnWeight   = "weight"
	columnSplit    = "split"
)

// ExampleRows is what becomes an examples message: plain columns that a reader
// of files fills. Exactly one of Floats and Bytes is set, with Rows × Cols
// values, row-major.
type ExampleRows struct {
	Rows, Cols int
	Floats     []float32 // NaN: missing, becomes null
	Bytes      []uint8   // small whole numbers, as images have: a quarter of the bytes
	Words      []string  // labels that are text; nil: Numbers, or none
	Numbers    []int64   // labels that are whole numbers; nil: Words, or none
	Weights    []float32 // nil: every row weighs 1
	Splits     []Split   // nil: every row is Train
}

// Record makes the Arrow record of the rows. The caller releases it. It panics
// if there is no feature or the columns differ in length.
func (r *ExampleRows) Record(mem memory.Allocator) arrow.Record {
	if n := len(r.Floats) + len(r.Bytes); n != r.Rows*r.Cols || r.Floats != nil && r.Bytes != nil {
		panic(fmt.Sprintf("schemas: %d features for %d × %d", n, r.Rows, r.Cols))
	}
	item := arrow.DataType(arrow.PrimitiveTypes.Float32)
	if r.Bytes != nil {
		item = arrow.PrimitiveTypes.Uint8
	}
	fields := []arrow.Field{{Name: columnFeatures, Type: arrow.FixedSizeListOf(int32(r.Cols), item)}}
	switch {
	case r.Words != nil:
		fields = append(fields, arrow.Field{Name: columnLabel, Type: arrow.BinaryTypes.String, Nullable: true})
	case r.Numbers != nil:
		fields = append(fields, arrow.Field{Name: columnLabel, Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	if r.Weights != nil {
		fields = append(fields, arrow.Field{Name: columnWeight, Type: arrow.PrimitiveTypes.Float32})
	}
	if r.Splits != nil {
		fields = append(fields, arrow.Field{Name: columnSplit, Type: arrow.BinaryTypes.String})
	}
	b := array.NewRecordBuilder(mem, arrow.NewSchema(fields, nil))
	defer b.Release()

	lists := b.Field(0).(*array.FixedSizeListBuilder)
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
	next := 1
	switch {
	case r.Words != nil:
		b.Field(next).(*array.StringBuilder).AppendValues(r.Words, nil)
		next++
	case r.Numbers != nil:
		b.Field(next).(*array.Int64Builder).AppendValues(r.Numbers, nil)
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
	}
	return b.NewRecord()
}

// present is the validity of floats of which the NaN are missing; nil if none is.
func present(floats []float32) []bool {
	for i, v := range floats {
		if v != v {
			valid := make([]bool, len(floats))
			for j := range valid {
				valid[j] = j < i || floats[j] == floats[j]
			}
			return valid
		}
	}
	return nil
}

// EncodeExamples makes the value of an examples message.
func EncodeExamples(record arrow.Record, mem memory.Allocator) ([]byte, error) {
	return encode(record, mem)
}

// ExamplesFingerprint is the schema header of an examples message.
func ExamplesFingerprint(schema *arrow.Schema) string { return fingerprint(schema) }

// ValueError says which value of an examples message can't be used, and why.
// Row and Column count from 0; Column is -1 where it is not a feature.
type ValueError struct {
	Row, Column int
	Reason      string
}

func (e *ValueError) Error() string {
	if e.Column < 0 {
		return fmt.Sprintf("row %d: %s", e.Row, e.Reason)
	}
	return fmt.Sprintf("row %d, feature %d: %s", e.Row, e.Column, e.Reason)
}

func (e *ValueError) Unwrap() error { return ErrDamaged }

// Examples is a decoded examples message. Its values are checked: features are
// finite or missing, weights finite and not negative, splits known, labels that
// are text UTF-8 of at most MaxLabel bytes.
type Examples struct {
	Rows int
	// Width is the number of features: of each row if they are dense, one more
	// than the greatest index if they are sparse.
	Width  int
	Sparse bool

	record  arrow.Record
	floats  *array.Float32
	bytes   *array.Uint8
	lists   *array.List // sparse
	indices func(i int) int64
	first   int // of the dense values in their array
	words   *array.String
	numbers func(i int) int64
	labels  arrow.Array
	weights *array.Float32
	splits  *array.String
}

// MaxLabel is the most bytes of a label: with so few, labels by the thousand
// fit the messages that carry them on.
const MaxLabel = 1024

// Retain has the memory wait for one more Release.
func (e *Examples) Retain() { e.record.Retain() }

// Release gives the memory back.
func (e *Examples) Release() { e.record.Release() }

// Column types that are read; what others write may differ from what we write.
const wantFeatures = "a fixed-size list of float32 or uint8, or a list of structs of index and value (float32)"

// DecodeExamples reads an examples message. Every error wraps ErrDamaged.
func DecodeExamples(value []byte, mem memory.Allocator) (_ *Examples, err error) {
	record, err := decode(value, mem, func(column string) bool {
		return column == columnFeatures || column == columnLabel || column == columnWeight || column == columnSplit
	})
	if err != nil {
		return nil, err
	}
	e := &Examples{record: record, Rows: int(record.NumRows())}
	defer func() {
		if err != nil {
			record.Release()
		}
	}()
	for i := range int(record.NumCols()) {
		name, column := record.ColumnName(i), record.Column(i)
		if len(record.Schema().FieldIndices(name)) > 1 {
			return nil, fmt.Errorf("%w: column %s twice", ErrDamaged, quote(name))
		}
		if err := e.take(name, column); err != nil {
			return nil, fmt.Errorf("%w: column %s: %w", ErrDamaged, quote(name), err)
		}
	}
	if e.floats == nil && e.bytes == nil && e.lists == nil {
		return nil, fmt.Errorf("%w: no column %q", ErrDamaged, columnFeatures)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Examples) take(name string, column arrow.Array) error {
	switch name {
	case columnFeatures:
		if column.NullN() > 0 {
			return fmt.Errorf("%d rows without features", column.NullN())
		}
		return e.takeFeatures(column)
	case columnLabel:
		return e.takeLabels(column)
	case columnWeight:
		weights, ok := column.(*array.Float32)
		if !ok {
			return fmt.Errorf("type %v, expected float32", column.DataType())
		}
		e.weights = weights
	case columnSplit:
		splits, ok := column.(*array.String)
		if !ok {
			return fmt.Errorf("type %v, expected utf8", column.DataType())
		}
		e.splits = splits
	}
	return nil // columns that others add are theirs
}

func (e *Examples) takeFeatures(column arrow.Array) error {
	switch column := column.(type) {
	case *array.FixedSizeList:
		e.Width = int(column.DataType().(*arrow.FixedSizeListType).Len())
		e.first = column.Data().Offset() * e.Width
		switch values := column.ListValues().(type) {
		case *array.Float32:
			e.floats = values
			return nil
		case *array.Uint8:
			if values.NullN() > 0 {
				return errors.New("nulls among uint8 features: those that may be missing are float32")
			}
			e.bytes = values
			return nil
		}
	case *array.List:
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
			return errors.New("nulls among sparse features: those that are absent are 0")
		}
		e.lists, e.indices, e.floats, e.Sparse = column, indices, values, true
		return nil
	}
	return fmt.Errorf("type %v, expected %s", column.DataType(), wantFeatures)
}

// LabelListError says that a message has several labels a row.
type LabelListError struct{}

func (LabelListError) Error() string {
	return "a list of labels for each example: only one label an example can be trained on"
}

func (e *Examples) takeLabels(column arrow.Array) error {
	e.labels = column
	switch column := column.(type) {
	case *array.String:
		e.words = column
		return nil
	case *array.Null:
		return nil
	case *array.List, *array.FixedSizeList:
		return LabelListError{}
	}
	if numbers, ok := wholeNumbers(column); ok {
		e.numbers = numbers
		return nil
	}
	return fmt.Errorf("type %v, expected utf8 or a whole number that int64 holds", column.DataType())
}

func wholeNumbers(column arrow.Array) (func(int) int64, bool) {
	switch c := column.(type) {
	case *array.Int8:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Int16:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Int32:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Int64:
		return c.Value, true
	case *array.Uint8:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Uint16:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	case *array.Uint32:
		return func(i int) int64 { return int64(c.Value(i)) }, true
	}
	return nil, false
}

func (e *Examples) check() error {
	for i := range e.Rows {
		if e.weights != nil {
			if e.weights.IsNull(i) {
				return &ValueError{i, -1, "weight is null: expected a finite number ≥ 0"}
			}
			if w := float64(e.weights.Value(i)); !(w >= 0) || math.IsInf(w, 1) {
				return &ValueError{i, -1, fmt.Sprintf("weight %v: expected a finite number ≥ 0", w)}
			}
		}
		if e.splits != nil && !e.splits.IsNull(i) {
			if _, err := ParseSplit(e.splits.Value(i)); err != nil {
				return &ValueError{i, -1, err.Error()}
			}
		}
		if e.words != nil && !e.words.IsNull(i) {
			if label := e.words.Value(i); len(label) > MaxLabel || !utf8.ValidString(label) {
				return &ValueError{i, -1, fmt.Sprintf("label of %d bytes: expected at most %d of UTF-8", len(label), MaxLabel)}
			}
		}
	}
	if e.Sparse {
		return e.checkSparse()
	}
	if e.floats == nil {
		return nil
	}
	nulls := e.floats.NullN() > 0
	for i, v := range e.floats.Float32Values()[e.first : e.first+e.Rows*e.Width] {
		// v-v is 0 for a finite v only
		if v-v != 0 && !(nulls && e.floats.IsNull(e.first+i)) {
			return &ValueError{i / e.Width, i % e.Width, fmt.Sprintf("%v is not a finite number", v)}
		}
	}
	return nil
}

func (e *Examples) checkSparse() error {
	for row := range e.Rows {
		from, to := e.lists.ValueOffsets(row)
		last := int64(-1)
		for i := int(from); i < int(to); i++ {
			index, v := e.indices(i), e.floats.Value(i)
			switch {
			case index <= last || index > math.MaxInt32-1:
				return &ValueError{row, -1, fmt.Sprintf("index %d after %d: expected ascending indices below 2³¹-1", index, last)}
			case v-v != 0:
				return &ValueError{row, int(index), fmt.Sprintf("%v is not a finite number", v)}
			}
			last = index
		}
		e.Width = max(e.Width, int(last)+1)
	}
	return nil
}

// Missing tells whether any feature is missing.
func (e *Examples) Missing() bool { return !e.Sparse && e.floats != nil && e.floats.NullN() > 0 }

// Features writes the features into dst, Rows × width, row-major, a missing
// one as NaN. For dense examples width has to be Width, for sparse ones at
// least that; it panics otherwise.
func (e *Examples) Features(dst []float32, width int) {
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
		for i, v := range e.Bytes() {
			dst[i] = float32(v)
		}
	default:
		copy(dst, e.floats.Float32Values()[e.first:e.first+len(dst)])
		if e.floats.NullN() > 0 {
			for i := range dst {
				if e.floats.IsNull(e.first + i) {
					dst[i] = float32(math.NaN())
				}
			}
		}
	}
}

// Bytes is the features of examples whose features are bytes, Rows × Width, row-major and shared; nil of others.
func (e *Examples) Bytes() []uint8 {
	if e.bytes == nil {
		return nil
	}
	return e.bytes.Uint8Values()[e.first : e.first+e.Rows*e.Width]
}

// Weight of a row; 1 if the message has none.
func (e *Examples) Weight(row int) float32 {
	if e.weights == nil {
		return 1
	}
	return e.weights.Value(row)
}

// Split of a row; Train if the message says nothing.
func (e *Examples) Split(row int) Split {
	if e.splits == nil || e.splits.IsNull(row) {
		return Train
	}
	split, _ := ParseSplit(e.splits.Value(row)) // checked when decoded
	return split
}

// Labelled tells whether a row has a label.
func (e *Examples) Labelled(row int) bool {
	return (e.words != nil || e.numbers != nil) && !e.labels.IsNull(row)
}

// Label of a labelled row, as text. It outlives e.
func (e *Examples) Label(row int) string {
	if e.words != nil {
		return strings.Clone(e.words.Value(row))
	}
	return strconv.FormatInt(e.numbers(row), 10)
}

func examplesLayout() Layout {
	return Layout{Kind: KindExamples, Topic: "examples", Key: "SOURCE/SEQUENCE", Writer: "ingest, any producer", Reader: "worker"}
}
