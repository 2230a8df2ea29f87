package arrow

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/stream"
)

// Nested is a row of a record, or a value in one.
type Nested struct {
	Of      *stream.Values
	Row     int
	inBlock bool // texts share the memory of the record, and times are texts
}

// RowsOf returns the rows of a batch as structs.
func RowsOf(batch arrow.Record) *stream.Values {
	return stream.ValuesOf(array.RecordToStructArray(batch))
}

// maxItems limits the number of items without bytes in a list column of a batch.
const maxItems = 1 << 18

// at returns a part of the value.
func (n Nested) at(of *stream.Values, i int) Nested { return Nested{of, i, n.inBlock} }

func (n Nested) isMap() bool { return n.Of.Column.DataType().ID() == arrow.MAP }

// Parts implements tabular.Nested.
func (n Nested) Parts(at *tabular.Step, put func(at *tabular.Step, part tabular.Cell) error) error {
	switch {
	case n.isMap():
		return n.entries(at, put)
	case n.Of.Type == stream.List:
		from, to := n.Of.Range(n.Row)
		return tabular.Parts(at, func(next *tabular.Step) (part tabular.Cell, ok bool) {
			if ok = next.Index >= 0 && next.Index < to-from; ok {
				part = n.at(n.Of.Items(), from+next.Index).Cell()
			}
			return part, ok
		}, put)
	}
	for _, next := range at.Below {
		of := n.Of.Named(next.Name)
		if of == nil {
			continue
		}
		if err := checkItems(of); err != nil {
			return fmt.Errorf("column %s: %w", strconv.Quote(next.Name), err)
		}
		if err := put(next, n.at(of, n.Row).Cell()); err != nil {
			return err
		}
	}
	return nil
}

// checkItems returns an error if lists have too many items that take no bytes.
func checkItems(of *stream.Values) error {
	for of.Type == stream.List {
		if of = of.Items(); of.Column.Len() > maxItems && isEmpty(of.Column.DataType()) {
			return fmt.Errorf("lists with more than %d values", maxItems)
		}
	}
	return nil
}

// isEmpty reports whether values of a type take no bytes.
func isEmpty(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.NullType:
		return true
	case *arrow.StructType:
		return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return !isEmpty(f.Type) })
	case *arrow.FixedSizeListType:
		return t.Len() == 0 || isEmpty(t.Elem())
	}
	return false
}

