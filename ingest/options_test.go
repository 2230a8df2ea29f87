package ingest

import (
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
)

func TestCheck(t *testing.T) {
	if problems := Defaults().Check(); problems != nil {
		t.Errorf("the defaults: %v", problems)
	}
	no := false
	for _, test := range []struct {
		change func(*Options)
		want   option.Problem
	}{
		{func(o *Options) { o.Format = "arff" }, option.Problem{Key: "format", Value: "arff", Want: wantFormat()}},
		{func(o *Options) { o.Text, o.Words.Columns = "1", 0 }, option.Problem{Key: "words.columns", Value: "0", Want: "a whole number from 1 to 67108864"}},
		{func(o *Options) { o.Text, o.Words.Phrases = "1", 6 }, option.Problem{Key: "words.phrases", Value: "6", Want: "a whole number from 1 to 5"}},
		{func(o *Options) { o.Text, o.Label = "a", "a" }, option.Problem{Key: "text", Value: "a", Want: "another column than those of the label and the weight"}},
		{func(o *Options) { o.Text = "-1" }, option.Problem{Key: "text", Value: "-1", Want: "a column's number, from 0, or its name"}},
		{func(o *Options) { o.Rows, o.Text = "dense", "1" }, option.Problem{Key: "rows", Value: "dense", Want: "auto or sparse, because examples.text is set: counts of words are sparse"}},
		{func(o *Options) { o.Rows = "./dense" }, option.Problem{Key: "rows", Value: `"dense"`, Want: "examples.from_topic too: it describes the messages of a topic"}},
		{func(o *Options) { o.Text, o.Categorical = "1", []string{"1"} }, option.Problem{Key: "text", Value: "1", Want: "another column than those under examples.columns, examples.categorical and examples.times"}},
		{func(o *Options) { o.Test = []string{"a.csv", ""} }, option.Problem{Key: "test", Value: `""`, Want: "the name of a file"}},
		{func(o *Options) { o.Train = []string{"a.idx", "b.idx", "c.idx"} }, option.Problem{Key: "train", Value: "[a.idx b.idx c.idx]", Want: "idx files in pairs, images first, then their labels"}},
		{func(o *Options) { o.Train = []string{"a.idx", "b.csv"} }, option.Problem{Key: "train", Value: "[a.idx b.csv]", Want: "idx files in pairs, images first, then their labels"}},
		{func(o *Options) { o.Format, o.Test = "idx", []string{"a"} }, option.Problem{Key: "test", Value: "[a]", Want: "idx files in pairs, images first, then their labels"}},
		{func(o *Options) { o.Label = "-1" }, option.Problem{Key: "label", Value: "-1", Want: "a column's number, from 0, or its name"}},
		{func(o *Options) { o.Weight = "-1" }, option.Problem{Key: "weight", Value: "-1", Want: "a column's number, from 0, or its name"}},
		{func(o *Options) { o.Weight = "0" }, option.Problem{Key: "weight", Value: "0", Want: "another column than the label's"}},
		{func(o *Options) { o.Label, o.Header = "digit", &no }, option.Problem{Key: "header", Value: "false", Want: "true, because a column is given by its name"}},
		{func(o *Options) { o.Classes = []string{"a", "b", "a"} }, option.Problem{Key: "classes", Value: `"a"`, Want: "distinct, non-empty labels without surrounding space"}},
		{func(o *Options) { o.Classes = []string{" a"} }, option.Problem{Key: "classes", Value: `" a"`, Want: "distinct, non-empty labels without surrounding space"}},
		{func(o *Options) { o.Missing.Mode = "median" }, option.Problem{Key: "missing", Value: `"median"`, Want: "error or mean"}},
		{func(o *Options) { o.Holdout = 1 }, option.Problem{Key: "holdout", Value: "1", Want: "a fraction, at least 0 and less than 1"}},
		{func(o *Options) { o.Holdout = -0.1 }, option.Problem{Key: "holdout", Value: "-0.1", Want: "a fraction, at least 0 and less than 1"}},
		{func(o *Options) { o.Partitions = 0 }, option.Problem{Key: "partitions", Value: "0", Want: "a whole number ≥ 1"}},
		{func(o *Options) { o.BatchRows = -1 }, option.Problem{Key: "batch_rows", Value: "-1", Want: "a whole number ≥ 1"}},
		{func(o *Options) { o.Train, o.Weight = []string{"a.csv"}, "0" }, option.Problem{Key: "weight", Value: "0", Want: "another column than the label's"}},
		{func(o *Options) { o.Train, o.Columns.Drop = []string{"a.parquet"}, []string{"label"} },
			option.Problem{Key: "columns.drop", Value: "label", Want: "other columns than those of the label and the weight"}},
	} {
		o := Defaults()
		test.change(&o)
		if got := o.Check(); !reflect.DeepEqual(got, []option.Problem{test.want}) {
			t.Errorf("%+v\nexpected %+v", got, test.want)
		}
	}
	// Options that are invalid for CSV are valid for a table with names, and for a file whose name does not determine its
	// format.
	for _, name := range []string{"a.parquet", "a.arrow", "a"} {
		o := Defaults()
		o.Train, o.Weight, o.Columns.Use = []string{name}, "0", []string{"1", "2"}
		named := o
		named.Label, named.Header = "y", &no
		for _, o := range []Options{o, named} {
			if problems := o.Check(); problems != nil {
				t.Errorf("%s: %v", name, problems)
			}
		}
	}
	// all problems are reported at once
	if got := (Options{}).Check(); len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// The keys are those of docs/configuration.md, and a column is a number or a name.
func TestOptionsDecode(t *testing.T) {
	const text = `
train: [a.csv]
test: [b.csv]
format: csv
label: 3
weight: w
header: true
classes: [0, one]
holdout: 0.25
partitions: 2
batch_rows: 64
`
	yes := true
	want := Options{
		Train: []string{"a.csv"}, Test: []string{"b.csv"}, Format: "csv", Holdout: 0.25, Partitions: 2,
		Options: layout.Options{Label: "3", Weight: "w", Header: &yes, Classes: []string{"0", "one"}, BatchRows: 64},
	}
	var direct Options
	if err := yaml.Unmarshal([]byte(text), &direct); err != nil || !reflect.DeepEqual(direct, want) {
		t.Errorf("yaml: %+v, %v", direct, err)
	}
}
