package examples

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/coverage"
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

// metadataColumns is the key of the columns in the schema metadata. Other producers may write it too.
const metadataColumns = "stagewise.columns"

// metadataImage is the key of the image shape in the schema metadata. Other producers may write it too.
const metadataImage = "stagewise.image"

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
	Sparse bool // whether the message has only nonzero features

	record  arrow.Record
	values  *arrowvalue.Values // all values of the features, in one of singles, doubles and bytes
	singles []float32
	doubles []float64
	bytes   []uint8
	lists   *arrowvalue.Values // sparse
	indices *arrowvalue.Values
	first   int // index of the first dense value in its array
	missing bool
	leading int                // sparse rows: number of leading numeric table columns, which may be missing
	labels  values             // of the rows or, with lists, of all their entries
	sets    *arrowvalue.Values // labels of each row; nil: single-label
	weights *arrowvalue.Values
	splits  *arrowvalue.Values
	targets *targets // nil: there are none
	// served labels and versions
	served, servedVersion values

	forgotten     []bool        // rows whose values were removed; nil: none
	unlabelled    map[int]bool  // rows whose labels and targets are ignored
	deltas        []float64     // added to the features; nil: nothing
	missingLabels value.Missing // words, other than empty text, that mean no label
}

// MaxLabel is the maximum length of a label in bytes. Thousands of labels must fit into a plan and a manifest.
const MaxLabel = 1024

// Retain requires one more Release before the memory is freed.
func (e *Batch) Retain() { e.record.Retain() }

// Release frees the memory of the message. The caller must not use e, or a slice from it, afterwards.
func (e *Batch) Release() { e.record.Release() }