// entries is Parts for a map. Keys are texts or numbers.
func (n Nested) entries(at *tabular.Step, put func(at *tabular.Step, part tabular.Cell) error) error {
	keys, values := n.Of.Items().At(0), n.Of.Items().At(1)
	from, to := n.Of.Range(n.Row)
	for i := from; i < to && (keys.Type == stream.Text || keys.Type == stream.Whole); i++ {
		if next := at.Named([]byte(keys.Text(i))); next != nil {
			if err := put(next, n.at(values, i).Cell()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Items implements tabular.Nested.
func (n Nested) Items(put func(item tabular.Cell) error) error {
	from, to := n.Of.Range(n.Row)
	for i := from; i < to; i++ {
		if err := put(n.at(n.Of.Items(), i).Cell()); err != nil {
			return err
		}
	}
	return nil
}

// Len returns the number of items of a list; 0 for another value.
func (n Nested) Len() int {
	if n.Of.Type != stream.List {
		return 0
	}
	from, to := n.Of.Range(n.Row)
	return to - from
}

// AppendNumbers appends the numbers of a list. ok is false if it has other values.
func (n Nested) AppendNumbers(numbers []float64) ([]float64, bool) {
	from, to := n.Of.Range(n.Row)
	return column{n.Of.Items(), 0}.AppendNumbers(numbers, from, to)
}

// Pairs calls put for each index and value of a sparse row, until an error.
func (n Nested) Pairs(put func(index int64, v float64) error) error {
	if n.Of.Type != stream.List || !arePairs(n.Of.Column.DataType()) {
		cell := n.Cell()
		return fmt.Errorf("%s: expected a list of index and value", cell.String())
	}
	pairs := n.Of.Items()
	indexAt, valueAt, _ := pairOf(n.Of.Column.DataType())
	index, number := pairs.At(indexAt), pairs.At(valueAt)
	from, to := n.Of.Range(n.Row)
	for i := from; i < to; i++ {
		if pairs.Null(i) || index.Null(i) || number.Null(i) {
			return fmt.Errorf("entry %d is null: expected an index and a value", i-from)
		}
		at, ok := index.Whole(i)
		if !ok {
			at = math.MaxInt64 // beyond the last column in any case
		}
		if err := put(at, number.Number(i)); err != nil {
			return err
		}
	}
	return nil
}

// Names implements tabular.Nested.
func (n Nested) Names() []string {
	if structs, is := n.Of.Column.DataType().(*arrow.StructType); is {
		return fieldNames(structs.Fields())
	}
	return nil
}

func fieldNames(fields []arrow.Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

// Cell returns the value.
func (n Nested) Cell() tabular.Cell {
	of, i := n.Of, n.Row
	switch {
	case of.Null(i):
		return tabular.Cell{}
	case of.Type == stream.Struct, n.isMap():
		return tabular.ObjectOf(n)
	case of.Type == stream.List:
		return tabular.ListOf(n)
	}
	switch of.Type {
	case stream.Boolean:
		v, _ := of.Whole(i)
		return tabular.Truth(v != 0)
	case stream.Whole:
		if v, ok := of.Whole(i); ok {
			return tabular.Integer(v)
		}
		return tabular.Word(of.Text(i))
	case stream.Number:
		if of.Half() {
			return tabular.Half(of.Number(i))
		}
		return tabular.Float(of.Number(i))
	case stream.Text, stream.Moment:
		if n.inBlock {
			return tabular.Word(of.Text(i))
		}
		if of.Type == stream.Moment {
			return tabular.Time(of.Moment(i))
		}
		return tabular.Word(strings.Clone(of.Text(i))) // the text is a part of the batch
	}
	if binary, ok := of.Column.(*array.Binary); ok {
		return tabular.Word(string(binary.Value(i)))
	}
	return tabular.ObjectOf(nil)
}

// TypeAt returns the type of the values at a path in values of a type; nil: there are none.
func TypeAt(t arrow.DataType, path []string) arrow.DataType {
	if len(path) == 0 {
		return t
	}
	switch t := t.(type) {
	case *arrow.StructType:
		if f, ok := t.FieldByName(path[0]); ok {
			return TypeAt(f.Type, path[1:])
		}
	case *arrow.MapType:
		return TypeAt(t.ItemType(), path[1:])
	case arrow.ListLikeType:
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 {
			return TypeAt(t.Elem(), path[1:])
		}
	}
	return nil
}

// Damaged converts a panic to an error, because the libraries do not validate what they read. It must be deferred.
func Damaged(what string, err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("%s is damaged: %v", what, cause)
	}
}

// wantedColumns are the names of the columns whose values are read.
type wantedColumns map[string]bool

// decode returns the rows of a value.
func (w wantedColumns) decode(_ context.Context, p format.Payload) (rows tabular.Cell, err error) {
	defer Damaged("the stream", &err)
	s, err := readerOf(p.Value)
	if err != nil {
		return rows, err
	}
	return tabular.ListOf(messages{s, w}), nil
}

// messages are the rows of a stream, which are read once, batch by batch.
type messages struct {
	*stream.Reader
	wanted wantedColumns
}

// Parts implements tabular.Nested: rows have no paths.
func (r messages) Parts(*tabular.Step, func(*tabular.Step, tabular.Cell) error) error { return nil }

// Names implements tabular.Nested.
func (r messages) Names() []string { return fieldNames(r.Schema().Fields()) }

// Items implements tabular.Nested.
func (r messages) Items(put func(row tabular.Cell) error) (err error) {
	defer Damaged("the stream", &err)
	defer r.Close()
	for {
		batch, err := r.Next(func(column int) bool { return r.wanted[r.Schema().Field(column).Name] })
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		rows := RowsOf(batch)
		for i := range int(batch.NumRows()) {
			if err := put(Nested{Of: rows, Row: i}.Cell()); err != nil {
				return err
			}
		}
		batch.Release()
	}
}
