package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

func TestLIBSVM(t *testing.T) {
	var wide strings.Builder
	wide.WriteString("1")
	for i := range 100_000 {
		fmt.Fprintf(&wide, " %d:1", i)
	}
	for _, test := range []struct {
		name, Content string
		classes       []string
		want          string
	}{
		{"rows", "1 1:2 7:-0.5\n-1 0:1e2\n", nil, `2 × 0 [1 7]:[2 -0.5] [0]:[100] words ["1" "-1"]`},
		{"no end of line, tabs and returns", "a\t3:1\r\nb  3:2  4:3 ", nil, `2 × 0 [3]:[1] [3 4]:[2 3] words ["a" "b"]`},
		{"comments and blank lines", "# of words\n\n1 2:1 # the first\n \n2 # nothing\n", nil, `2 × 0 [2]:[1] []:[] words ["1" "2"]`},
		{"queries", "1 qid:3 1:1\n2 qid:4\n", nil, `2 × 0 [1]:[1] []:[] words ["1" "2"]`},
		{"zeros are left out", "1 1:0 2:3 3:-0\n2 1:1e-60", nil, `2 × 0 [2]:[3] []:[] words ["1" "2"]`},
		{"classes", "1 1:1\n", []string{"1", "2"}, `1 × 0 [1]:[1] words ["1"]`},

		{"empty", "", nil, "rows.libsvm: an empty file"},
		{"label of no class", "1 1:1\n7 1:1\n", []string{"1"}, `rows.libsvm: line 2, column 0: label "7" is not one of the classes`},
		{"several labels", "1,5 1:1\n", nil, `rows.libsvm: line 1, column 0: labels "1,5": expected one label, or examples.labels: several`},
		{"no label", "1:1 2:1\n", nil, `rows.libsvm: line 1, column 0: "1:1": expected a label before the features`},
		{"label that is not UTF-8", "\xff 1:1\n", nil, `rows.libsvm: line 1, column 0: label "\xff" is not UTF-8: set examples.encoding, such as windows-1252, or convert the text`},
		{"descending", "1 1:1\n1 5:1 4:1\n", nil, "rows.libsvm: line 2, column 2: index 4 after 5: expected ascending indices, each once"},
		{"repeated", "1 4:0 4:1\n", nil, "rows.libsvm: line 1, column 2: index 4 after 4: expected ascending indices, each once"},
		{"negative", "1 -4:1\n", nil, `rows.libsvm: line 1, column 1: index "-4": expected a whole number from 0 to 67108863`},
		{"huge", "1 67108864:1\n", nil, `rows.libsvm: line 1, column 1: index "67108864": expected a whole number from 0 to 67108863`},
		{"huger", "1 99999999999999999999:1\n", nil, `rows.libsvm: line 1, column 1: index "99999999999999999999": expected a whole number from 0 to 67108863`},
		{"NaN", "1 1:1 2:nan\n", nil, `rows.libsvm: line 1, column 2: "2:nan": expected index:value: "nan" is not a finite number`},
		{"overflow", "1 1:1e39\n", nil, `rows.libsvm: line 1, column 1: "1:1e39": 1e+39 is not a finite float32`},
		{"no value", "1 1:\n", nil, `rows.libsvm: line 1, column 1: "1:": expected index:value: an empty field`},
		{"no index", "1 x:1\n", nil, `rows.libsvm: line 1, column 1: "x:1": expected index:value, the index a whole number`},
		{"query in a later field", "1 1:1 qid:3\n", nil, `rows.libsvm: line 1, column 2: "qid:3": expected index:value, the index a whole number`},
		{"CSV", "1,2,3\n", nil, `rows.libsvm: line 1, column 0: labels "1,2,3": expected one label, or examples.labels: several`},
		{"a word", "1 1:1 spam\n", nil, `rows.libsvm: line 1, column 2: "spam": expected index:value`},
		{"wide", "1 1:1\n" + wide.String(), nil, "rows.libsvm: line 2, column 0: the example does not fit a message of 900000 bytes"},
		{"long line", "1 1:1\n1 " + strings.Repeat("1", 4194304), nil, "rows.libsvm: line 2: a line of more than 4 MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := Defaults()
			o.Classes, o.Train = test.classes, []string{f.write(t, "rows.libsvm", []byte(test.Content))}
			rows, err := readSources(o)
			got := ""
			if err != nil {
				got = f.text(err)
			} else {
				got = show(rows[0])
			}
			if got != test.want {
				t.Errorf("%s, expected %s", got, test.want)
			}
		})
	}
}

