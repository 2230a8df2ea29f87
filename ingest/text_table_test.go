package ingest

import (
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// mail is a table with texts, their labels and an unread column. The texts are numbers if that is their type.
func mail(t testing.TB, texts []string, of arrow.DataType) arrow.Record {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "sent", Type: arrow.FixedWidthTypes.Date32}, {Name: "message", Type: of, Nullable: true}, {Name: "kind", Type: arrow.BinaryTypes.String},
	}, nil))
	defer b.Release()
	for i, text := range texts {
		b.Field(0).(*array.Date32Builder).Append(arrow.Date32(i))
		switch column := b.Field(1).(type) {
		case *array.StringBuilder:
			column.Append(text)
		case *array.ListBuilder:
			column.Append(true)
			column.ValueBuilder().(*array.StringBuilder).AppendValues(strings.Fields(text), nil)
		case *array.Int64Builder:
			column.Append(int64(i))
		}
		b.Field(2).(*array.StringBuilder).Append([]string{"work", "home"}[i%2])
	}
	record := b.NewRecord()
	t.Cleanup(record.Release)
	return record
}
