package answers

import (
	"bytes"
	"encoding/json"
	"iter"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// elements returns the encoded elements of a valid JSON list.
func elements(list []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		number, depth, from, inText := 0, 0, 1, false
		for at := 1; at < len(list); at++ {
			switch c := list[at]; {
			case inText:
				if c == '\\' {
					at++
				}
				inText = c != '"'
			case c == '"':
				inText = true
			case c == '[' || c == '{':
				depth++
			case depth == 0 && (c == ',' || c == ']'):
				element := bytes.TrimSpace(list[from:at])
				if len(element) == 0 || !yield(number, element) {
					return // an empty list
				}
				number, from = number+1, at+1
			case c == ']' || c == '}':
				depth--
			}
		}
	}
}

// AppendNamed appends a row that was sent as a valid JSON list as an object of values by column name, as JSON. Values of
// unnamed columns are omitted. Without names it appends the list.
func AppendNamed(dst, list []byte, names []json.RawMessage) []byte {
	if len(names) == 0 {
		return append(dst, list...)
	}
	dst = append(dst, '{')
	first := len(dst)
	for i, element := range elements(list) {
		if i >= len(names) || names[i] == nil {
			continue
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, names[i]...), ':'), element...)
	}
	return append(dst, '}')
}

// AppendPairs appends a sparse row of two valid JSON lists as an object: each value by its index.
func AppendPairs(dst, indices, values []byte) []byte {
	next, stop := iter.Pull2(elements(values))
	defer stop()
	dst = append(dst, '{')
	for i, index := range elements(indices) {
		_, v, _ := next()
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(append(append(dst, '"'), index...), '"'), ':'), v...)
	}
	return append(dst, '}')
}

// ArrowRows returns the rows of an Arrow stream or file as JSON: objects of values by column name. reserve reserves memory
// for decompressed bytes.
func ArrowRows(value []byte, reserve func(bytes int) error) iter.Seq[[]byte] {
	const magic = "ARROW1\x00\x00" // of a file
	return func(yield func([]byte) bool) {
		from := bytes.NewBuffer(bytes.TrimPrefix(value, []byte(magic)))
		r, err := stream.NewReader(from, bytes.HasPrefix(value, []byte(magic)), memory.DefaultAllocator)
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
			row = appendValue(append(append(row, name...), ':'), column, i)
		}
		if !yield(append(row, '}')) {
			return false
		}
	}
	return true
}

// appendValue appends a value as JSON; null if it is not finite.
func appendValue(dst []byte, column arrow.Array, i int) []byte {
	if column.IsNull(i) {
		return append(dst, "null"...)
	}
	switch column := column.(type) {
	case *array.Float32:
		return appendNumber(dst, float64(column.Value(i)), 32)
	case *array.Float64:
		return appendNumber(dst, column.Value(i), 64)
	case array.ListLike: // possibly of many features: encoding/json takes ten times as long
		from, to := column.ValueOffsets(i)
		dst = append(dst, '[')
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, column.ListValues(), int(j))
		}
		return append(dst, ']')
	}
	text, err := json.Marshal(column.GetOneForMarshal(i))
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}
