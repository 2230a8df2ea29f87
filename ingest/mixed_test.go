package ingest

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas/examples"
)

// mixedRow is a row of the test: numbers, words of columns and a text.
type mixedRow struct {
	label, site, ad, text string
	age, price            float32
}

// hashedAs is the definition of the column to which words and a cross are hashed: FNV-1a of names and words, each followed by a 0.
func hashedAs(columns int, texts ...string) int32 {
	h := fnv.New64a()
	for _, text := range texts {
		h.Write(append([]byte(text), 0))
	}
	return int32(h.Sum64() % uint64(columns))
}

// defined is the definition of a mixed row: the numbers, then the word counts of the text, then the words and their cross.
func (r mixedRow) defined(words, hashes int) string {
	counts := map[int32]float32{}
	for column, n := range oracle.HashedColumns(words, strings.Fields(r.text)...) {
		counts[2+column] = n
	}
	first := int32(2 + words)
	if r.site != "" {
		counts[first+hashedAs(hashes, "site", r.site)]++
	}
	if r.ad != "" {
		counts[first+hashedAs(hashes, "ad", r.ad)]++
	}
	if r.site != "" && r.ad != "" {
		counts[first+hashedAs(hashes, "site", r.site, "ad", r.ad)]++
	}
	for j, v := range []float32{r.age, r.price} {
		if v != 0 {
			counts[int32(j)] = v
		}
	}
	indices, values := slices.Sorted(maps.Keys(counts)), []float32{}
	for _, index := range indices {
		values = append(values, counts[index])
	}
	return fmt.Sprintf("%v:%v", indices, values)
}

func mixedOptions(o *Options) {
	o.Label, o.Text, o.Categorical, o.Missing.Mode = "click", "message", []string{"site", "ad"}, layout.MissingMean
	o.Words.Columns = 64
	o.Hash = layout.Hash{Columns: 16, Cross: layout.Crosses{{"site", "ad"}}}
}

// Numbers, words and texts give the same sparse rows from all inputs: CSV and JSON Lines files, topics, and rows to predict.
func TestMixedRows(t *testing.T) {
	rows := []mixedRow{{"yes", "a.example", "7", "buy now now", 30, 1.5}, {"no", "b", "7", "", 0, 2}, {"no", "", "x y", "later", -1, 0}}
	csv, lines, want := "age,site,message,click,price,ad\n", "", ""
	var values []string
	for _, r := range rows {
		csv += fmt.Sprintf("%v,%s,%s,%s,%v,%s\n", r.age, r.site, r.text, r.label, r.price, r.ad)
		site := fmt.Sprintf("%q", r.site)
		if r.site == "" {
			site = "null"
		}
		value := fmt.Sprintf(`{"price":%v,"ad":%q,"site":%s,"message":%q,"click":%q,"age":%v}`, r.price, r.ad, site, r.text, r.label, r.age)
		lines, values = lines+value+"\n", append(values, value)
		want += " " + r.defined(64, 16)
	}
	check := func(what string, rows *examples.Rows) {
		t.Helper()
		got := show(examples.Rows{Rows: rows.Rows, Sparse: rows.Sparse})
		assert.True(t, strings.HasSuffix(got, want), "%s: %s\nexpected %s", what, got, want)
		got = rows.Columns.Text()
		assert.True(t, rows.Columns == nil || got == `["age","price"]`, "%s: columns %s", what, got)
	}
	f := newFolder(t)
	files := map[string]string{"csv": f.write(t, "rows.csv", []byte(csv)), "jsonl": f.write(t, "rows.jsonl", []byte(lines))}
	trained := Defaults()
	mixedOptions(&trained)
	trained.Train = []string{files["csv"]}
	read := assert.Must(readSources(trained))(t)
	check("csv", &read[0])
	check("topic", addAll(t, ofTopic("json", func(o *Options) {
		mixedOptions(o)
		o.Columns.Use = []string{"age", "price", "site", "ad"}
	}), values...))
	o := Defaults()
	mixedOptions(&o)
	for name, file := range files {
		for rows, err := range File(t.Context(), file, o, layout.Features{Sparse: true, Columns: examples.Columns{{Name: "age"}, {Name: "price"}}}) {
			assert.Need(t, err == nil, "%v %v", name, err)
			check(name+" to predict", rows)
		}
	}
	for _, err := range File(t.Context(), f.write(t, "bare.csv", []byte("3,1,a,x,buy\n")), o, layout.Features{Sparse: true}) {
		const want = "bare.csv: line 1: the first row does not name the columns that the model needs: expected a header with "
		assert.True(t, err != nil && strings.HasPrefix(f.text(err), want), "%v, expected %s", err, want)
	}
	trained.Options = trained.After(&layout.Learnt{Version: 1, Sparse: true, Columns: examples.Columns{{Name: "age"}, {Name: "price", Offset: 8}}})
	sources, err := Sources(t.Context(), trained)
	assert.True(t, err == nil && sources[0].Columns[1].Offset == 8, "%v: mixed rows after others have other offsets than these", err)
	var requested []map[string]tabular.Cell
	for _, row := range rows {
		requested = append(requested, map[string]tabular.Cell{"age": tabular.Word(fmt.Sprint(row.age)), "price": tabular.Word(fmt.Sprint(row.price)),
			"site": tabular.Word(row.site), "ad": tabular.Word(row.ad), "message": tabular.Word(row.text)})
	}
	single := rowsOfRequest(t, o.Options, layout.Features{Sparse: true, Columns: examples.Columns{{Name: "age"}, {Name: "price"}}}, requested)
	check("single rows", single)
}

