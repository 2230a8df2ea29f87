package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

func TestCSV(t *testing.T) {
	yes := true
	for _, test := range []struct {
		name, content string
		options       Options
		want          string
	}{
		{"plain", "7,1,2\n8,3,4\n", Options{}, `2 × 2 floats [1 2 3 4] words ["7" "8"]`},
		{"no end of line", "7,1,2\n8,3,4", Options{}, `2 × 2 floats [1 2 3 4] words ["7" "8"]`},
		{"CRLF", "7,1,2\r\n8,3,4\r\n", Options{}, `2 × 2 floats [1 2 3 4] words ["7" "8"]`},
		{"byte order mark", "\ufeff7,1,2\n", Options{}, `1 × 2 floats [1 2] words ["7"]`},
		{"byte order mark and a name", "\ufefflabel,x\na,1\n", Options{Label: "label"}, `1 × 1 floats [1] words ["a"]`},
		{"blank lines", "\n7,1,2\n\n \r\n8,3,4\n\n", Options{}, `2 × 2 floats [1 2 3 4] words ["7" "8"]`},
		{"quotes", "\"a, \"\"b\"\"\",\"1\", \"2\"\n", Options{}, `1 × 2 floats [1 2] words ["a, \"b\""]`},
		{"space", " 7 , 1 ,\t2\n", Options{}, `1 × 2 floats [1 2] words ["7"]`},
		{"numbers", "a,-1.5e3,+.25,1e-60,0x1p-2\n", Options{}, `1 × 4 floats [-1500 0.25 0 0.25] words ["a"]`},
		{"a label stays as it is written", "3.0,1\n03,1\n", Options{}, `2 × 1 floats [1 1] words ["3.0" "03"]`},
		{"label by number", "1,a,2\n", Options{Label: "1"}, `1 × 2 floats [1 2] words ["a"]`},
		{"label by name", "x, y ,z\n1,a,2\n", Options{Label: "y"}, `1 × 2 floats [1 2] words ["a"]`},
		{"label by number, header", "y,x\na,1\n", Options{Header: &yes}, `1 × 1 floats [1] words ["a"]`},
		{"weight", "a,1,0\nb,2,0.5\n", Options{Weight: "2"}, `2 × 1 floats [1 2] words ["a" "b"] weights [0 0.5]`},
		{"weight by name", "l,w,x\na,3,1\n", Options{Weight: "w"}, `1 × 1 floats [1] words ["a"] weights [3]`},
		{"missing", "a,,2\nb,3, \n", Options{Missing: MissingMean}, `2 × 2 floats [NaN 2 3 NaN] words ["a" "b"]`},
		{"classes", "a,1\nb,2\na,3\n", Options{Classes: []string{"b", "a", "c"}}, `3 × 1 floats [1 2 3] words ["a" "b" "a"]`},

		{"semicolons", "a;1;2\nb;3;4\n", Options{}, `2 × 2 floats [1 2 3 4] words ["a" "b"]`},
		{"tabs", "a\t1\t\nb\t3\t4\n", Options{Missing: MissingMean}, `2 × 2 floats [1 NaN 3 4] words ["a" "b"]`},
		{"bars, with commas in a field", "a, b|1\nc|2\n", Options{}, `2 × 1 floats [1 2] words ["a, b" "c"]`},
		{"a delimiter that is given", "a;1,2\n", Options{Delimiter: ",", Label: "0"}, `1 × 1 floats [2] words ["a;1"]`},
		{"columns to use", "id,x,l,y\n7,1,a,2\n", Options{Label: "l", Columns: ColumnChoice{Use: []string{"y", "x"}}}, `1 × 2 floats [1 2] words ["a"]`},
		{"columns to drop", "7,a,1,8\n", Options{Label: "1", Columns: ColumnChoice{Drop: []string{"0", "3"}}}, `1 × 1 floats [1] words ["a"]`},
		{"words", "l,c,x\na,red,1\nb,blue,2\na,red,3\n", Options{Label: "l", Categorical: []string{"c"}}, `3 × 4 floats [0 1 0 1 1 0 0 2 0 1 0 3] words ["a" "b" "a"]`},
		{"a missing word", "l,c\na,red\nb,NA\n", Options{Label: "l", Categorical: []string{"c"}, Missing: MissingMean}, `2 × 2 floats [1 0 NaN NaN] words ["a" "b"]`},
		{"words for missing values", "a,NA,nan\nb,null,2\n", Options{Missing: MissingMean}, `2 × 2 floats [NaN NaN NaN 2] words ["a" "b"]`},
		{"missing values, refused", "a,1\nb,NA\n", Options{}, `file.csv: line 2, column 1: a missing value, "NA": examples.missing: mean takes the mean of the column`},

		{"a delimiter in doubt", "a;b,c;d\ne;f,g;h\n", Options{}, `file.csv: line 1: its rows can be read with the delimiters "," (2 columns) and ";" (3 columns): set examples.delimiter`},
		{"an index without a name", ",l,x\n0,a,1\n", Options{Label: "l"}, `file.csv: line 1, column 0 (""): a column without a name, as the index of a data frame has none: leave it out with examples.columns.drop: [0], or give it a name`},
		{"a feature's name twice", "l,x,x\na,1,2\n", Options{Label: "l"}, "file.csv: line 1: two columns have the same name: rename one, or leave it out with examples.columns.drop and its number"},
		{"no such column to drop", "l,x\na,1\n", Options{Label: "l", Columns: ColumnChoice{Drop: []string{"id"}}}, `file.csv: line 1: no column "id": expected one of "l" and "x"`},
		{"a fraction as a label", "0.5,1\n", Options{}, `file.csv: line 1, column 0: "0.5" looks like a measurement, and no key says which column has the label: set examples.label`},
		{"a fraction as a label, meant", "0.5,1\n", Options{Label: "0"}, `1 × 1 floats [1] words ["0.5"]`},
		{"many labels", "a,1\nb,1\nc,1\n", Options{}, "file.csv: line 3, column 0: 3 different values in 3 rows do not look like labels, and no key says which column has the label: set examples.label"},

		{"empty", "", Options{}, "file.csv: an empty file"},
		{"blank", "\n \n", Options{}, "file.csv: an empty file"},
		{"header alone", "l,x\n\n", Options{Header: &yes}, "file.csv: line 1: no row follows the header"},
		{"label alone", "a\nb\n", Options{}, "file.csv: line 1: no column is a feature"},
		{"ragged, short", "a,1,2\nb,3\n", Options{}, "file.csv: line 2: 2 columns, expected 3"},
		{"ragged, long", "a,1\n\nb,3,4\n", Options{}, "file.csv: line 3: 3 columns, expected 2"},
		{"narrow header", "l,x\na,1,2\n", Options{Header: &yes}, "file.csv: line 2: 3 columns, expected 2"},
		{"a word", "a,1\nb,abc\n", Options{}, `file.csv: line 2, column 1: "abc" is not a number: examples.categorical takes columns of words, examples.columns.drop leaves a column out, examples.missing_values says which words mean that a value is missing`},
		{"a word, in a named column", "l,x1\na,1\nb,1 2\n", Options{Header: &yes}, `file.csv: line 3, column 1 ("x1"): "1 2" is not a number`},
		{"a word after a field of two lines", "l,x1\n\"a\nb\",c\n", Options{Header: &yes}, `file.csv: line 3, column 1 ("x1"): "c" is not a number: examples.categorical takes columns of words, examples.columns.drop leaves a column out, examples.missing_values says which words mean that a value is missing`},
		{"a header not announced", "label,x1\na,1\n", Options{}, `file.csv: line 1, column 1: "x1" is not a number (if this is a header: set examples.header)`},
		{"a long word", "a,1\nb," + strings.Repeat("long", 100) + "\n", Options{}, `file.csv: line 2, column 1: "longlonglonglonglonglonglonglonglonglong"… is not a number`},
		{"NaN", "a,1\na,+nan\n", Options{Missing: MissingMean}, `file.csv: line 2, column 1: "+nan" is not a number`},
		{"Inf", "a,1\na,-Inf\n", Options{}, `file.csv: line 2, column 1: "-Inf" is not a finite number`},
		{"overflow", "a,1\na,1e39\n", Options{}, `file.csv: line 2, column 1: "1e39" is too large for a float32`},
		{"empty field", "a,1,2\na,,2\n", Options{}, `file.csv: line 2, column 1: an empty field: examples.missing: mean takes the mean of the column`},
		{"empty label", "a,1\n ,2\n", Options{Missing: MissingMean}, `file.csv: line 2, column 0: an empty label`},
		{"label that is not text", "a,1\n\xff,2\n", Options{}, `file.csv: line 2, column 0: label "\xff" is not UTF-8`},
		{"label of no class", "a,1\nd,2\n", Options{Classes: []string{"a", "b"}}, `file.csv: line 2, column 0: label "d" is not one of the classes`},
		{"no such number", "a,1\n", Options{Label: "2"}, "file.csv: line 1: no column 2: there are 2 columns, counted from 0"},
		{"no such name", "l,x\na,1\n", Options{Label: "y"}, `file.csv: line 1: no column "y": expected one of "l" and "x"`},
		{"no such weight", "l,x\na,1\n", Options{Weight: "7"}, "file.csv: line 1: no column 7: there are 2 columns, counted from 0"},
		{"name twice", "l,x,l\na,1,b\n", Options{Label: "l"}, `file.csv: line 1, column 2 ("l"): another column has the same name`},
		{"label and weight in one", "l,x\na,1\n", Options{Label: "l", Weight: "0"}, `file.csv: line 1, column 0 ("l"): both the label and the weight`},
		{"negative weight", "a,1,1\na,1,-1\n", Options{Weight: "2"}, `file.csv: line 2, column 2: weight "-1": expected a number ≥ 0`},
		{"infinite weight", "a,1,1\na,1,Inf\n", Options{Weight: "2"}, `file.csv: line 2, column 2: "Inf" is not a finite number`},
		{"empty weight", "a,1,1\na,1,\n", Options{Weight: "2", Missing: MissingMean}, `file.csv: line 2, column 2: an empty field`},
		{"bare quote", "a,1\na,1\"\n", Options{}, "file.csv: line 2: byte 4: bare \" in non-quoted-field"},
		{"open quote", "a,1\n\"a,1\nb,2\n", Options{}, "file.csv: line 2: from here to line 3, byte 5: extraneous or missing \" in quoted-field"},
		{"endless quote", "a,1\n\"a," + strings.Repeat("1\n", maxRowBytes), Options{}, "file.csv: line 2: a row of more than 4 MiB (an open quote?)"},
		{"a long label", "a,1\n" + strings.Repeat("l", schemas.MaxLabel) + "l,1\n", Options{}, `file.csv: line 2, column 0: label "llllllllllllllllllllllllllllllllllllllll"…: expected at most 1024 bytes`},
		{"label longer than a message", "a,1\n" + strings.Repeat("l", maxBatchBytes) + ",1\n", Options{}, "file.csv: line 2, column 0: the example does not fit a message of 900000 bytes: its label is too long"},
		{"row wider than a message", "a" + strings.Repeat(",1", maxBatchBytes/4), Options{}, "file.csv: line 1: an example of 222500 features does not fit a message of 900000 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := test.options
			o.Partitions, o.BatchRows = 4, 1024
			o.MissingValues = DefaultMissingValues()
			if o.Missing == "" {
				o.Missing = MissingError
			}
			o.Train = []string{f.write(t, "file.csv", []byte(test.content))}
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
	_, ok := errors.AsType[*FileError](err)
	return ok
}

// Labels are right even if there are more than the reader keeps.
func TestCSVManyLabels(t *testing.T) {
	var table bytes.Buffer
	const rows = maxLabels + 1000
	for i := range rows {
		fmt.Fprintf(&table, "w%d,1\n", i%(maxLabels+10))
	}
	f := newFolder(t)
	o := Defaults()
	o.Label = "0"
	o.Train = []string{f.write(t, "a.csv", table.Bytes())}
	whole, err := readSources(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, word := range whole[0].Words {
		if word != fmt.Sprintf("w%d", i%(maxLabels+10)) {
			t.Fatalf("row %d: %s", i, word)
		}
	}
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
			o.Missing = MissingMean
		}
		want := Features{Width: 2}
		if flags&16 != 0 {
			want = Features{Width: 3, Columns: schemas.Columns{{Name: "x"}, {Name: "l", Categories: []string{"a"}}}}
		}
		open := func(c *content) (reader, error) { return openCSV([]*content{c}, o) }
		if flags&8 != 0 {
			open = func(c *content) (reader, error) { return openCSVFeatures(c, o, want) }
		}
		fuzzReader(t, open, file)
	})
}

// fuzzReader reads all batches of a file. Either their columns agree in length and
// size, or there is a *FileError.
func fuzzReader(t *testing.T, open func(*content) (reader, error), file []byte) {
	c, err := newContent(context.Background(), "file", io.NopCloser(bytes.NewReader(file)))
	if err != nil {
		checkFuzzError(t, err)
		return
	}
	r, err := open(c)
	if err != nil {
		checkFuzzError(t, err)
		return
	}
	for rows, err := range all(context.Background(), r) {
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

// checkFuzzedSparse requires rows of ascending indices and finite values that are not 0.
func checkFuzzedSparse(t *testing.T, rows *schemas.ExampleRows) {
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

// checkFuzzError requires a *FileError with the file and a reason.
func checkFuzzError(t *testing.T, err error) {
	t.Helper()
	file, ok := errors.AsType[*FileError](err)
	if !ok || file.File != "file" || file.Err == nil {
		t.Fatalf("%T: %v", err, err)
	}
}
