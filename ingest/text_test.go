package ingest

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas"
)

// columnsOfWords returns how often each column counts, for words and phrases that are given.
func columnsOfWords(columns int, phrases ...string) map[int32]float32 {
	counts := map[int32]float32{}
	for _, phrase := range phrases {
		h := fnv.New64a()
		h.Write([]byte(phrase))
		counts[int32(h.Sum64()%uint64(columns))]++
	}
	return counts
}

// A word is a run of letters and digits in lower case; its column is its hash, and a phrase is hashed with a space between its words.
func TestWordsAreCounted(t *testing.T) {
	for _, test := range []struct {
		text    string
		phrases int
		want    []string
	}{
		{"The cat, the CAT!", 1, []string{"the", "cat", "the", "cat"}},
		{"a b c", 2, []string{"a", "b", "c", "a b", "b c"}},
		{"a b c d", 3, []string{"a", "b", "c", "d", "a b", "b c", "c d", "a b c", "b c d"}},
		{"Größe: 3,5 m² — straße\u0301", 1, []string{"größe", "3", "5", "m", "straße\u0301"}},
		{" ,;\n", 3, nil},
		{"", 1, nil},
	} {
		c := newCounter(Options{Words: Text{Columns: 1 << 20, Phrases: test.phrases}})
		for range 2 { // the memory is used again
			if err := c.count(test.text); err != nil {
				t.Fatal(err)
			}
			var rows schemas.SparseRows
			c.appendTo(&rows)
			indices, values := rows.Row(0)
			got := map[int32]float32{}
			for i, index := range indices {
				got[index] = values[i]
			}
			if want := columnsOfWords(1<<20, test.want...); !maps.Equal(got, want) || !slices.IsSorted(indices) || len(got) != len(indices) {
				t.Errorf("%q: %v, expected %v", test.text, got, want)
			}
		}
	}
	c := newCounter(Options{Words: Text{Columns: 1, Phrases: 1}})
	if err := c.count("a b c"); err != nil || c.counts[0] != 3 {
		t.Errorf("one column: %v: %v", c.counts, err)
	}
}

func TestTextsOfCSV(t *testing.T) {
	for _, test := range []struct {
		name, content string
		change        func(*Options)
		want          string // the words of each row, and its label; or an error
	}{
		{"by name", "id,kind,message\n7,spam,Buy now\n8,ham,\"Hello, you\"\n", func(o *Options) { o.Text, o.Label = "message", "kind" }, `[buy now]spam [hello you]ham`},
		{"by number", "spam,Buy now\nham,hello\n", func(o *Options) { o.Text = "1" }, `[buy now]spam [hello]ham`},
		{"empty", "spam,\nham,hello\n", func(o *Options) { o.Text = "1" }, `[]spam [hello]ham`},
		{"missing column", "kind,message\nspam,a\n", func(o *Options) { o.Text, o.Label = "text", "kind" }, `rows.csv: line 1: no column "text": expected one of "kind" and "message"`},
		{"not UTF-8", "spam,a\nham,\xff\n", func(o *Options) { o.Text = "1" }, "rows.csv: line 2, column 1: a text that is not UTF-8: convert the file"},
		{"the label", "spam,a\n", func(o *Options) { o.Text = "0" }, "rows.csv: line 1, column 0: the text is also the label, the weight or a target: set examples.text to another column"},
		{"long", "spam," + strings.Repeat("a1 b2 c3", 400_000), func(o *Options) { o.Text, o.Words.Columns = "1", 1<<26 }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := Defaults()
			o.Train = []string{f.write(t, "rows.csv", []byte(test.content))}
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
				if !maps.Equal(counts, columnsOfWords(1<<18, words...)) {
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

// Texts to predict may come with the columns of training, without the label, or alone.
func TestTextsToPredict(t *testing.T) {
	f := newFolder(t)
	o := Defaults()
	o.Text, o.Label = "message", "kind"
	want := Features{Width: 1 << 18, Sparse: true}
	for _, content := range []string{"kind,message\nspam,Buy now\n", "message,id\nbuy now,7\n", "message\nbuy NOW\n", "buy now\n"} {
		rows, _, err := readRows(File(context.Background(), f.write(t, "rows.csv", []byte(content)), o, want))
		if err != nil || rows.Rows != 1 || len(rows.Sparse.Values) != 2 {
			t.Errorf("%q: %d rows: %v", content, rows.Rows, err)
		}
	}
	name := f.write(t, "rows.csv", []byte("buy now\n"))
	if _, _, err := readRows(File(context.Background(), name, o, Features{Width: 3})); err == nil || f.text(err) != "rows.csv: texts: the model was trained on rows of 3 features" {
		t.Errorf("%v", err)
	}
	rows := f.write(t, "rows.libsvm", []byte("1 1:1\n"))
	if _, _, err := readRows(File(context.Background(), rows, o, want)); err == nil || f.text(err) != "rows.libsvm: format libsvm: expected csv, arrow, parquet or jsonl, as the model was trained on texts" {
		t.Errorf("%v", err)
	}
}

// Whatever the text, a row has ascending columns, each once, and as many counts as the text has words and phrases.
func FuzzWords(f *testing.F) {
	f.Add("Buy now, buy NOW", uint8(2), uint8(7))
	f.Add("Straße \u0301 ½", uint8(5), uint8(1))
	f.Add("\xff", uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, text string, phrases, columns uint8) {
		c := newCounter(Options{Words: Text{Columns: int(columns) + 1, Phrases: int(phrases)%maxPhrases + 1}})
		var rows schemas.SparseRows
		if err := c.count(text); err != nil {
			if utf8.ValidString(text) {
				t.Fatal(err)
			}
			return
		}
		c.appendTo(&rows)
		words, want, sum := 0, 0, float32(0)
		for range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
			words++
			want += min(words, c.most)
		}
		for i, column := range rows.Indices {
			if column < 0 || int(column) > int(columns) || i > 0 && column <= rows.Indices[i-1] || rows.Values[i] < 1 {
				t.Fatalf("%q: columns %v, counts %v", text, rows.Indices, rows.Values)
			}
			sum += rows.Values[i]
		}
		if int(sum) != want || len(rows.Ends) != 1 || rows.Ends[0] != len(rows.Values) {
			t.Fatalf("%q: %v words and phrases, expected %d", text, sum, want)
		}
	})
}
