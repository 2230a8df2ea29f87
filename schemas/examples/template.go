package examples

import (
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// Template returns the value of an examples message with the columns of another one, given its value, and without rows. An
// error wraps [wire.ErrDamaged].
func Template(value []byte) ([]byte, error) {
	return WithBlanks(value, nil, nil)
}

// WithBlanks returns the value of an examples message with the columns of a template. Row i is blank if blank[i], otherwise
// the next of the rows, which may be nil if all are blank. An error wraps [wire.ErrDamaged].
func WithBlanks(template []byte, rows *Rows, blank []bool) ([]byte, error) {
	columns, err := stream.Decode(template, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, columns.Schema())
	for _, field := range b.Fields() {
		for _, is := range blank {
			if is {
				field.AppendEmptyValue()
			}
		}
	}
	blanks := b.NewRecord()
	if rows == nil {
		return stream.Encode(blanks)
	}
	others, merged := rows.Record(), make([]arrow.Array, blanks.NumCols())
	for i := range merged {
		next, pieces := map[bool]int64{}, []arrow.Array{}
		for _, is := range blank {
			from := others
			if is {
				from = blanks
			}
			piece := array.NewSlice(from.Column(i), next[is], next[is]+1)
			pieces = append(pieces, piece)
			next[is]++
		}
		if merged[i], err = array.Concatenate(pieces, memory.DefaultAllocator); err != nil {
			return nil, err
		}
	}
	record := array.NewRecord(columns.Schema(), merged, int64(len(blank)))
	return stream.Encode(record)
}
