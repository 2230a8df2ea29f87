package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

func TestCSV(t *testing.T) {
	yes, dated := true, layout.Options{Label: "label", Missing: layout.Missing{Mode: layout.MissingMean}, Times: layout.PartsOfTimes(map[string][]string{"at": {"hour", "age"}})}
	for _, test := range []struct {
		name, Content string
		options       layout.Options
		want          string
	}{
		{"plain", "7,1,2\n8,3,4\n", layout.Options{}, `2 × 2 floats [1 2 3 4] words ["7" "8"]`},
		{"CRLF", "7,1,2\r\n8,3,4\r\n", layout.Options{}, `2 × 2 floats [1 2 3 4] words ["7" "8"]`},
		{"byte order mark", "\ufeff7,1,2\n", layout.Options{}, `1 × 2 floats [1 2] words ["7"]`},
		{"byte order mark and a name", "\ufefflabel,x\na,1\n", layout.Options{Label: "label"}, `1 × 1 floats [1] words ["a"]`},
		{"blank lines", "\n7,1,2\n\n \r\n8,3,4\n\n", layout.Options{}, `2 × 2 floats [1 2 3 4] words ["7" "8"]`},
		{"quotes", "\"a, \"\"b\"\"\",\"1\", \"2\"\n", layout.Options{}, `1 × 2 floats [1 2] words ["a, \"b\""]`},
		{"space", " 7 , 1 ,\t2\n", layout.Options{}, `1 × 2 floats [1 2] words ["7"]`},
		{"numbers", "a,-1.5e3,+.25,1e-60,TRUE,False,5.,007\n", layout.Options{}, `1 × 7 floats [-1500 0.25 0 1 0 5 7] words ["a"]`},
		{"a label stays as it is written", "3.0,1\n03,1\n", layout.Options{}, `2 × 1 floats [1 1] words ["3.0" "03"]`},
		{"label by number", "1,a,2\n", layout.Options{Label: "1"}, `1 × 2 floats [1 2] words ["a"]`},
		{"label by name", "x, y ,z\n1,a,2\n", layout.Options{Label: "y"}, `1 × 2 floats [1 2] words ["a"]`},
		{"label by number, header", "y,x\na,1\n", layout.Options{Header: &yes}, `1 × 1 floats [1] words ["a"]`},
		{"weight", "a,1,0\nb,2,0.5\n", layout.Options{Weight: "2"}, `2 × 1 floats [1 2] words ["a" "b"] weights [0 0.5]`},
		{"weight by name", "l,w,x\na,3,1\n", layout.Options{Weight: "w"}, `1 × 1 floats [1] words ["a"] weights [3]`},
		{"missing", "a,,2\nb,3, \n", layout.Options{Missing: layout.Missing{Mode: layout.MissingMean}}, `2 × 2 floats [NaN 2 3 NaN] words ["a" "b"]`},
		{"classes", "a,1\nb,2\na,3\n", layout.Options{Classes: []string{"b", "a", "c"}}, `3 × 1 floats [1 2 3] words ["a" "b" "a"]`},

		{"semicolons", "a;1;2\nb;3;4\n", layout.Options{}, `2 × 2 floats [1 2 3 4] words ["a" "b"]`},
		{"tabs", "a\t1\t\nb\t3\t4\n", layout.Options{Missing: layout.Missing{Mode: layout.MissingMean}}, `2 × 2 floats [1 NaN 3 4] words ["a" "b"]`},
		{"bars, with commas in a field", "a, b|1\nc|2\n", layout.Options{}, `2 × 1 floats [1 2] words ["a, b" "c"]`},
		{"a delimiter that is given", "a;1,2\n", layout.Options{Delimiter: ",", Label: "0"}, `1 × 1 floats [2] words ["a;1"]`},
		{"columns to use", "id,x,l,y\n7,1,a,2\n", layout.Options{Label: "l", Columns: layout.ColumnChoice{Use: []string{"y", "x"}}}, `1 × 2 floats [1 2] words ["a"]`},
		{"columns to drop", "7,a,1,8\n", layout.Options{Label: "1", Columns: layout.ColumnChoice{Drop: []string{"0", "3"}}}, `1 × 1 floats [1] words ["a"]`},
		{"words", "l,c,x\na,red,1\nb,blue,2\na,red,3\n", layout.Options{Label: "l", Categorical: []string{"c"}}, `3 × 4 floats [0 1 0 1 1 0 0 2 0 1 0 3] words ["a" "b" "a"]`},
		{"a missing word", "l,c\na,red\nb,NA\n", layout.Options{Label: "l", Categorical: []string{"c"}, Missing: layout.Missing{Mode: layout.MissingMean}}, `2 × 2 floats [1 0 NaN NaN] words ["a" "b"]`},
		{"words for missing values", "a,NA,nan\nb,null,2\n", layout.Options{Missing: layout.Missing{Mode: layout.MissingMean}}, `2 × 2 floats [NaN NaN NaN 2] words ["a" "b"]`},
		{"missing values, refused", "a,1\nb,NA\n", layout.Options{}, `file.csv: line 2, column 1: a missing value, "NA": examples.missing: mean uses the mean of the column`},

		{"a delimiter in doubt", "a;b,c;d\ne;f,g;h\n", layout.Options{}, `file.csv: line 1: several delimiters fit its rows, "," (2 columns) and ";" (3 columns): set examples.delimiter`},
		{"an index without a name", ",l,x\n0,a,1\n", layout.Options{Label: "l"}, `file.csv: line 1, column 0 (""): an unnamed column, such as the index of a data frame: exclude it with examples.columns.drop: [0], or name it`},
		{"a feature's name twice", "l,x,x\na,1,2\n", layout.Options{Label: "l"}, "file.csv: line 1: two columns have the same name: rename one, or exclude it with examples.columns.drop and its number"},
		{"no such column to drop", "l,x\na,1\n", layout.Options{Label: "l", Columns: layout.ColumnChoice{Drop: []string{"id"}}}, `file.csv: line 1: no column "id": expected one of "l" and "x"`},
		{"a fraction as a label", "0.5,1\n", layout.Options{}, `file.csv: line 1, column 0: "0.5" looks like a measurement, not a label: set examples.label to the label column`},
		{"a fraction as a label, meant", "0.5,1\n", layout.Options{Label: "0"}, `1 × 1 floats [1] words ["0.5"]`},
		{"many labels", "a,1\nb,1\nc,1\n", layout.Options{}, "file.csv: line 1, column 0: 3 different values in 3 rows do not look like labels: set examples.label to the label column"},

		{"empty", "", layout.Options{}, "file.csv: an empty file"},
		{"header alone", "l,x\n\n", layout.Options{Header: &yes}, "file.csv: line 1: no row follows the header"},
		{"label alone", "a\nb\n", layout.Options{}, "file.csv: line 1: no column is a feature"},
		{"ragged, short", "a,1,2\nb,3\n", layout.Options{}, "file.csv: line 2: 2 columns, expected 3"},
		{"ragged, long", "a,1\n\nb,3,4\n", layout.Options{}, "file.csv: line 3: 3 columns, expected 2"},
		{"narrow header", "l,x\na,1,2\n", layout.Options{Header: &yes}, "file.csv: line 2: 3 columns, expected 2"},
		{"a word", "a,1\nb,abc\n", layout.Options{}, `file.csv: line 2, column 1: "abc" is not a number: examples.categorical accepts columns of words, examples.columns.drop excludes a column, examples.missing_values lists the words for a missing value`},
		{"a word, in a named column", "l,x1\na,1\nb,1 2\n", layout.Options{Header: &yes}, `file.csv: line 3, column 1 ("x1"): "1 2" is not a number`},
		{"a word after a field of two lines", "l,x1\n\"a\nb\",c\n", layout.Options{Header: &yes}, `file.csv: line 3, column 1 ("x1"): "c" is not a number: examples.categorical accepts columns of words, examples.columns.drop excludes a column, examples.missing_values lists the words for a missing value`},
		{"a header not announced", "label,x1\na,1\n", layout.Options{}, `file.csv: line 1, column 1: "x1" is not a number (if this is a header: set examples.header)`},
		{"a long word", "a,1\nb," + strings.Repeat("long", 100) + "\n", layout.Options{}, `file.csv: line 2, column 1: "longlonglonglonglonglonglonglonglonglong"… is not a number`},
		{"NaN", "a,1\na,+nan\n", layout.Options{Missing: layout.Missing{Mode: layout.MissingMean}}, `file.csv: line 2, column 1: "+nan" is not a finite number`},
		{"overflow", "a,1\na,1e39\n", layout.Options{}, `file.csv: line 2, column 1: 1e+39 is not a finite float32`},
		{"empty field", "a,1,2\na,,2\n", layout.Options{}, `file.csv: line 2, column 1: an empty field: examples.missing: mean uses the mean of the column`},
		{"missing labels", "a,1\n ,2\nNA,3\nTRUE,4\n", layout.Options{}, `4 × 1 floats [1 2 3 4] words ["a" "" "" "true"]`},
		{"no label", "nan,1\n,2\n", layout.Options{}, `file.csv: no row has a label: check examples.label (the label column) and examples.missing_values (the words for a missing label)`},
		{"a class that is a word for missing values", "NA,1\nEU,2\n", layout.Options{Classes: []string{"EU", "NA"}}, `2 × 1 floats [1 2] words ["NA" "EU"]`},
		{"label that is not text", "a,1\n\xff,2\n", layout.Options{}, `file.csv: line 2, column 0: label "\xff" is not UTF-8: set examples.encoding, such as windows-1252, or convert the text`},
		{"label of no class", "a,1\nd,2\n", layout.Options{Classes: []string{"a", "b"}}, `file.csv: line 2, column 0: label "d" is not one of the classes`},
		{"no such number", "a,1\n", layout.Options{Label: "2"}, "file.csv: line 1: no column 2: there are 2 columns, counted from 0"},
		{"no such name", "l,x\na,1\n", layout.Options{Label: "y"}, `file.csv: line 1: no column "y": expected one of "l" and "x"`},
		{"no such weight", "l,x\na,1\n", layout.Options{Weight: "7"}, "file.csv: line 1: no column 7: there are 2 columns, counted from 0"},
		{"name twice", "l,x,l\na,1,b\n", layout.Options{Label: "l"}, `file.csv: line 1, column 2 ("l"): another column has the same name`},
		{"label and weight in one", "l,x\na,1\n", layout.Options{Label: "l", Weight: "0"}, `file.csv: line 1, column 0 ("l"): a column of examples.label and of examples.weight: expected different ones`},
		{"negative weight", "a,1,1\na,1,-1\n", layout.Options{Weight: "2"}, `file.csv: line 2, column 2: weight -1: expected a finite number ≥ 0`},
		{"empty weight", "a,1,1\na,1,\n", layout.Options{Weight: "2", Missing: layout.Missing{Mode: layout.MissingMean}}, `file.csv: line 2, column 2: a row without a weight: expected a number ≥ 0`},
		{"bare quote", "a,1\na,1\"\n", layout.Options{}, "file.csv: line 2: byte 4: bare \" in non-quoted-field"},
		{"open quote", "a,1\n\"a,1\nb,2\n", layout.Options{}, "file.csv: line 2: from here to line 3, byte 5: extraneous or missing \" in quoted-field"},
		{"endless quote", "a,1\n\"a," + strings.Repeat("1\n", 4194304), layout.Options{}, "file.csv: line 2: a row of more than 4 MiB (an open quote?)"},
		{"a long label", "a,1\n" + strings.Repeat("l", examples.MaxLabel) + "l,1\n", layout.Options{}, `file.csv: line 2, column 0: label "llllllllllllllllllllllllllllllllllllllll"…: expected at most 1024 bytes`},
		{"no time", "label,at\na,1/2/2026\n", dated, `file.csv: line 2, column 1 ("at"): "1/2/2026" is not a time: expected a form such as 2026-11-01 or 2026-11-01T09:30:15+02:00, or a number: seconds since 1970`},
		{"a part of a time twice", "label,at,at.hour\na,2026-01-01,1\n", dated, "file.csv: line 1: two columns have the same name: rename one, or exclude it with examples.columns.drop and its number"},
		{"no times", "label,x\na,1\n", dated, `file.csv: line 1: no column "at": expected one of "label" and "x"`},
		{"an empty time", "label,at\na,\n", layout.Options{Label: "label", Times: dated.Times}, `file.csv: line 2, column 1 ("at"): an empty field: examples.missing: mean uses the mean of the column`},
		{"row wider than a message", "a" + strings.Repeat(",1", 890000/4), layout.Options{}, "file.csv: line 1: an example of 222500 features does not fit a message of 900000 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := Options{Partitions: 4, Options: test.options}
			o.BatchRows = 1024
			o.MissingValues = value.Usual()
			if o.Missing.Mode == "" {
				o.Missing.Mode = layout.MissingError
			}
			o.Train = []string{f.write(t, "file.csv", []byte(test.Content))}
			assert.Equal(t, f.first(t, o), test.want, "got")
		})
	}
}

