// Package examples defines the message of the examples topic: a batch of rows with features, labels, weights and splits,
// dense or sparse, with the table columns of the features.
//
//	Rows ──Record, Encode──▶ Arrow ──Decode──▶ Rows ──Features, Classes──▶ numbers
//
// It decodes the messages of all producers. An error wraps [wire.ErrDamaged], and names the row and the column.
package examples

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Columns of an examples message.
const (
	columnFeatures      = "features"
	columnLabel         = "label"
	columnWeight        = "weight"
	columnSplit         = "split"
	columnTargets       = "targets"
	columnServed        = "served" // the answer of a server
	columnServedVersion = "served_version"
)

// Keys of the columns and of the image shape in the schema metadata. Other producers may write them too.
const (
	metadataColumns = "stagewise.columns"
	metadataImage   = "stagewise.image"
)

// Rows are examples as plain columns: what ingest writes as a message and [Decode] reads from one, and what models predict. Exactly one of
// Floats, Bytes and Sparse is set. The first two have Rows × Cols features, row-major. At most one of Words and Numbers is set; without
// both, the rows have no labels.
type Rows struct {
	Rows       int
	Cols       int       // features of each dense row; of decoded sparse rows, the maximum index plus 1
	Floats     []float32 // features; missing features are NaN
	Bytes      []uint8   // features that are small integers, as in images; they take a quarter of the space
	Sparse     *SparseRows
	Words      []string   // text labels, as they are written
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
	// Columns are the table columns of the features, with Cols features, and Image the shape of images, with Cols features. Both are for
	// rows to write; those of a message are in ColumnsText and ImageText.
	Columns Columns
	Image   Image

	described  arrow.Metadata // of a message
	doubles    []float64      // features as a message has them; nil: Floats are
	deltas     []float64      // added to the features; nil: nothing
	forgotten  []bool         // rows whose values were removed; nil: none
	unlabelled []bool         // rows whose labels and targets are ignored; nil: none
}

// Record makes the Arrow record of the rows. The caller releases it. It panics if columns differ in length or number of features.
func (r *Rows) Record(mem memory.Allocator) arrow.Record {
	if r.Sparse != nil && r.Sparse.Len() != r.Rows {
		panic(fmt.Sprintf("schemas: %d sparse rows for %d", r.Sparse.Len(), r.Rows))
	}
	if n := len(r.Floats) + len(r.Bytes); r.Sparse == nil && n != r.Rows*r.Cols || r.Floats != nil && r.Bytes != nil {
		panic(fmt.Sprintf("schemas: %d features for %d × %d", n, r.Rows, r.Cols))
	}
	return stream.NewRecord(mem, r.Rows, r.metadata(), r.columns()...)
}

// columns returns the columns of the record.
func (r *Rows) columns() []stream.Column {
	columns := []stream.Column{r.features()}
	add := func(name string, of arrow.DataType, values any, valid []bool) {
		nullable := name != columnWeight && name != columnSplit
		columns = append(columns, stream.Column{Field: arrow.Field{Name: name, Type: of, Nullable: nullable}, Values: values, Valid: valid})
	}
	switch {
	case r.Words != nil:
		add(columnLabel, arrow.BinaryTypes.String, r.Words, r.labelled())
	case r.Numbers != nil:
		add(columnLabel, arrow.PrimitiveTypes.Int64, r.Numbers, r.labelled())
	case r.LabelLists != nil:
		add(columnLabel, arrow.ListOf(arrow.BinaryTypes.String), r.LabelLists, where(r.LabelLists, func(l []string) bool { return l != nil }))
	}
	if r.Targets != nil {
		k := len(r.Targets) / max(r.Rows, 1)
		targets, known := slices.Clone(r.Targets), make([]bool, r.Rows)
		for row := range known {
			of := targets[row*k : (row+1)*k]
			if known[row] = !slices.ContainsFunc(of, func(v float64) bool { return v != v }); !known[row] {
				clear(of)
			}
		}
		add(columnTargets, arrow.FixedSizeListOf(int32(k), arrow.PrimitiveTypes.Float64), targets, known)
	}
	if r.Weights != nil {
		add(columnWeight, arrow.PrimitiveTypes.Float32, r.Weights, nil)
	}
	if r.Splits != nil {
		names := make([]string, len(r.Splits))
		for row, s := range r.Splits {
			names[row] = s.String()
		}
		add(columnSplit, arrow.BinaryTypes.String, names, nil)
	}
	if r.Served != nil {
		labels, versions, known := make([]string, len(r.Served)), make([]int64, len(r.Served)), where(r.Served, Served.known)
		for row, s := range r.Served {
			if known[row] {
				labels[row], versions[row] = s.Label, int64(s.Version)
			}
		}
		add(columnServed, arrow.BinaryTypes.String, labels, known)
		add(columnServedVersion, arrow.PrimitiveTypes.Int64, versions, known)
	}
	if r.SourceKeys != nil {
		add(columnSourceKey, arrow.BinaryTypes.Binary, r.SourceKeys, where(r.SourceKeys, func(key string) bool { return key != "" }))
	}
	return columns
}

