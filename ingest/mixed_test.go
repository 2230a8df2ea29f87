package ingest

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// mixedRow is a row of the test: numbers, words of columns and a text.
type mixedRow struct {
	label, site, ad, text string
	age, price            float32
}

// hashedAs is the definition of the column to which words and a cross are hashed: FNV-1a of names and words, each followed
// by a 0.
func hashedAs(columns int, texts ...string) int32 {
	h := fnv.New64a()
	for _, text := range texts {
		h.Write(append([]byte(text), 0))
	}
	return int32(h.Sum64() % uint64(columns))
}

// defined is the definition of a mixed row: the numbers, then the word counts of the text, then the words and their cross.
func (r mixedRow) defined(words, hashes int) string {
	type entry struct {
		index int32
		value float32
	}
	counts := map[int32]float32{}
	for word := range strings.FieldsSeq(r.text) {
		h := fnv.New64a()
		h.Write([]byte(word))
		counts[2+int32(h.Sum64()%uint64(words))]++
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
	var row []entry
	for index, value := range counts {
		row = append(row, entry{index, value})
	}
	slices.SortFunc(row, func(a, b entry) int { return int(a.index) - int(b.index) })
	indices, values := []int32{}, []float32{}
	for _, e := range row {
		indices, values = append(indices, e.index), append(values, e.value)
	}
	return fmt.Sprintf("%v:%v", indices, values)
}

func mixedOptions(o *Options) {
	o.Label, o.Text, o.Categorical, o.Missing.Mode = "click", "message", []string{"site", "ad"}, layout.MissingMean
	o.Words.Columns = 64
	o.Hash = layout.Hash{Columns: 16, Cross: layout.Crosses{{"site", "ad"}}}
}

// Numbers, words and texts give the same sparse rows from all inputs: CSV and JSON Lines files, topics, and rows to
// predict.
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
		if got := show(examples.Rows{Rows: rows.Rows, Sparse: rows.Sparse}); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s\nexpected %s", what, got, want)
		}
		if got := rows.Columns.Text(); rows.Columns != nil && got != `["age","price"]` {
			t.Errorf("%s: columns %s", what, got)
		}
	}
	f := newFolder(t)
	files := map[string]string{"csv": f.write(t, "rows.csv", []byte(csv)), "jsonl": f.write(t, "rows.jsonl", []byte(lines))}
	trained := Defaults()
	mixedOptions(&trained)
	trained.Train = []string{files["csv"]}
	read := must(readSources(trained))(t)
	check("csv", &read[0])
	check("topic", addAll(t, ofTopic("json", func(o *Options) {
		mixedOptions(o)
		o.Columns.Use = []string{"age", "price", "site", "ad"}
	}), values...))
	o := Defaults()
	mixedOptions(&o)
	for name, file := range files {
		for rows, err := range File(t.Context(), file, o, layout.Features{Sparse: true, Columns: examples.Columns{{Name: "age"}, {Name: "price"}}}) {
			if err != nil {
				t.Fatal(name, err)
			}
			check(name+" to predict", rows)
		}
	}
	for _, err := range File(t.Context(), f.write(t, "bare.csv", []byte("3,1,a,x,buy\n")), o, layout.Features{Sparse: true}) {
		const want = "bare.csv: line 1: the first row does not name the columns that the model needs: expected a header with "
		if err == nil || !strings.HasPrefix(f.text(err), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
	trained.Options = trained.After(&layout.Learnt{Version: 1, Sparse: true, Columns: examples.Columns{{Name: "age"}, {Name: "price", Offset: 8}}})
	if sources, err := Sources(t.Context(), trained); err != nil || sources[0].Columns[1].Offset != 8 {
		t.Errorf("%v: mixed rows after others have other offsets than these", err)
	}
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
	r := must(layout.NewRequest(o, want))(t)
	var b tabular.Block
	b.Reset(len(r.Cells))
	for _, row := range rows {
		cells := make([]tabular.Cell, len(r.Cells))
		for name, cell := range row {
			at, known := r.Find(name)
			if !known {
				t.Fatalf("no column %s", name)
			}
			cells[at] = cell
		}
		b.Cells, b.Rows = append(b.Cells, cells), b.Rows+1
	}
	var filled examples.Rows
	if troubles := r.Fill(&b, &filled); troubles != nil {
		t.Fatal(troubles)
	}
	return &filled
}

// Invalid settings of hashing are reported by key.
func TestHashCheck(t *testing.T) {
	for _, test := range []struct {
		hash        layout.Hash
		categorical []string
		want        string
	}{
		{layout.Hash{}, nil, "[]"},
		{layout.Hash{Columns: 8, Cross: layout.Crosses{{"a", "b"}}}, []string{"a", "b"}, "[]"},
		{layout.Hash{Columns: 1 << 27}, []string{"a"}, "[hash.columns: 134217728: expected a whole number from 1 to 67108864, or 0 for none]"},
		{layout.Hash{Columns: 8}, nil, "[hash.columns: 8: expected columns under examples.categorical, whose words are hashed]"},
		{layout.Hash{Cross: layout.Crosses{{"a", "b"}}}, []string{"a", "b"}, "[hash.cross: [[a b]]: expected prepare.hash.columns too, such as 2^22]"},
		{layout.Hash{Columns: 8, Cross: layout.Crosses{{"a", "c"}}}, []string{"a", "b"}, "[hash.cross: [a c]: expected different columns of examples.categorical]"},
		{layout.Hash{Columns: 8, Cross: layout.Crosses{{"a"}}}, []string{"a"}, "[hash.cross: [a]: expected two or more columns]"},
	} {
		if got := fmt.Sprint(test.hash.Check(test.categorical)); got != test.want {
			t.Errorf("%v: %s, expected %s", test.hash, got, test.want)
		}
	}
}
