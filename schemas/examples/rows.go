package examples

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// Rows has the rows of an examples message as plain columns. Exactly one of Floats, Bytes and Sparse is set. The first two have
// Rows × Cols features, row-major; with the last, Cols is 0. At most one of Words and Numbers is set; without both, the
// rows have no labels.
type Rows struct {
	Rows, Cols int
	Floats     []float32 // features; missing features are NaN
	Bytes      []uint8   // features that are small integers, as in images; they take a quarter of the space
	Sparse     *SparseRows
	Words      []string   // text labels
	Numbers    []int64    // integer labels
	NoLabel    []bool     // rows of Words or Numbers without a label; nil: all rows have a label
	LabelLists [][]string // multi-label: labels of each row, replaces Words and Numbers; nil for a row with unknown labels
	Targets    []float64  // regression targets (Rows × k, row-major); NaN for rows without targets; nil: none
	Weights    []float32  // nil: every row has weight 1
	Splits     []Split    // nil: every row is Train
	Served     []Served   // served answers; nil: unknown for all rows
	// keys of the messages on the followed topic; "": no key; nil: no message has one, or the rows do not come from a topic
	SourceKeys []string
	Origins    RowOrigins // followed topic: origins of the rows, which Origin.TopicMessage writes to a header
	Columns    Columns    // table columns of the features, with Cols features; nil: unknown
	Image      Image      // image shape of the rows, with Cols features; zero: no images, or unknown
}

// Record makes the Arrow record of the rows. The caller releases it. It panics if columns differ in length or number of features.
func (r *Rows) Record(mem memory.Allocator) arrow.Record {
	if r.Sparse != nil && r.Sparse.Len() != r.Rows {
		panic(fmt.Sprintf("schemas: %d sparse rows for %d", r.Sparse.Len(), r.Rows))
	}
	if n := len(r.Floats) + len(r.Bytes); n != r.Rows*r.Cols || r.Floats != nil && r.Bytes != nil {
		panic(fmt.Sprintf("schemas: %d features for %d × %d", n, r.Rows, r.Cols))
	}
	columns := r.columns()
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = c.Field
	}
	b := array.NewRecordBuilder(mem, arrow.NewSchema(fields, r.metadata()))
	defer b.Release()
	for i, c := range columns {
		c.fill(b.Field(i))
	}
	return b.NewRecord()
}

// writtenColumn is a column of a record. fill appends the values of all rows.
type writtenColumn struct {
	arrow.Field
	fill func(array.Builder)
}

// columns returns the columns of the record.
func (r *Rows) columns() (columns []writtenColumn) {
	add := func(name string, of arrow.DataType, nullable bool, fill func(array.Builder)) {
		columns = append(columns, writtenColumn{arrow.Field{Name: name, Type: of, Nullable: nullable}, fill})
	}
	add(columnFeatures, r.featuresType(), false, r.appendFeatures)
	switch {
	case r.Words != nil:
		add(columnLabel, arrow.BinaryTypes.String, true, func(b array.Builder) {
			b.(*array.StringBuilder).AppendValues(r.Words, r.labelled())
		})
	case r.Numbers != nil:
		add(columnLabel, arrow.PrimitiveTypes.Int64, true, func(b array.Builder) {
			b.(*array.Int64Builder).AppendValues(r.Numbers, r.labelled())
		})
	case r.LabelLists != nil:
		add(columnLabel, arrow.ListOf(arrow.BinaryTypes.String), true, r.appendLists)
	}
	if r.Targets != nil {
		k := int32(len(r.Targets) / max(r.Rows, 1))
		add(columnTargets, arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float64), true, r.appendTargets)
	}
	if r.Weights != nil {
		add(columnWeight, arrow.PrimitiveTypes.Float32, false, func(b array.Builder) { b.(*array.Float32Builder).AppendValues(r.Weights, nil) })
	}
	if r.Splits != nil {
		add(columnSplit, arrow.BinaryTypes.String, false, func(b array.Builder) {
			for _, s := range r.Splits {
				b.(*array.StringBuilder).Append(s.String())
			}
		})
	}
	if r.Served != nil {
		add(columnServed, arrow.BinaryTypes.String, true, r.appendServedLabels)
		add(columnServedVersion, arrow.PrimitiveTypes.Int64, true, r.appendServedVersions)
	}
	if r.SourceKeys != nil {
		add(columnSourceKey, arrow.BinaryTypes.Binary, true, func(b array.Builder) {
			for _, key := range r.SourceKeys {
				appendOrNull(key != "", b, func() { b.(*array.BinaryBuilder).Append([]byte(key)) })
			}
		})
	}
	return columns
}

// appendOrNull appends a value if it is known, otherwise null.
func appendOrNull(known bool, b array.Builder, value func()) {
	if !known {
		b.AppendNull()
		return
	}
	value()
}

// Labelled returns the number of rows with a label or a list of labels.
func (r *Rows) Labelled() (n int) {
	for row := range r.Rows {
		switch {
		case len(r.LabelLists) > 0 && r.LabelLists[row] != nil, len(r.Words)+len(r.Numbers) > 0 && (len(r.NoLabel) == 0 || !r.NoLabel[row]):
			n++
		}
	}
	return n
}

// labelled returns which rows have a label; nil if all have one.
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

// appendFeatures appends the features of all rows.
func (r *Rows) appendFeatures(b array.Builder) {
	lists, ok := b.(*array.FixedSizeListBuilder)
	if !ok {
		r.Sparse.appendTo(b.(*array.ListBuilder))
		return
	}
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

// metadata returns the schema metadata of the rows; nil if there is none.
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

// present returns which floats are not NaN, or nil if none is NaN.
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

// Encode encodes a record, such as that of [Rows.Record], as the value of an examples message.
func Encode(record arrow.Record, mem memory.Allocator) ([]byte, error) {
	return stream.Encode(record, mem)
}
