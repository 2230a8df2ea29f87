package examples

import (
	"encoding/json"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// headerRows lists the messages of a followed topic that the rows of an examples message come from.
const headerRows = "stagewise-rows"

// columnSourceKey has, for each row, the key of its message on the topic.
const columnSourceKey = "source_key"

// RowOrigin is the messages of a followed topic that some rows of an examples message come from: messages of one partition with
// consecutive offsets and the same number of rows.
type RowOrigin struct {
	Partition int   // of the topic
	Offset    int64 // of the first message
	Rows      int   // of each message, at least 1
	Messages  int   // number of messages, at least 1
}

// RowOrigins are the origins of all rows of an examples message, in row order.
type RowOrigins []RowOrigin

// Append returns the origins with that of the next rows, which come from one message. It may change the last element.
func (o RowOrigins) Append(partition int, offset int64, rows int) RowOrigins {
	if o.continues(partition, offset, rows) {
		o[len(o)-1].Messages++
		return o
	}
	return append(o, RowOrigin{partition, offset, rows, 1})
}

// Bytes returns the maximum number of bytes that the origin of the next rows adds to a message.
func (o RowOrigins) Bytes(partition int, offset int64, rows int) int {
	if o.continues(partition, offset, rows) {
		return 1 // the number of messages may get a digit
	}
	return len(fmt.Sprintf("[%d,%d,%d,1],", partition, offset, rows))
}

func (o RowOrigins) continues(partition int, offset int64, rows int) bool {
	if len(o) == 0 {
		return false
	}
	last := o[len(o)-1]
	return last.Partition == partition && last.Offset+int64(last.Messages) == offset && last.Rows == rows
}

// In calls with for the ranges of rows [first, end) that come from messages of a partition of the topic with offsets in
// [from, to).
func (o RowOrigins) In(partition int, from, to int64, with func(first, end int)) {
	row := 0
	for _, r := range o {
		if r.Partition == partition {
			first, end := max(from-r.Offset, 0), min(to-r.Offset, int64(r.Messages))
			if first < end {
				with(row+int(first)*r.Rows, row+int(end)*r.Rows)
			}
		}
		row += r.Rows * r.Messages
	}
}

// Header returns the header of the origins.
func (o RowOrigins) Header() wire.Header {
	list := make([][4]int64, len(o))
	for i, r := range o {
		list[i] = [4]int64{int64(r.Partition), r.Offset, int64(r.Rows), int64(r.Messages)}
	}
	return wire.Header{Key: headerRows, Value: string(wire.JSON(list))}
}

// RowOriginsOf decodes the origins of the rows of an examples message; nil if it does not have them. An error wraps
// [wire.ErrDamaged].
func RowOriginsOf(m wire.Message) (origins RowOrigins, err error) {
	text := m.Get(headerRows)
	if text == "" {
		return nil, nil
	}
	var list [][4]int64
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%w: header %s is %s: %w", wire.ErrDamaged, headerRows, stream.Quote(text), err)
	}
	for _, r := range list {
		const most = 1 << 31 // rows that no message has
		if r[0] < 0 || r[1] < 0 || r[2] < 1 || r[3] < 1 || r[0] >= most || r[2] >= most || r[3] >= most {
			return nil, fmt.Errorf("%w: header %s is %s, expected lists of a partition, an offset, rows and messages", wire.ErrDamaged,
				headerRows, stream.Quote(text))
		}
		origins = append(origins, RowOrigin{int(r[0]), r[1], int(r[2]), int(r[3])})
	}
	return origins, nil
}

// SourceKeys decodes the source keys of rows from the value of an examples message: the keys of their messages on the
// followed topic, "" for a message without a key; nil if no row has a key, or if ingest did not keep them. An error
// wraps [wire.ErrDamaged].
func SourceKeys(value []byte, mem memory.Allocator) (keys []string, err error) {
	record, err := stream.Decode(value, mem, func(column string) bool { return column == columnSourceKey })
	if err != nil {
		return nil, err
	}
	defer record.Release()
	for i, column := range record.Columns() {
		if record.ColumnName(i) != columnSourceKey {
			continue
		}
		all, ok := column.(*array.Binary)
		if !ok {
			return nil, fmt.Errorf("%w: column %s: type %v, expected binary", wire.ErrDamaged, columnSourceKey, column.DataType())
		}
		for row := range all.Len() {
			key := ""
			if !all.IsNull(row) {
				key = string(all.Value(row))
			}
			keys = append(keys, key)
		}
	}
	return keys, nil
}
