package ingest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/oracle"
)

func TestTextsOfCSV(t *testing.T) {
	for _, test := range []struct {
		name, Content string
		change        func(*Options)
		want          string // words of each row, and its label; or an error
	}{
		{"by name", "id,kind,message\n7,spam,Buy now\n8,ham,\"Hello, you\"\n", func(o *Options) { o.Text, o.Label = "message", "kind" }, `[buy now]spam [hello you]ham`},
		{"by number", "spam,Buy now\nham,hello\n", func(o *Options) { o.Text = "1" }, `[buy now]spam [hello]ham`},
		{"empty", "spam,\nham,hello\n", func(o *Options) { o.Text = "1" }, `[]spam [hello]ham`},
		{"missing column", "kind,message\nspam,a\n", func(o *Options) { o.Text, o.Label = "text", "kind" }, `rows.csv: line 1: no column "text": expected one of "kind" and "message"`},
		{"not UTF-8", "spam,a\nham,\xff\n", func(o *Options) { o.Text = "1" }, "rows.csv: line 2, column 1: a text that is not UTF-8: convert the file"},
		{"the label", "spam,a\n", func(o *Options) { o.Text = "0" }, "text: 0: expected other columns than those of examples.label"},
		{"long", "spam," + strings.Repeat("a1 b2 c3", 400_000), func(o *Options) { o.Text, o.Words.Columns = "1", 1<<26 }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := Defaults()
			o.Train = []string{f.write(t, "rows.csv", []byte(test.Content))}
			test.change(&o)
			rows, err := readSources(o)
			switch {
			case err != nil && f.text(err) != test.want:
				t.Fatalf("%s, expected %s", f.text(err), test.want)
			case err != nil || test.want == "":
				return
			}
			all := rows[0]
			var got []string
			for i := range all.Rows {
				indices, values := all.Sparse.Row(i)
				counts := map[int32]float32{}
				for at, index := range indices {
					counts[index] = values[at]
				}
				words := strings.Fields(strings.Trim(strings.Split(strings.Split(test.want, " [")[i], "]")[0], "["))
				if !maps.Equal(counts, oracle.HashedColumns(1<<18, words...)) {
					t.Errorf("row %d: %v, expected the words %q", i, counts, words)
				}
				got = append(got, fmt.Sprintf("%v%s", words, all.Words[i]))
			}
			if text := strings.Join(got, " "); text != test.want || all.Floats != nil {
				t.Errorf("%s, expected %s", text, test.want)
			}
		})
	}
}

// Texts to predict may have the training columns, without the label, or only the text.
func TestTextsToPredict(t *testing.T) {
	f := newFolder(t)
	o := Defaults()
	o.Text, o.Label = "message", "kind"
	want := layout.Features{Width: 1 << 18, Sparse: true}
	for _, content := range []string{"kind,message\nspam,Buy now\n", "message,id\nbuy now,7\n", "message\nbuy NOW\n", "buy now\n"} {
		rows, _, err := readRows(File(context.Background(), f.write(t, "rows.csv", []byte(content)), o, want))
		if err != nil || rows.Rows != 1 || len(rows.Sparse.Values) != 2 {
			t.Errorf("%q: %d rows: %v", content, rows.Rows, err)
		}
	}
	for content, wrong := range map[string]string{
		"text\nbuy now\n":           `rows.csv: line 1: "text" may be a header or a text: set --header or --header=false, or call the column "message"`,
		"kind,text\nspam,Buy now\n": `rows.csv: line 1: the first row does not name the columns that the model needs: expected a header with "message"`,
	} {
		_, _, err := readRows(File(context.Background(), f.write(t, "rows.csv", []byte(content)), o, want))
		if err == nil || f.text(err) != wrong {
			t.Errorf("%q: %v, expected %s", content, err, wrong)
		}
	}
	for content, rows := range map[string]int{"spam\nham\n": 2, "Buy now!\nham\n": 2} {
		found, _, err := readRows(File(context.Background(), f.write(t, "rows.csv", []byte(content)), o, want))
		if err != nil || found.Rows != rows {
			t.Errorf("%q: %d rows: %v", content, found.Rows, err)
		}
	}
	name := f.write(t, "rows.csv", []byte("buy now\n"))
	if _, _, err := readRows(File(context.Background(), name, o, layout.Features{Width: 3})); err == nil ||
		f.text(err) != "rows.csv: line 1: texts: the model was trained on rows of 3 features" {
		t.Errorf("%v", err)
	}
	rows := f.write(t, "rows.libsvm", []byte("1 1:1\n"))
	if _, _, err := readRows(File(context.Background(), rows, o, want)); err == nil ||
		f.text(err) != "rows.libsvm: format libsvm: expected csv, arrow, parquet or jsonl, as the model was trained on texts" {
		t.Errorf("%v", err)
	}
}