// rowsOfRequest returns rows to predict that come from no file, by column name.
func rowsOfRequest(t *testing.T, o layout.Options, want layout.Features, rows []map[string]tabular.Cell) *examples.Rows {
	t.Helper()
	r := assert.Must(layout.NewRequest(o, want))(t)
	var b tabular.Block
	b.Reset(len(r.Cells))
	for _, row := range rows {
		cells := make([]tabular.Cell, len(r.Cells))
		for name, cell := range row {
			at, known := r.Find(name)
			assert.Need(t, known, "no column %s", name)
			cells[at] = cell
		}
		b.Cells, b.Rows = append(b.Cells, cells), b.Rows+1
	}
	var filled examples.Rows
	troubles := r.Fill(&b, &filled)
	assert.Need(t, troubles == nil, "%v", troubles)
	return &filled
}

// countedOptions are the options of texts with a counted vocabulary.
func countedOptions(columns, phrases int) Options {
	o := Defaults()
	o.Text, o.Label, o.Words = "message", "kind", layout.WordOptions{Vocabulary: layout.CountedWords, Columns: columns, Phrases: phrases}
	return o
}

// A counted vocabulary has the phrases of all training files, in alphabetical order. If there are too many, it has those
// in most texts, with ties in alphabetical order. A row has the counts of these.
func TestCountedVocabulary(t *testing.T) {
	f := newFolder(t)
	first := f.write(t, "first.csv", []byte("kind,message\na,\"The cat, the CAT\"\nb,a dog\n"))
	second := f.write(t, "second.csv.gz", gzipped(t, "message,kind\nthe dog,a\n,b\n"))
	test := f.write(t, "test.csv", []byte("kind,message\na,the bird the cat\n"))
	for _, c := range []struct {
		columns, phrases int
		want             string
		rows             string // by source
	}{
		{100, 1, "a cat dog the", "[1:2 3:2 | 0:1 2:1] [2:1 3:1 |] [1:1 3:2]"},
		{3, 1, "a dog the", "[2:2 | 0:1 1:1] [1:1 2:1 |] [2:2]"}, // "the" and "dog" are in two texts; "a" is before "cat"
		{100, 2, "a,a dog,cat,cat the,dog,the,the cat,the dog", "[2:2 3:1 5:2 6:2 | 0:1 1:1 4:1] [4:1 5:1 7:1 |] [2:1 5:2 6:1]"},
		{1, 2, "dog", "[| 0:1] [0:1 |] []"}, // as often as "the", and before it
	} {
		o := countedOptions(c.columns, c.phrases)
		o.Train, o.Test = []string{first, second}, []string{test}
		want := strings.Fields(c.want)
		if strings.Contains(c.want, ",") {
			want = strings.Split(c.want, ",")
		}
		sources := assert.Must(Sources(t.Context(), o))(t)
		var got []string
		for _, s := range sources {
			assert.Equal(t, s.Vocabulary, want, "%d columns: the vocabulary", c.columns)
			rows, _, err := readRows(s.batches(t.Context(), nil))
			assert.NoError(t, err)
			var texts []string
			for i := range rows.Rows {
				var counts []string
				indices, values := rows.Sparse.Row(i)
				for at, index := range indices {
					counts = append(counts, fmt.Sprintf("%d:%g", index, values[at]))
				}
				texts = append(texts, strings.Join(counts, " "))
			}
			got = append(got, "["+strings.TrimSpace(strings.Join(texts, " | "))+"]")
		}
		assert.Equal(t, strings.Join(got, " "), c.rows, "%d columns, phrases of %d", c.columns, c.phrases)
	}
}