// where reports the result of is for each value of a column.
func where[V any](column []V, is func(V) bool) []bool {
	all := make([]bool, len(column))
	for i, v := range column {
		all[i] = is(v)
	}
	return all
}

// labelled reports which rows have a label; nil if all have one.
func (r *Rows) labelled() []bool {
	if !slices.Contains(r.NoLabel, true) {
		return nil
	}
	return where(r.NoLabel, func(none bool) bool { return !none })
}

// features returns the column of features.
func (r *Rows) features() stream.Column {
	c := stream.Column{Field: arrow.Field{Name: columnFeatures}}
	switch width := int32(r.Cols); {
	case r.Sparse != nil:
		c.Type = arrow.ListOfNonNullable(arrow.StructOf(
			arrow.Field{Name: "index", Type: arrow.PrimitiveTypes.Int32}, arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Float32}))
		c.Values = stream.Structs{Ends: r.Sparse.Ends, Members: []any{r.Sparse.Indices, r.Sparse.Values}}
	case r.Bytes != nil:
		c.Type, c.Values = arrow.FixedSizeListOf(width, arrow.PrimitiveTypes.Uint8), r.Bytes
	default:
		c.Type, c.Values = arrow.FixedSizeListOf(width, arrow.PrimitiveTypes.Float32), r.Floats
		if slices.ContainsFunc(r.Floats, func(v float32) bool { return v != v }) {
			c.Items = where(r.Floats, func(v float32) bool { return v == v })
		}
	}
	return c
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

// ColumnsText returns the table columns of the features of a message in the format of [Columns.Text]; "" if unknown. Decode them with
// [ParseColumns].
func (r *Rows) ColumnsText() string { return r.describes(metadataColumns) }

// ImageText returns the image shape of the examples of a message in the format of [Image.Text]; "" if unknown. Decode it with [ParseImage].
func (r *Rows) ImageText() string { return r.describes(metadataImage) }

func (r *Rows) describes(key string) string {
	text, _ := r.described.GetValue(key)
	return text
}

// Weight returns the weight of a row, or 1 if there are no weights. Forgotten rows have weight 0.
func (r *Rows) Weight(row int) float32 {
	switch {
	case r.forgot(row):
		return 0
	case len(r.Weights) == 0:
		return 1
	}
	return r.Weights[row]
}

// Split returns the split of a row, by default Train.
func (r *Rows) Split(row int) Split {
	if len(r.Splits) == 0 {
		return Train
	}
	return r.Splits[row]
}

