package answers

import (
	"bytes"
	"encoding/json"
	"iter"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// AppendNamed appends a row that was sent as a list as an object of values by column name, as JSON. Without names it appends the
// list.
func AppendNamed(dst []byte, list value.Cell, names []json.RawMessage) []byte {
	if len(names) == 0 {
		return append(dst, list...)
	}
	dst = append(dst, '{')
	i := 0
	for element := range list.All() {
		if i == len(names) {
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, names[i]...), ':'), element...)
		i++
	}
	return append(dst, '}')
}

// AppendPairs appends a sparse row of two lists as an object: each value by its index.
func AppendPairs(dst []byte, indices, values value.Cell) []byte {
	next, stop := iter.Pull(values.All())
	defer stop()
	first := len(dst)
	for index := range indices.All() {
		v, _ := next()
		dst = append(append(append(dst, "{,"[min(len(dst)-first, 1)], '"'), index...), `":`...)
		dst = append(dst, v...)
	}
	if len(dst) == first {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// ArrowRows returns the rows of an Arrow stream or file as JSON: objects of values by column name. reserve reserves memory
// for decompressed bytes.
func ArrowRows(content []byte, reserve func(bytes int) error) iter.Seq[[]byte] {
	const magic = "ARROW1\x00\x00" // of a file
	return func(yield func([]byte) bool) {
		from := bytes.NewBuffer(bytes.TrimPrefix(content, []byte(magic)))
		r, err := stream.NewReader(from, bytes.HasPrefix(content, []byte(magic)), memory.DefaultAllocator)
		if err != nil {
			return // reported when the rows are predicted
		}
		defer r.Close()
		r.Reserve(reserve)
		for {
			record, err := r.Next(func(int) bool { return true })
			if err != nil || !rowsOf(record, yield) {
				return
			}
		}
	}
}

// rowsOf yields the rows of a record, and releases it.
func rowsOf(record arrow.Record, yield func([]byte) bool) bool {
	defer record.Release()
	for i := range int(record.NumRows()) {
		row := []byte{'{'}
		for j, column := range record.Columns() {
			name, _ := json.Marshal(record.ColumnName(j)) // a string can be encoded
			if j > 0 {
				row = append(row, ',')
			}
			row = arrowvalue.AppendJSON(append(append(row, name...), ':'), column, i)
		}
		if !yield(append(row, '}')) {
			return false
		}
	}
	return true
}