// A counted vocabulary and a hashed one without collisions give the same counts, in every format.
func TestCountedAsHashed(t *testing.T) {
	csv, lines := "message,kind\n", ""
	for i := range 130 {
		text := strings.Join(slices.Repeat([]string{"one", "Two words", "naïve", ""}[i%4:i%4+1], i%7), " ")
		kind := []string{"work", "home"}[i%2]
		csv, lines = csv+`"`+text+`",`+kind+"\n", lines+fmt.Sprintf("{\"message\":%q,\"kind\":%q}\n", text, kind)
	}
	record := arrowRows(t, "["+strings.ReplaceAll(strings.TrimSpace(lines), "\n", ",")+"]", nullable("sent", arrow.FixedWidthTypes.Date32),
		nullable("message", arrow.BinaryTypes.String), nullable("kind", arrow.BinaryTypes.String))
	f := newFolder(t)
	for _, name := range []string{
		f.write(t, "mail.csv", []byte(csv)), f.write(t, "mail.jsonl", []byte(lines)),
		f.write(t, "mail.arrow", arrowContent(t, record, 64, false)),
	} {
		o := countedOptions(1000, 2)
		o.Train, o.BatchRows = []string{name}, 63
		sources := assert.Must(Sources(t.Context(), o))(t)
		counted, _, err := readRows(sources[0].batches(t.Context(), nil))
		assert.NoError(t, err)
		o.Words.Vocabulary, o.Words.Columns = layout.HashedWords, 1<<26
		hashed := assert.Must(readSources(o))(t)
		predicts := countedOptions(1000, 2)
		predicts.Words = predicts.Words.Counting(sources[0].Vocabulary)
		predicted, _, err := readRows(File(context.Background(), name, predicts, layout.Features{Width: 1000, Sparse: true}))
		assert.Need(t, err == nil && predicted.Rows == 130, "%d rows to predict, error %v", predicted.Rows, err)
		for i := range counted.Rows {
			got, again, want := map[string]float32{}, map[string]float32{}, map[int32]float32{}
			indices, values := counted.Sparse.Row(i)
			for at, index := range indices {
				got[sources[0].Vocabulary[index]] = values[at]
			}
			indices, values = predicted.Sparse.Row(i)
			for at, index := range indices {
				again[sources[0].Vocabulary[index]] = values[at]
			}
			for phrase, count := range got {
				for column := range oracle.HashedColumns(1<<26, phrase) {
					want[column] = count
				}
			}
			found := map[int32]float32{}
			indices, values = hashed[0].Sparse.Row(i)
			for at, index := range indices {
				found[index] = values[at]
			}
			assert.Need(t, maps.Equal(found, want) && maps.Equal(got, again), "%s, row %d: %v, hashed %v, to predict %v", name, i, got, found, again)
		}
	}
}

func TestBadVocabulary(t *testing.T) {
	for _, c := range []struct {
		name, Content string
		change        func(*Options)
		want          string
	}{
		{"no words", "kind,message\na,...\nb,\n", nil, "rows.csv: no text has a word"},
		{"not UTF-8", "kind,message\na,b\nc,\xff\n", nil, `rows.csv: line 3, column 1 ("message"): a text that is not UTF-8: convert the file`},
		{"no files", "kind,message\na,b\n", func(o *Options) { o.Train = nil }, "words.vocabulary: counted: expected files under examples.train, in which its words are found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			o := countedOptions(100, 1)
			o.Train = []string{f.write(t, "rows.csv", []byte(c.Content))}
			if c.change != nil {
				c.change(&o)
			}
			_, err := Sources(t.Context(), o)
			assert.True(t, err != nil && f.text(err) == c.want, "%v, expected %s", err, c.want)
		})
	}
}

// A source with another vocabulary is another source, and a hashed one keeps its earlier ID.
func TestVocabularyIsPartOfTheID(t *testing.T) {
	f := newFolder(t)
	rows, more := f.write(t, "rows.csv", []byte("kind,message\na,one\n")), f.write(t, "more.csv", []byte("kind,message\na,two\n"))
	id := func(o Options, files ...string) string {
		o.Train = files
		return assert.Must(Sources(t.Context(), o))(t)[0].ID
	}
	hashed := countedOptions(100, 1)
	hashed.Words.Vocabulary = layout.HashedWords
	a, b := id(countedOptions(100, 1), rows), id(countedOptions(100, 1), rows, more)
	assert.True(t, a != b && a != id(hashed, rows), "%s with the words of one file, %s with those of two", a, b)
	a, b = id(hashed, rows), id(hashed, rows, more)
	assert.True(t, a == b && a == "45254c046aa0340fe63401369d9f1248633dafb0d226f3e4954b8661486aafac",
		"hashed: %s, and beside another file %s", a, b)
}