// Without blanks the forgotten rows of the message at an offset of a partition: they have weight 0, no label, no targets, and
// features of 0. Their number and split are kept. It returns r.
func (r *Rows) Without(forgotten coverage.Forgotten, partition int, offset int64) *Rows {
	forgotten.In(partition, offset, r.Rows, func(first, end int) {
		if r.forgotten == nil {
			r.forgotten = make([]bool, r.Rows)
		}
		for row := first; row < end; row++ {
			r.forgotten[row] = true
		}
	})
	if r.Sparse != nil && r.forgotten != nil {
		left := &SparseRows{}
		for row, forgotten := range r.forgotten {
			if indices, values := r.Sparse.Row(row); !forgotten {
				left.Indices, left.Values = append(left.Indices, indices...), append(left.Values, values...)
			}
			left.End()
		}
		r.Sparse = left
	}
	return r
}

// forgot reports whether a row is forgotten.
func (r *Rows) forgot(row int) bool { return r.forgotten != nil && r.forgotten[row] }

// Encode encodes a record, such as that of [Rows.Record], as the value of an examples message.
func Encode(record arrow.Record, mem memory.Allocator) ([]byte, error) {
	return stream.Encode(record, mem)
}

// Slice returns the rows [from, to). They share the memory of r.
func (r *Rows) Slice(from, to int) *Rows {
	cut := *r
	cut.Rows = to - from
	k := len(r.Targets) / max(r.Rows, 1)
	cut.Floats, cut.Bytes = slice(r.Floats, from*r.Cols, to*r.Cols), slice(r.Bytes, from*r.Cols, to*r.Cols)
	cut.Targets = slice(r.Targets, from*k, to*k)
	if r.Sparse != nil {
		cut.Sparse = r.Sparse.Slice(from, to)
	}
	cut.Words, cut.Numbers, cut.NoLabel = slice(r.Words, from, to), slice(r.Numbers, from, to), slice(r.NoLabel, from, to)
	cut.LabelLists, cut.Weights, cut.Splits = slice(r.LabelLists, from, to), slice(r.Weights, from, to), slice(r.Splits, from, to)
	cut.Served, cut.SourceKeys = slice(r.Served, from, to), slice(r.SourceKeys, from, to)
	cut.doubles = slice(r.doubles, from*r.Cols, to*r.Cols)
	cut.forgotten, cut.unlabelled = slice(r.forgotten, from, to), slice(r.unlabelled, from, to)
	return &cut
}

// slice returns a part of a column, which may be absent, or have fewer values than there are rows if the last ones could not be read.
func slice[V any](column []V, from, to int) []V {
	if len(column) == 0 {
		return nil
	}
	return column[from:to]
}

// Reset removes the rows, and keeps the memory of their features, labels, targets and weights.
func (r *Rows) Reset() {
	*r = Rows{Floats: r.Floats[:0], Sparse: r.Sparse, Words: r.Words[:0], Numbers: r.Numbers[:0], NoLabel: r.NoLabel[:0],
		LabelLists: r.LabelLists[:0], Targets: r.Targets[:0], Weights: r.Weights[:0], Served: r.Served[:0]}
	if r.Sparse != nil {
		r.Sparse.Reset()
	}
}

// Slice returns the rows [from, to). They share the memory of s.
func (s *SparseRows) Slice(from, to int) *SparseRows {
	first := 0
	if from > 0 {
		first = s.Ends[from-1]
	}
	ends := slices.Clone(s.Ends[from:to])
	for i := range ends {
		ends[i] -= first
	}
	last := first
	if to > from {
		last += ends[to-from-1]
	}
	return &SparseRows{Ends: ends, Indices: s.Indices[first:last], Values: s.Values[first:last]}
}

// MaxVersion is the highest version that a row may name.
const MaxVersion = 1<<31 - 1

// Served is the answer of a server for a row before its label was known.
type Served struct {
	Label   string // "": unknown
	Version int    // version that answered; 0: unknown
}

// known reports whether a row was served.
func (s Served) known() bool { return s.Label != "" && s.Version > 0 }

// Answer returns the served label of a row, and the version that answered. ok is false if they are unknown, and for forgotten rows.
func (r *Rows) Answer(row int) (served Served, ok bool) {
	if len(r.Served) == 0 || r.forgot(row) {
		return Served{}, false
	}
	return r.Served[row], r.Served[row].known()
}