func isFileError(err error) bool {
	_, ok := errors.AsType[*input.Error](err)
	return ok
}

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
				assert.True(t, maps.Equal(counts, oracle.HashedColumns(1<<18, words...)), "row %d: %v, expected the words %q", i, counts, words)
				got = append(got, fmt.Sprintf("%v%s", words, all.Words[i]))
			}
			text := strings.Join(got, " ")
			assert.True(t, text == test.want && all.Floats == nil, "%s, expected %s", text, test.want)
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
		assert.True(t, err == nil && rows.Rows == 1 && len(rows.Sparse.Values) == 2, "%q: %d rows: %v", content, rows.Rows, err)
	}
	for content, wrong := range map[string]string{
		"text\nbuy now\n":           `rows.csv: line 1: "text" may be a header or a text: set --header or --header=false, or call the column "message"`,
		"kind,text\nspam,Buy now\n": `rows.csv: line 1: the first row does not name the columns that the model needs: expected a header with "message"`,
	} {
		_, _, err := readRows(File(context.Background(), f.write(t, "rows.csv", []byte(content)), o, want))
		assert.True(t, err != nil && f.text(err) == wrong, "%q: %v, expected %s", content, err, wrong)
	}
	for content, rows := range map[string]int{"spam\nham\n": 2, "Buy now!\nham\n": 2} {
		found, _, err := readRows(File(context.Background(), f.write(t, "rows.csv", []byte(content)), o, want))
		assert.True(t, err == nil && found.Rows == rows, "%q: %d rows: %v", content, found.Rows, err)
	}
	_, _, err := readRows(File(context.Background(), f.write(t, "rows.csv", []byte("buy now\n")), o, layout.Features{Width: 3}))
	assert.True(t, err != nil && f.text(err) == "rows.csv: line 1: texts: the model was trained on rows of 3 features", "%v", err)
	rows := f.write(t, "rows.libsvm", []byte("1 1:1\n"))
	_, _, err = readRows(File(context.Background(), rows, o, want))
	assert.True(t, err != nil &&
		f.text(err) == "rows.libsvm: format libsvm: expected a table: csv, arrow, parquet or jsonl, as the model was trained on texts", "%v", err)
}

