package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// named is a CSV with a header: an id, three features and the target, whose classes are far apart.
func named(rows int) (header string, lines []string) {
	for i := range rows {
		class := i % 3
		lines = append(lines, fmt.Sprintf("%d,%d,%d.5,%d,%s", 1000+i, 10*class+i%2, -5*class, i%4, []string{"one", "two", "three"}[class]))
	}
	return "id,width,height,depth,target", lines
}

const namedConfig = `
name: named
examples:
  train: [train.csv]
  label: target
  columns: {drop: [id]}
stages: [{features: {kind: rff, size: 50}, passes: 20, ridge: 1e-4}]
`

// trainNamed trains a model on the named columns.
func trainNamed(t *testing.T, files map[string]string) {
	t.Helper()
	header, lines := named(90)
	all := map[string]string{"named.yaml": namedConfig, "train.csv": header + "\n" + strings.Join(lines, "\n") + "\n"}
	for name, content := range files {
		all[name] = content
	}
	inFolder(t, all)
	if code, _, stderr := stagewise("train", "-c", "named.yaml", "--model", "model"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
}

// predicted returns the labels that predict says for a file.
func predicted(t *testing.T, args ...string) (labels []string) {
	t.Helper()
	code, stdout, stderr := stagewise(append([]string{"predict", "--model", "model"}, args...)...)
	if code != exitDone {
		t.Fatalf("%q: exit code %d: %s", args, code, stderr)
	}
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		labels = append(labels, row[0])
	}
	return labels
}

// columnsOf returns columns of a CSV, by their names, with the header or without it.
func columnsOf(header string, lines []string, withHeader bool, names ...string) string {
	all := strings.Split(header, ",")
	var text strings.Builder
	if withHeader {
		lines = append([]string{header}, lines...)
	}
	for _, line := range lines {
		fields := strings.Split(line, ",")
		for i, name := range names {
			if i > 0 {
				text.WriteString(",")
			}
			text.WriteString(fields[slices.Index(all, name)])
		}
		text.WriteString("\n")
	}
	return text.String()
}

