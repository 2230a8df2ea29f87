package ingest

import (
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// archived are messages of an archive. [archive.Rows] implements it.
type archived interface {
	Len() int
	Key(row int) string
	Value(row int) (value []byte, decoded *tabular.Cell)
	All() (all *stream.Values, from int)
}

// MessageOf converts a message of a topic of values. rows are the rows of an archive that begin with the message: an [archive.Rows], or a
// type that embeds it. Nil means that the value is not decoded.
func MessageOf(partition int, offset int64, at time.Time, m wire.Message, rows any) TopicMessage {
	value := TopicMessage{Partition: partition, Offset: offset, Key: m.Key, Value: m.Value}
	if of, is := rows.(archived); is {
		_, value.Row = of.Value(0)
	}
	if len(m.Headers) > 0 {
		value.SchemaID, value.Trace = m.Get(format.SchemaHeader), m.Trace()
	}
	if t := outcome.TimeOf(at); t != outcome.Never {
		value.Time = t
	}
	return value
}

// RowsOf describes the rows of an examples message, given its value, for later rows of a topic or of files. It returns nil if
// they can't be decoded: their reader reports the error with its position.
func RowsOf(value []byte, topic string) *layout.Learnt {
	batch, err := examples.Decode(value, memory.DefaultAllocator)
	if err != nil {
		return nil
	}
	columns, err := examples.ParseColumns(batch.ColumnsText())
	if err != nil {
		return nil
	}
	l := &layout.Learnt{Sparse: batch.Sparse != nil, Width: batch.Cols, Columns: columns, Topic: topic, Rows: batch.Rows}
	if columns == nil {
		return l
	}
	l.Lacking = map[string]int{}
	width := columns.Features()
	features := make([]float32, batch.Rows*width)
	if batch.Sparse != nil {
		batch.Sparse.Leading(features, width)
	} else {
		batch.Features(features, width)
	}
	at := 0
	for _, c := range columns {
		lacking := 0
		for row := range batch.Rows {
			if x := features[row*width+at]; x != x {
				lacking++
			}
		}
		l.Lacking[c.Source()] = lacking
		at += c.Features()
	}
	return l
}