// MaxColumns is the maximum number of columns of sparse rows: a weight for each column and class must fit into memory.
const MaxColumns = 1 << 26

// ColumnRows is the number of training rows in which a column of sparse rows is nonzero.
type ColumnRows struct {
	Column int32
	Rows   uint32
}

// SparseRows has the nonzero features of rows, row after row. The zero value has no rows.
type SparseRows struct {
	Ends    []int     // end of the values of each row
	Indices []int32   // of the values, from 0, ascending in each row
	Values  []float32 // finite; NaN is a missing value of a leading table column
}

// Len returns the number of rows.
func (s *SparseRows) Len() int { return len(s.Ends) }

// Row returns the indices and values of a row. They share the memory of s.
func (s *SparseRows) Row(row int) (indices []int32, values []float32) {
	from := 0
	if row > 0 {
		from = s.Ends[row-1]
	}
	to := s.Ends[row]
	return s.Indices[from:to:to], s.Values[from:to:to]
}

// Leading writes the first columns of each row into dst (n × columns, row-major), with zeros.
func (s *SparseRows) Leading(dst []float32, columns int) {
	clear(dst)
	for row := range s.Len() {
		indices, values := s.Row(row)
		for i, index := range indices {
			if int(index) >= columns {
				break
			}
			dst[row*columns+int(index)] = values[i]
		}
	}
}

// Reset removes all rows. It keeps the memory.
func (s *SparseRows) Reset() {
	s.Ends, s.Indices, s.Values = s.Ends[:0], s.Indices[:0], s.Values[:0]
}

// Append appends a value to the current row, unless it is 0. End ends the row.
func (s *SparseRows) Append(index int32, value float32) {
	if value != 0 {
		s.Indices, s.Values = append(s.Indices, index), append(s.Values, value)
	}
}

// End ends the current row.
func (s *SparseRows) End() { s.Ends = append(s.Ends, len(s.Values)) }

// CheckIndex returns an error unless an index of a row may follow the previous index, which is -1 for the first.
func CheckIndex(index, before int64) error {
	switch {
	case index < 0 || index >= MaxColumns:
		return fmt.Errorf("index %d: expected a whole number from 0 to %d", index, MaxColumns-1)
	case index <= before:
		return fmt.Errorf("index %d after %d: expected ascending indices, each once", index, before)
	}
	return nil
}

// Missing reports whether any feature is missing.
func (r *Rows) Missing() bool {
	values := r.Floats
	if r.Sparse != nil {
		values = r.Sparse.Values
	}
	return slices.ContainsFunc(values, func(v float32) bool { return v != v })
}

// Align makes [Rows.Features] return the features with the offsets of these columns, which may differ from those of the message, for
// example if files are ingested at different times. A message without columns is assumed to have the same columns. An error wraps
// [wire.ErrDamaged].
func (r *Rows) Align(columns Columns) error {
	r.deltas = nil
	text := r.ColumnsText()
	if r.Sparse != nil || columns == nil || text == "" || !columns.HasOffsets() && !strings.Contains(text, `"offset"`) {
		return nil
	}
	own, err := ParseColumns(text)
	if err != nil {
		return err
	}
	if own.Features() != r.Cols || columns.Features() != r.Cols {
		return fmt.Errorf("%w: %d features, its columns have %d", wire.ErrDamaged, r.Cols, own.Features())
	}
	deltas, differ, at := make([]float64, r.Cols), false, 0
	for i, column := range own {
		deltas[at] = column.Offset - columns[min(i, len(columns)-1)].Offset
		differ = differ || deltas[at] != 0
		at += column.Features()
	}
	if differ {
		r.deltas = deltas
	}
	return nil
}

