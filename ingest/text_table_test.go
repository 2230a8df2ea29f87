package ingest

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/layout"
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

// Lists of words are texts.
func TestListsOfWords(t *testing.T) {
	o, want := Defaults(), []int32(nil)
	o.Text, o.Label = "message", "kind"
	for _, of := range []arrow.DataType{arrow.BinaryTypes.String, arrow.ListOf(arrow.BinaryTypes.String)} {
		record := mail(t, []string{"one", "two words"}, of)
		o.Train = []string{newFolder(t).write(t, "mail.arrow", arrowContent(t, record, 10, false))}
		all := must(readSources(o))(t)
		if got := all[0].Sparse.Indices; want != nil && !slices.Equal(got, want) || len(got) != 3 {
			t.Errorf("%v: %v, expected %v", of, got, want)
		}
		want = slices.Clone(all[0].Sparse.Indices)
	}
}

func TestTextsOfArrowAreChecked(t *testing.T) {
	o := Defaults()
	o.Text, o.Label = "message", "kind"
	for _, test := range []struct {
		texts []string
		of    arrow.DataType
		text  layout.Column
		want  string
	}{
		{[]string{"one", "two \xff"}, arrow.BinaryTypes.String, "message", `mail.arrow, column 1 ("message"): row 1, counted from 0: a text that is not UTF-8: convert the file`},
		{[]string{"one"}, arrow.PrimitiveTypes.Int64, "message", `mail.arrow, column 1 ("message"): texts of type int64: expected text`},
		{[]string{"one"}, arrow.BinaryTypes.String, "text", `mail.arrow: no column "text": expected one of "sent", "message" and "kind"`},
	} {
		f := newFolder(t)
		o.Text, o.Train = test.text, []string{f.write(t, "mail.arrow", arrowContent(t, mail(t, test.texts, test.of), 10, false))}
		if _, err := readSources(o); err == nil || f.text(err) != test.want {
			t.Errorf("%v, expected %s", err, test.want)
		}
	}
}