// Rows in are rows out, with the same labels, whatever the order of the columns, with and without the label and other columns, with and
// without a header.
func TestPredictFindsItsColumns(t *testing.T) {
	header, lines := named(30)
	var want []string
	for i := range lines {
		want = append(want, []string{"one", "two", "three"}[i%3])
	}
	for name, test := range map[string]struct {
		header  bool
		columns string
		args    []string
	}{
		"as in training":                {true, "id,width,height,depth,target", nil},
		"another order":                 {true, "depth,target,height,width", nil},
		"no label":                      {true, "height,width,depth", nil},
		"more columns":                  {true, "depth,id,height,width", nil},
		"no header, the features":       {false, "width,height,depth", nil},
		"a header, said":                {true, "depth,height,width", []string{"--header"}},
		"no header, said":               {false, "width,height,depth", []string{"--header=false"}},
		"no header, the label by place": {false, "target,width,height,depth", []string{"--header=false", "--label", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			trainNamed(t, map[string]string{"rows.csv": columnsOf(header, lines, test.header, strings.Split(test.columns, ",")...)})
			if got := predicted(t, append([]string{"-i", "rows.csv"}, test.args...)...); !slices.Equal(got, want) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// What is missing or in doubt is refused, with the flag that decides.
func TestPredictRefusesDoubt(t *testing.T) {
	header, lines := named(3)
	for name, test := range map[string]struct {
		content string
		args    []string
		want    string
	}{
		"a column is missing": {columnsOf(header, lines, true, "width", "depth", "target"), nil,
			`rows.csv: line 1: the file lacks columns that the model needs: "height"`},
		"a column is there twice": {"width,height,depth,width\n1,2,3,4\n", nil, `line 1, column 3 ("width"): another column has the same name`},
		"other names":             {"a,b,c\n1,2,3\n", nil, "set --header or --header=false"},
		"a word in the first row": {columnsOf(header, lines, false, "width", "height", "depth", "target"), nil,
			"set --header or --header=false"},
		"no header, with the label": {columnsOf(header, lines, false, "width", "height", "depth", "target"), []string{"--header=false"},
			"4 columns: expected 3 features, with or without the label"},
		"too few columns": {"1,2\n", nil, "2 columns: expected 3 features"},
	} {
		t.Run(name, func(t *testing.T) {
			trainNamed(t, map[string]string{"rows.csv": test.content})
			code, stdout, stderr := stagewise(append([]string{"predict", "--model", "model", "-i", "rows.csv"}, test.args...)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d: %s%s\nexpected %s", code, stdout, stderr, test.want)
			}
		})
	}
}

// A column of words becomes features. Predictions find it by its name, and take a word that training did not have as another one. Words
// for a missing value count as missing.
func TestWordsAsFeatures(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("colour;size;kind\n")
	for i := range 120 {
		size := strconv.Itoa(i % 5)
		if i%10 == 0 {
			size = "n/a"
		}
		colour := []string{"red", "green", "blue"}[i%3]
		fmt.Fprintf(&rows, "%s;%s;%s\n", colour, size, map[string]string{"red": "stop", "green": "go", "blue": "other"}[colour])
	}
	inFolder(t, map[string]string{
		"signals.csv": rows.String(),
		"signals.yaml": "name: signals\nexamples: {train: [signals.csv], label: kind, categorical: [colour], missing: mean, " +
			"missing_values: [n/a]}\nstages: [{features: {kind: columns}, passes: 50, ridge: 1e-4}]\n",
		"rows.csv": "size,colour\n1,red\nn/a,green\n3,blue\n2,purple\n",
	})
	if code, _, stderr := stagewise("train", "-c", "signals.yaml", "--model", "model", "--report", "report"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if got := predicted(t, "-i", "rows.csv"); len(got) != 4 || !slices.Equal(got[:3], []string{"stop", "go", "other"}) {
		t.Errorf("got %v", got)
	}
	if report, err := os.ReadFile("report"); err != nil || !strings.Contains(string(report), `"train_error"`) {
		t.Errorf("%s, %v", report, err)
	}
}

// What can't be meant is refused, with the key that decides.
func TestTrainRefusesWhatCantBeMeant(t *testing.T) {
	measurements, numbers, decimals, indexed := "", "", "", ",x,y\n"
	for i := range 50 {
		measurements += fmt.Sprintf("%d.25,%d,%d\n", i, i%3, i%2)
		numbers += fmt.Sprintf("%d,%d,%d\n", i, i%3, i%2)
		decimals += fmt.Sprintf("%d,5;%d,25;%s\n", i, i%3, []string{"a", "b"}[i%2])
		indexed += fmt.Sprintf("%d,%d,%s\n", i, i%3, []string{"a", "b"}[i%2])
	}
	for name, test := range map[string]struct{ content, examples, want string }{
		"fractions as labels": {measurements, "", "set examples.label"},
		"row numbers as labels": {numbers, "", "50 different values in 50 rows do not look like labels: " +
			"set examples.label to the label column"},
		"decimal commas":  {decimals, "label: 2", `"0,5" is not a number: write decimals with a point`},
		"two delimiters":  {"a;b,c;d\ne;f,g;h\n", "", "set examples.delimiter"},
		"words":           {"x,y\nred,a\nblue,b\n", "label: y", `"red" is not a number: examples.categorical accepts columns of words`},
		"a missing value": {"x,y\n1,a\nNA,b\n", "label: y", `a missing value, "NA": examples.missing: mean`},
		"an index": {indexed, "label: y", "an unnamed column, such as the index of a data frame: exclude it " +
			"with examples.columns.drop: [0]"},
		"one class": {"x,y\n1,a\n2,a\n3,a\n", "label: y", `all examples have the label "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			inFolder(t, map[string]string{"rows.csv": test.content, "c.yaml": "name: c\nexamples:\n  train: [rows.csv]\n  " + test.examples +
				"\nstages: [{features: {size: 10}}]\n"})
			code, _, stderr := stagewise("train", "-c", "c.yaml")
			if code == exitDone || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d: %s\nexpected %s", code, stderr, test.want)
			}
		})
	}
}