// Features writes the features into dst, Rows × width, row-major. It does not modify the rows. Missing features are NaN. The width is
// Cols for dense rows and at least Cols for sparse rows. Features panics on any other width or length.
func (r *Rows) Features(dst []float32, width int) {
	fits := width == r.Cols || r.Sparse != nil && width > r.Cols || r.Rows == 0
	if len(dst) != r.Rows*width || !fits {
		panic(fmt.Sprintf("schemas: features of %d × %d into %d values of width %d", r.Rows, r.Cols, len(dst), width))
	}
	switch {
	case r.Sparse != nil:
		r.Sparse.Leading(dst, width)
	case r.Bytes != nil:
		for i, v := range r.Bytes {
			// The bits of 2²³ + v. A processor converts integers four times slower.
			dst[i] = math.Float32frombits(0x4B000000|uint32(v)) - 1<<23
		}
	default:
		copy(dst, r.Floats)
	}
	for i := range dst {
		if r.deltas == nil {
			break
		}
		if delta := r.deltas[i%width]; delta != 0 {
			v := float64(dst[i])
			if r.doubles != nil {
				v = r.doubles[i]
			}
			dst[i] = float32(v + delta)
		}
	}
	for row, forgotten := range r.forgotten {
		if forgotten {
			clear(dst[row*width : (row+1)*width])
		}
	}
}

// AreBytes reports whether the features are bytes as a message has them.
func (r *Rows) AreBytes() bool { return r.Bytes != nil && r.deltas == nil }

// CopyTargets writes the targets of the rows into dst (Rows × k, row-major), and whether each row has them into known, which has an element
// for each row. The targets of a row without any are 0. The error is a *[ValueError] if rows do not have k targets.
func (r *Rows) CopyTargets(dst []float64, known []bool, want []string) error {
	clear(dst)
	clear(known)
	if r.Targets == nil {
		return nil
	}
	k := len(r.Targets) / max(r.Rows, 1)
	for row := range r.Rows {
		own := r.Targets[row*k : (row+1)*k]
		if r.left(row) || slices.ContainsFunc(own, math.IsNaN) {
			continue
		}
		if k != len(want) {
			return &ValueError{row, -1, fmt.Sprintf("%d targets, expected %d: %.100q", k, len(want), want)}
		}
		known[row] = true
		copy(dst[row*k:], own)
	}
	return nil
}

// Split is the use of an example. The zero value is Train.
type Split uint8

// The splits. Splits is their number.
const (
	Train   Split = iota // fitted
	Holdout              // scored, and may stop a stage
	Test                 // scored
	Splits  = 3
)

// splitNames returns the names of the splits, in their order.
func splitNames() []string { return []string{"train", "holdout", "test"} }

// String returns the name of the split, as in the column `split` of an examples message.
func (s Split) String() string {
	if s >= Splits {
		return fmt.Sprintf("split(%d)", uint8(s))
	}
	return splitNames()[s]
}

// ParseSplit is the inverse of [Split.String]. It returns Train for the empty name, and an error for an unknown one.
func ParseSplit(name string) (Split, error) {
	at := slices.Index(splitNames(), name)
	if at < 0 && name != "" {
		return 0, fmt.Errorf("split %s: expected train, holdout or test", stream.Quote(name))
	}
	return Split(max(at, 0)), nil
}

// Fold is one fold of cross-validation of the training rows. Each row is in exactly one fold. The zero value is no fold.
type Fold struct {
	Number int `json:"number"` // number of the fold, from 0
	Of     int `json:"of"`     // number of folds
}

// Has reports whether a row is in the fold: its hash, as a fraction of 2^64, is at least Number/Of and less than (Number+1)/Of.
func (f Fold) Has(hash uint64) bool {
	place, _ := bits.Mul64(hash, uint64(f.Of))
	return f.Of > 0 && place == uint64(f.Number)
}

// Task is the prediction task of a model.
type Task uint8

// The tasks.
const (
	OneLabel      Task = iota // single-label: one of k classes
	SeveralLabels             // multi-label: any of k labels
	Numbers                   // regression: k targets
)

// Noun returns the name of what k counts.
func (t Task) Noun() string {
	switch t {
	case SeveralLabels:
		return "label"
	case Numbers:
		return "number"
	}
	return "class"
}
