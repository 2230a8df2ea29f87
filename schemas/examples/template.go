package examples

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

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