// wantFeatures names the valid types of the column of features.
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
		if err := e.setColumn(name, column); err != nil {
			return nil, fmt.Errorf("%w: column %s: %w", wire.ErrDamaged, stream.Quote(name), err)
		}
	}
	if e.values == nil {
		return nil, fmt.Errorf("%w: no column %q: expected a column of this name with a list of numbers in each row, found %s",
			wire.ErrDamaged, columnFeatures, columnNames(record.Schema()))
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	return e, nil
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

// setColumn keeps a column that stagewise reads.
func (e *Batch) setColumn(name string, column arrow.Array) error {
	switch name {
	case columnFeatures:
		if column.NullN() > 0 {
			return fmt.Errorf("%d rows without features", column.NullN())
		}
		return e.setFeatures(column)
	case columnLabel:
		return e.setLabels(column)
	case columnWeight:
		if e.weights = arrowvalue.Of(column); !isFloat(e.weights) {
			return fmt.Errorf("type %v, expected float32 or float64", column.DataType())
		}
	case columnSplit:
		if e.splits = arrowvalue.Of(column); e.splits.Type != arrowvalue.Text && e.splits.Type != arrowvalue.Null {
			return fmt.Errorf("type %v, expected text", column.DataType())
		}
	case columnTargets:
		return e.setTargets(column)
	case columnServed:
		return setServed(column, &e.served)
	case columnServedVersion:
		return setServed(column, &e.servedVersion)
	}
	return nil // a producer may add columns of its own
}

func (e *Batch) setFeatures(column arrow.Array) error {
	lists := arrowvalue.Of(column)
	if lists.Type == arrowvalue.List {
		items := lists.Items()
		if items.Type == arrowvalue.Struct {
			if ok, err := e.setPairs(lists, items); ok || err != nil {
				return err
			}
		} else if ok, err := e.setValues(items); err != nil {
			return err
		} else if ok {
			return e.setLists(lists)
		}
	}
	return fmt.Errorf("type %v, expected %s", column.DataType(), wantFeatures)
}

// setPairs keeps sparse features, or returns false if they have another type.
func (e *Batch) setPairs(lists, pairs *arrowvalue.Values) (ok bool, err error) {
	if pairs.Column.DataType().(*arrow.StructType).NumFields() != 2 || lists.Column.DataType().ID() != arrow.LIST {
		return false, nil
	}
	e.indices, e.values = pairs.At(0), pairs.At(1)
	if e.singles, ok = arrowvalue.Raw[float32](e.values.Column); !ok || e.indices.Type != arrowvalue.Whole || e.indices.Unsigned() {
		return false, nil
	}
	for _, column := range []*arrowvalue.Values{pairs, e.indices, e.values} {
		if column.Column.NullN() > 0 {
			return false, errors.New("nulls among sparse features: leave out a feature that is 0")
		}
	}
	e.lists, e.Sparse = lists, true
	return true, nil
}

// setLists keeps the width of dense features, which must be the same in all rows: their values are contiguous.
func (e *Batch) setLists(lists *arrowvalue.Values) error {
	if width, fixed := lists.Width(); fixed {
		e.Width = width
	}
	for row := range e.Rows {
		from, to := lists.Range(row)
		if row == 0 {
			e.first, e.Width = from, to-from
		}
		if n := to - from; n != e.Width {
			return &ValueError{row, -1, fmt.Sprintf("%d features, row 0 has %d: expected as many in each row", n, e.Width)}
		}
	}
	return nil
}

// setValues keeps the values of dense features, or returns false if they have another type.
func (e *Batch) setValues(values *arrowvalue.Values) (ok bool, err error) {
	e.values = values
	if e.singles, ok = arrowvalue.Raw[float32](values.Column); ok {
		return true, nil
	}
	if e.doubles, ok = arrowvalue.Raw[float64](values.Column); ok {
		return true, nil
	}
	if e.bytes, ok = arrowvalue.Raw[uint8](values.Column); ok && values.Column.NullN() > 0 {
		return true, errors.New("nulls among uint8 features: features that may be missing must be float32 or float64")
	}
	return ok, nil
}

// isFloat reports whether values are float32 or float64.
func isFloat(values *arrowvalue.Values) bool {
	return values.Column.DataType().ID() == arrow.FLOAT32 || values.Column.DataType().ID() == arrow.FLOAT64
}

// Align makes [Batch.Features] return the features with the offsets of these columns, which may differ from those of the
// message, for example if files are ingested at different times. A message without columns is assumed to have the same
// columns. An error wraps [wire.ErrDamaged].
func (e *Batch) Align(columns Columns) error {
	e.deltas = nil
	text := e.Columns()
	if e.Sparse || columns == nil || text == "" || !columns.HasOffsets() && !strings.Contains(text, `"offset"`) {
		return nil
	}
	own, err := ParseColumns(text)
	if err != nil {
		return err
	}
	if own.Features() != e.Width || columns.Features() != e.Width {
		return fmt.Errorf("%w: %d features, its columns have %d", wire.ErrDamaged, e.Width, own.Features())
	}
	deltas, differ, at := make([]float64, e.Width), false, 0
	for i, column := range own {
		deltas[at] = column.Offset - columns[min(i, len(columns)-1)].Offset
		differ = differ || deltas[at] != 0
		at += column.Features()
	}
	if differ {
		e.deltas = deltas
	}
	return nil
}

// align adds the differences of [Batch.Align] to features (Rows × Width).
func (e *Batch) align(dst []float32) {
	for i := range dst {
		if delta := e.deltas[i%e.Width]; delta != 0 {
			dst[i] = float32(float64(dst[i]) + delta)
		}
	}
}

// Without returns the examples, which are at an offset of a partition, with forgotten rows blanked: they have weight 0,
// no label, no targets, and features of 0. Their number and split are kept. The result shares the memory of e, and is
// released in its place.
func (e *Batch) Without(forgotten coverage.Forgotten, partition int, offset int64) *Batch {
	left := e
	forgotten.In(partition, offset, e.Rows, func(first, end int) {
		if left == e {
			without := *e
			without.forgotten = make([]bool, e.Rows)
			left = &without
		}
		for row := first; row < end; row++ {
			left.forgotten[row] = true
		}
	})
	return left
}

// forgot reports whether a row is forgotten.
func (e *Batch) forgot(row int) bool { return e.forgotten != nil && e.forgotten[row] }
