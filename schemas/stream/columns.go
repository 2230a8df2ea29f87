package stream

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// Column is a column of a record, with its values as slices of Go.
type Column struct {
	arrow.Field
	// Values has a value or a slice of values for each row or, of lists of a fixed size, the items of all rows. [Structs] and [Indexed] are
	// values of other types.
	Values any
	Valid  []bool // whether the value of a row is not null; nil means that none is null
	Items  []bool // of lists of a fixed size: whether an item is not null; nil means that none is null
}

// Structs are the values of a column of lists of structs, without nulls.
type Structs struct {
	Ends    []int // end of each list among all structs
	Members []any // values of each member of all structs
}

// Indexed are the values of a column that is encoded by a dictionary.
type Indexed struct {
	Indices []int32
	Of      []string
}

// NewRecord makes a record. The caller releases it. It panics if a column has another number of values than rows.
func NewRecord(mem memory.Allocator, rows int, metadata *arrow.Metadata, columns ...Column) arrow.Record {
	fields, arrays := make([]arrow.Field, len(columns)), make([]arrow.Array, len(columns))
	for i := range columns {
		fields[i], arrays[i] = columns[i].Field, columns[i].array(mem, rows)
		defer arrays[i].Release()
		if n := arrays[i].Len(); n != rows {
			panic(fmt.Sprintf("schemas: %d values of column %s for %d rows", n, columns[i].Name, rows))
		}
	}
	return array.NewRecord(arrow.NewSchema(fields, metadata), arrays, int64(rows))
}

// array returns the Arrow array of the column.
func (c *Column) array(mem memory.Allocator, rows int) arrow.Array {
	if of, ok := c.Values.(Indexed); ok {
		t := c.Type.(*arrow.DictionaryType)
		indices := (&Column{Field: arrow.Field{Type: t.IndexType}, Values: of.Indices, Valid: c.Valid}).array(mem, rows)
		defer indices.Release()
		dictionary := (&Column{Field: arrow.Field{Type: t.ValueType}, Values: of.Of}).array(mem, len(of.Of))
		defer dictionary.Release()
		return array.NewDictionaryArray(t, indices, dictionary)
	}
	b := array.NewBuilder(mem, c.Type)
	defer b.Release()
	if lists, ok := b.(*array.FixedSizeListBuilder); ok {
		lists.Reserve(rows)
		for i := range rows {
			lists.Append(c.Valid == nil || c.Valid[i])
		}
		appendValues(lists.ValueBuilder(), c.Values, c.Items)
	} else {
		appendValues(b, c.Values, c.Valid)
	}
	return b.NewArray()
}

// appendValues appends values of the type of a builder.
func appendValues(b array.Builder, values any, valid []bool) {
	switch values := values.(type) {
	case []bool:
		b.(*array.BooleanBuilder).AppendValues(values, valid)
	case []uint8:
		b.(*array.Uint8Builder).AppendValues(values, valid)
	case []int32:
		b.(*array.Int32Builder).AppendValues(values, valid)
	case []int64:
		b.(*array.Int64Builder).AppendValues(values, valid)
	case []float32:
		b.(*array.Float32Builder).AppendValues(values, valid)
	case []float64:
		b.(*array.Float64Builder).AppendValues(values, valid)
	case []string:
		b.(interface{ AppendStringValues([]string, []bool) }).AppendStringValues(values, valid)
	case [][]int64:
		appendLists(b.(*array.ListBuilder), values, valid)
	case [][]float32:
		appendLists(b.(*array.ListBuilder), values, valid)
	case [][]float64:
		appendLists(b.(*array.ListBuilder), values, valid)
	case [][]string:
		appendLists(b.(*array.ListBuilder), values, valid)
	case Structs:
		lists, from := b.(*array.ListBuilder), 0
		structs := lists.ValueBuilder().(*array.StructBuilder)
		for _, to := range values.Ends {
			lists.Append(true)
			for range to - from {
				structs.Append(true)
			}
			from = to
		}
		for i, member := range values.Members {
			appendValues(structs.FieldBuilder(i), member, nil)
		}
	}
}

// appendLists appends lists.
func appendLists[T any](b *array.ListBuilder, lists [][]T, valid []bool) {
	size := 0
	for _, items := range lists {
		size += len(items)
	}
	b.ValueBuilder().Reserve(size) // a growing builder copies its values
	for i, items := range lists {
		b.Append(valid == nil || valid[i])
		appendValues(b.ValueBuilder(), items, nil)
	}
}