// At the end of a topic of few rows, the columns are absent of which no message has the name, and the nearest name that messages have is
// said, whatever the format; without one, all their names. A column without a value in the rows is not misspelt.
func TestAbsentColumns(t *testing.T) {
	const avsc = `{"type":"record","name":"Row","fields":[{"name":"kind","type":"string"},{"name":"length","type":"double"},` +
		`{"name":"width","type":["null","double"]}]}`
	registry := registered(t, sr.Schema{Schema: avsc})
	object := `{"kind":"a","length":1,"width":null}`
	fields := []arrow.Field{nullable("kind", arrow.BinaryTypes.String), nullable("length", arrow.PrimitiveTypes.Float64),
		nullable("width", arrow.PrimitiveTypes.Float64)}
	for name, test := range map[string]struct {
		format, rows, value string
		use                 []string
		absent, instead     string
	}{
		"letters":      {"json", "", object, []string{"lenght", "width"}, "lenght", `the message has "length"`},
		"capital":      {"json", "", object, []string{"Length", "width"}, "Length", `the message has "length"`},
		"none is near": {"json", "", object, []string{"length", "age"}, "age", `the message has "kind", "length" and "width"`},
		"nested": {"json", "", `{"kind":"a","user":{"age":30,"of":{"town":7}}}`, []string{"user.age", "user.of.twon"}, "user.of.twon",
			`the message has "user.of.town"`},
		"rows at a path": {"json", "rows", `{"kind":"a","size":1,"rows":[{"length":2},{"length":3}]}`, []string{"size", "lengths"}, "lengths",
			`the message has "length"`},
		"arrow": {"arrow", "", string(arrowContent(t, arrowRows(t, "["+object+"]", fields...), 1, false)), []string{"width", "lenght"},
			"lenght", `the message has "length"`},
		"avro": {"avro", "", string(framed(1, encoded(t, avsc, map[string]any{"kind": "a", "length": 1.0, "width": nil}))),
			[]string{"width", "lenght"}, "lenght", `the message has "length"`},
		"csv": {"csv", "", "a,1,", nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, missing := range []string{layout.MissingMean, layout.MissingError} {
				v := valuesOf(t, ofTopic(test.format, func(o *Options) {
					if o.Columns.Use, o.Missing.Mode, o.Settings.Rows = test.use, missing, test.rows; test.use != nil {
						o.Label = "kind"
					}
					if test.format == "avro" {
						o.Registry.URL = registry.URL()
					}
				}))
				_, err := v.Add(t.Context(), TopicMessage{Value: []byte(test.value)})
				if missing == layout.MissingError {
					assert.True(t, test.instead == "" || err != nil && strings.HasSuffix(err.Error(), "; "+test.instead),
						"got %v, expected %s", err, test.instead)
					continue
				}
				assert.NoError(t, err)
				early := v.Absent(false)
				assert.True(t, len(early) == 0, "before the end %v are absent", early)
				absent := v.Absent(true)
				assert.True(t, strings.Join(absent, ",") == test.absent, "%q are absent, expected %s", absent, test.absent)
				assert.True(t, !slices.Contains(absent, test.absent) || v.Instead(test.absent) == test.instead,
					"instead of %s: %s, expected %s", test.absent, v.Instead(test.absent), test.instead)
			}
		})
	}
}