// Lines may have several labels if configured.
func TestLIBSVMOfSeveralLabels(t *testing.T) {
	for content, want := range map[string]string{
		"1,5,7 1:2\n2 0:1\n3:4\n": `[["1" "5" "7"] ["2"] []]`,
		"a|b 1:2\n":               `[["a" "b"]]`,
		"1:2\n2 1:1 # 3\n":        `[[] ["2"]]`,
		"1,,7 1:2\n":              `rows.libsvm: line 1, column 0: label 1 of "1,,7": an empty field: expected a label`,
		"1,\xff 1:2\n":            `rows.libsvm: line 1, column 0: label 1 of "1,\xff": label "\xff" is not UTF-8: set examples.encoding, such as windows-1252, or convert the text`,
		"1,5 5:1 4:1\n":           "rows.libsvm: line 1, column 2: index 4 after 5: expected ascending indices, each once",
	} {
		f := newFolder(t)
		o := Defaults()
		o.Labels, o.Train = layout.LabelsSeveral, []string{f.write(t, "rows.libsvm", []byte(content))}
		rows, err := readSources(o)
		got := ""
		if err != nil {
			got = f.text(err)
		} else {
			got = fmt.Sprintf("%q", rows[0].LabelLists)
		}
		if got != want {
			t.Errorf("%q: %s, expected %s", content, got, want)
		}
	}
}

// Rows to predict may have labels or not. A model on dense rows rejects them.
func TestLIBSVMToPredict(t *testing.T) {
	f := newFolder(t)
	for content, want := range map[string]string{"7 1:1\n8 2:2\n": "2 × 0 [1]:[1] [2]:[2]", "1:1\n2:2\n": "2 × 0 [1]:[1] [2]:[2]"} {
		name := f.write(t, "rows.svm", []byte(content))
		rows, _, err := readRows(File(context.Background(), name, Defaults(), layout.Features{Width: 3, Sparse: true}))
		if err != nil || show(rows) != want {
			t.Errorf("%s, expected %s: %v", show(rows), want, err)
		}
		_, _, err = readRows(File(context.Background(), name, Defaults(), layout.Features{Width: 3}))
		if want := "rows.svm: sparse rows: the model was trained on dense rows of 3 features"; err == nil ||
			f.text(err) != want {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// For any input, the reader returns valid rows or a *input.Error.
func FuzzLIBSVM(f *testing.F) {
	for _, content := range []string{"1 1:2 7:-0.5\n-1 0:1e2\n", "# x\n\na\t3:1\r\n", "1 5:1 4:1", "1 1:nan", "1,2 67108864:1", "1 :",
		": 1", "1 1:1:1", "1 qid:7 1:1", "qid:7 1:1", "1 qid:"} {
		f.Add([]byte(content))
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(folder, "fuzz.libsvm")
		noError(t, os.WriteFile(name, content, 0o600))
		o := Defaults()
		o.Train = []string{name}
		sources, err := Sources(context.Background(), o)
		rows := examples.Rows{}
		if err == nil {
			rows, _, err = readRows(sources[0].Batches(context.Background()))
		}
		if err != nil && !errors.As(err, new(*input.Error)) {
			t.Error(err)
		}
		if err != nil {
			return
		}
		for i := range rows.Rows {
			indices, values := rows.Sparse.Row(i)
			last := int32(-1)
			for at, index := range indices {
				if v := values[at]; index <= last || v == 0 || v-v != 0 {
					t.Fatalf("row %d: %v %v", i, indices, values)
				}
				last = index
			}
		}
	})
}
