package ingest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/plain"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

func TestCSV(t *testing.T) {
	yes := true
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
		{"label and weight in one", "l,x\na,1\n", layout.Options{Label: "l", Weight: "0"}, `file.csv: line 1, column 0 ("l"): both the label and the weight`},
		{"negative weight", "a,1,1\na,1,-1\n", layout.Options{Weight: "2"}, `file.csv: line 2, column 2: weight -1: expected a finite number ≥ 0`},
		{"empty weight", "a,1,1\na,1,\n", layout.Options{Weight: "2", Missing: layout.Missing{Mode: layout.MissingMean}}, `file.csv: line 2, column 2: a row without a weight: expected a number ≥ 0`},
		{"bare quote", "a,1\na,1\"\n", layout.Options{}, "file.csv: line 2: byte 4: bare \" in non-quoted-field"},
		{"open quote", "a,1\n\"a,1\nb,2\n", layout.Options{}, "file.csv: line 2: from here to line 3, byte 5: extraneous or missing \" in quoted-field"},
		{"endless quote", "a,1\n\"a," + strings.Repeat("1\n", 4194304), layout.Options{}, "file.csv: line 2: a row of more than 4 MiB (an open quote?)"},
		{"a long label", "a,1\n" + strings.Repeat("l", examples.MaxLabel) + "l,1\n", layout.Options{}, `file.csv: line 2, column 0: label "llllllllllllllllllllllllllllllllllllllll"…: expected at most 1024 bytes`},
		{"row wider than a message", "a" + strings.Repeat(",1", 890000/4), layout.Options{}, "file.csv: line 1: an example of 222500 features does not fit a message of 900000 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := Options{Partitions: 4, Options: test.options}
			o.BatchRows = 1024
			o.MissingValues = layout.DefaultMissingValues()
			if o.Missing.Mode == "" {
				o.Missing.Mode = layout.MissingError
			}
			o.Train = []string{f.write(t, "file.csv", []byte(test.Content))}
			rows, err := readSources(o)
			got := ""
			switch {
			case err == nil:
				got = show(rows[0])
			case isFileError(err):
				got = f.text(err)
			default:
				t.Fatalf("%T: %v", err, err)
			}
			if got != test.want {
				t.Errorf("%s\nexpected %s", got, test.want)
			}
		})
	}
}

func isFileError(err error) bool {
	_, ok := errors.AsType[*input.Error](err)
	return ok
}

func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a,1,2\nb,3,4\n", "l,w,x\r\na,1,2\r\n", "\"a\nb\",1\n", "a,1\n\"", "\ufeffl,x\na,\n", "a,1\n,2\n \n"} {
		for flags := range byte(32) {
			f.Add([]byte(seed), flags)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, flags byte) {
		o := Defaults()
		o.BatchRows = 2
		if flags&1 != 0 {
			o.Label = "l"
		}
		if flags&2 != 0 {
			o.Weight = "1"
		}
		if flags&4 != 0 {
			o.Missing.Mode = layout.MissingMean
		}
		want := layout.Features{Width: 2}
		if flags&16 != 0 {
			want = layout.Features{Width: 3, Columns: examples.Columns{{Name: "x"}, {Name: "l", Categories: []string{"a"}}}}
		}
		open := func(c *input.Content) (format.Reader, error) {
			return plain.CSV().Open([]*input.Content{c}, o.Options, nil, nil)
		}
		if flags&8 != 0 {
			open = func(c *input.Content) (format.Reader, error) {
				return plain.CSV().Open([]*input.Content{c}, o.Options, &want, nil)
			}
		}
		fuzzReader(t, open, file)
	})
}

// fuzzReader reads all batches of a file. Either their columns are consistent in length and size, or there is a
// *input.Error.
func fuzzReader(t *testing.T, open func(*input.Content) (format.Reader, error), file []byte) {
	c, err := input.New(context.Background(), "file", io.NopCloser(bytes.NewReader(file)))
	if err != nil {
		checkFuzzError(t, err)
		return
	}
	r, err := open(c)
	if err != nil {
		checkFuzzError(t, err)
		return
	}
	for rows, err := range format.BatchesOf(context.Background(), r) {
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		values := len(rows.Floats) + len(rows.Bytes)
		if rows.Sparse != nil {
			checkFuzzedSparse(t, rows)
			values, rows.Cols = rows.Rows, 1
		}
		if rows.Rows < 1 || rows.Rows > 2 || rows.Cols < 1 || values != rows.Rows*rows.Cols || rows.Floats != nil && rows.Bytes != nil {
			t.Fatalf("%d × %d: %d values", rows.Rows, rows.Cols, values)
		}
		for _, n := range []int{len(rows.Words), len(rows.Numbers), len(rows.Weights)} {
			if n != 0 && n != rows.Rows {
				t.Fatalf("%d rows, %d in a column", rows.Rows, n)
			}
		}
	}
}

// checkFuzzedSparse requires rows with ascending indices and finite nonzero values.
func checkFuzzedSparse(t *testing.T, rows *examples.Rows) {
	if len(rows.Sparse.Ends) != rows.Rows || len(rows.Floats) > 0 {
		t.Fatalf("%d rows, %d of them sparse, and %d values beside", rows.Rows, len(rows.Sparse.Ends), len(rows.Floats))
	}
	for row := range rows.Rows {
		indices, values := rows.Sparse.Row(row)
		for i, v := range values {
			if v == 0 || v-v != 0 || indices[i] < 0 || i > 0 && indices[i] <= indices[i-1] {
				t.Fatalf("row %d: %v, %v", row, indices, values)
			}
		}
	}
}

// checkFuzzError requires a *input.Error with the file and a reason.
func checkFuzzError(t *testing.T, err error) {
	t.Helper()
	file, ok := errors.AsType[*input.Error](err)
	if !ok || file.File != "file" || file.Err == nil {
		t.Fatalf("%T: %v", err, err)
	}
}