// A column of float16 has a number that means a missing value as float16 rounds it; columns of other types have another number there.
func TestHalvesThatMeanMissing(t *testing.T) {
	b := table{flat: []string{"x", "y", "label"}, fields: []arrow.Field{nullable("x", arrow.FixedWidthTypes.Float16),
		nullable("y", arrow.PrimitiveTypes.Float32), nullable("label", arrow.BinaryTypes.String)},
		rows: []string{`{"x":-10000,"y":-10000,"label":"a"}`, `{"x":-9992,"y":-9999,"label":"b"}`, `{"x":-99.875,"y":-99.875,"label":"a"}`}}
	change := func(o *Options) {
		o.Label, o.MissingValues, o.Columns.Use, o.Missing.Mode = "label", []string{"-9999", "-99.9"}, []string{"x", "y"}, layout.MissingMean
	}
	file, _, _, problem := readAs(t, "a.arrow", b.file(t, "arrow"), change)
	var messages []string
	for _, row := range b.rows {
		messages = append(messages, string(b.message(t, "arrow", row)))
	}
	for way, rows := range map[string]*examples.Rows{"file": &file, "topic": addAll(t, ofTopic("arrow", change), messages...)} {
		got, want := fmt.Sprint(rows.Floats), "[NaN -10000 -9992 NaN NaN -99.875]"
		assert.True(t, got == want && problem == "", "%s: %s %s, expected %s", way, got, problem, want)
	}
	lists := arrowContent(t, arrowRows(t, `[{"f":[1,-10000],"label":"a"},{"f":[-99.875,2],"label":"b"}]`,
		nullable("f", arrow.ListOf(arrow.FixedWidthTypes.Float16)), nullable("label", arrow.BinaryTypes.String)), 2, true)
	rows, _, _, problem := readAs(t, "a.arrow", lists, func(o *Options) {
		change(o)
		o.Columns.Use = nil
	})
	got, want := fmt.Sprint(rows.Floats), "[1 NaN NaN 2]"
	assert.True(t, got == want, "lists: %s %s, expected %s", got, problem, want)
}

