package ingest

import (
	"context"
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
		case *array.Int64Builder:
			column.Append(int64(i))
		}
		b.Field(2).(*array.StringBuilder).Append([]string{"work", "home"}[i%2])
	}
	record := b.NewRecord()
	t.Cleanup(record.Release)
	return record
}

// A text column in Arrow gives the rows of the same column in a CSV, whatever the record batches.
func TestTextsOfArrow(t *testing.T) {
	var texts []string
	csv := "message,kind\n"
	for i := range 130 {
		text := strings.Join(slices.Repeat([]string{"one", "Two words", "naïve", ""}[i%4:i%4+1], i%7), " ")
		texts, csv = append(texts, text), csv+`"`+text+`",`+[]string{"work", "home"}[i%2]+"\n"
	}
	o := Defaults()
	o.Text, o.Label, o.Words.Columns, o.Words.Phrases = "message", "kind", 100, 2
	for _, rows := range []int{63, 64, 65, 1000} {
		f := newFolder(t)
		o.BatchRows, o.Train = rows, []string{f.write(t, "mail.csv", []byte(csv))}
		all, err := readSources(o)
		if err != nil {
			t.Fatal(err)
		}
		want := all[0]
		for _, group := range []int64{1, 64, 1000} {
			name := f.write(t, "mail.arrow", arrowContent(t, mail(t, texts, arrow.BinaryTypes.String), group, group == 64))
			o.Train = []string{name}
			all, err := readSources(o)
			if err != nil {
				t.Fatal(err)
			}
			got := all[0]
			if !slices.Equal(got.Sparse.Ends, want.Sparse.Ends) || !slices.Equal(got.Sparse.Indices, want.Sparse.Indices) ||
				!slices.Equal(got.Sparse.Values, want.Sparse.Values) ||
				!slices.Equal(got.Words, want.Words) || got.Rows != 130 {
				t.Errorf("batches of %d, groups of %d: other rows than those of the CSV", rows, group)
			}
			predicted, _, err := readRows(File(context.Background(), name, o, layout.Features{Width: 100, Sparse: true}))
			if err != nil || !slices.Equal(predicted.Sparse.Indices, want.Sparse.Indices) || predicted.Rows != 130 {
				t.Errorf("batches of %d, groups of %d: %d other rows to predict: %v", rows, group, predicted.Rows, err)
			}
		}
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