// A number that means a missing value does so whatever its type and spelling. A boolean is no such number.
func TestNumbersThatMeanMissing(t *testing.T) {
	of := func(x, y arrow.DataType, numbers ...any) table {
		return table{flat: []string{"x", "y", "z", "label"}, fields: []arrow.Field{nullable("x", x), nullable("y", y),
			nullable("z", arrow.FixedWidthTypes.Boolean), nullable("label", arrow.BinaryTypes.String)}, rows: []string{
			fmt.Sprintf(`{"x":%v,"y":1.5,"z":true,"label":"a"}`, numbers[0]), fmt.Sprintf(`{"x":%v,"y":%v,"z":false,"label":"b"}`, numbers[1:3]...),
			fmt.Sprintf(`{"x":%v,"y":2.5,"z":true,"label":"a"}`, numbers[3])}}
	}
	numbers := []string{"-999", "0.0", "-99.9", "-"}
	for _, b := range []table{
		of(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Float64, "-999", "7", "-99.90", "0"),
		of(arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32, "-999.0", "7.0", "-9.99e1", "-0.0"),
	} {
		b.inEveryWay(t, func(o *Options) {
			o.Label, o.MissingValues, o.Columns.Use = "label", numbers, []string{"x", "y", "z"}
		}, func(way string, rows *examples.Rows) {
			assert.Equal(t, fmt.Sprint(rows.Floats), "[NaN 1.5 1 7 NaN 0 NaN 2.5 1]", "%s of %v", way, b.fields[0].Type)
		})
	}
	for name, test := range map[string]struct {
		content, want string
		targets       []string
	}{
		"texts.jsonl": {`{"x":"-999.00","y":1,"label":"a"}` + "\n" + `{"x":7,"y":"-99.9","label":"b"}` + "\n" + `{"x":"0","y":"-","label":"a"}`,
			"[NaN 1 7 NaN NaN NaN]", nil},
		"lists.arrow": {string(arrowContent(t, arrowRows(t, `[{"f":[1,-999],"label":"a"},{"f":[-999,2],"label":"b"}]`,
			nullable("f", arrow.ListOf(arrow.PrimitiveTypes.Float32)), nullable("label", arrow.BinaryTypes.String)), 2, true)), "[1 NaN NaN 2]", nil},
		"targets.csv": {"x,y\n1,2\n3,-999.0\n", "targets.csv: line 3, column 1 (\"y\"): a missing value: expected a number to predict", []string{"y"}},
	} {
		rows, _, _, got := readAs(t, name, []byte(test.content), func(o *Options) { o.MissingValues, o.Targets = numbers, test.targets })
		if got == "" {
			got = fmt.Sprint(rows.Floats)
		}
		assert.True(t, strings.HasPrefix(got, test.want), "%s: %s, expected %s", name, got, test.want)
	}
}

// Only columns that float32 does not resolve get an offset.
func TestOffsets(t *testing.T) {
	for name, test := range map[string]struct {
		value func(i int) float64
		needs bool
	}{
		"milliseconds":       {func(i int) float64 { return 1764000000000 + 1000*float64(i) }, true},
		"negative":           {func(i int) float64 { return -1764000000000 + 1000*float64(i) }, true},
		"one of them":        {func(int) float64 { return 1764000000001 }, true},
		"a decade":           {func(i int) float64 { return 1764000000 + 86400*float64(i) }, false},
		"years":              {func(i int) float64 { return 2020 + float64(i%50/49) }, false},
		"a constant":         {func(int) float64 { return 0.1 }, false},
		"numbers around 0":   {func(i int) float64 { return math.Sin(float64(i)) }, false},
		"large whole ones":   {func(i int) float64 { return 1<<23 + float64(i%2) }, false},
		"above float32":      {func(i int) float64 { return math.Ldexp(math.Sin(float64(i)), 1023) }, false},
		"squares above all":  {func(i int) float64 { return 1e200 * float64(i) }, false},
		"missing values all": {func(int) float64 { return math.NaN() }, false},
	} {
		l := layout.New(Defaults().Options, "", []tabular.Field{{Name: "x"}}, true, func(_ int, err error) error { return err })
		var b tabular.Block
		b.Reset(1)
		for i := range 4000 {
			b.Cells, b.Rows = append(b.Cells, []tabular.Cell{tabular.Float(test.value(i))}), b.Rows+1
		}
		found := layout.Spreads{}
		l.Examine(&b, found)
		offset := found.Offsets(1)["x"]
		assert.True(t, (offset != 0) == test.needs, "%s: offset %v, needs one: %v", name, offset, test.needs)
		different := map[float32]bool{}
		exact := map[float64]bool{}
		for i := range 4000 {
			different[float32(test.value(i)-offset)], exact[test.value(i)] = true, true
		}
		assert.True(t, !test.needs || len(different) == len(exact), "%s: %d values became %d", name, len(exact), len(different))
	}
}
