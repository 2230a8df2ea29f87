package ingest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
)

// Each invalid combination of keys has one problem, at the key to change. Package config has more of them, with their whole texts.
func TestCheck(t *testing.T) {
	if problems := Defaults().Check(); problems != nil {
		t.Errorf("the defaults: %v", problems)
	}
	yes, no := true, false
	type change = func(o *Options)
	for of, changes := range map[string]map[string]change{
		"": {
			"words.columns: from 1 to 67108864":   func(o *Options) { o.Text, o.Words.Columns = "1", 0 },
			"words.vocabulary: hashed or counted": func(o *Options) { o.Text, o.Words.Vocabulary = "1", "unknown" },
			"words.phrases: from 1 to 5":          func(o *Options) { o.Text, o.Words.Phrases = "1", 6 },
			"words.columns: from 1 to 1048576": func(o *Options) {
				o.Text, o.Words.Vocabulary, o.Words.Columns, o.Train = "1", "counted", 1<<21, []string{"a"}
			},
			"text: those of examples.label":              func(o *Options) { o.Text, o.Label = "a", "a" },
			"text: a column's number":                    func(o *Options) { o.Text = "-1" },
			"text: those of examples.categorical":        func(o *Options) { o.Text, o.Categorical = "1", []string{"1"} },
			"rows: counts of words are sparse":           func(o *Options) { o.Rows, o.Text = "dense", "1" },
			"rows: examples.from_topic too":              func(o *Options) { o.Rows = "./dense" },
			"train: images first, then their labels":     func(o *Options) { o.Train = []string{"a.idx", "b.csv"} },
			"test: idx files in pairs":                   func(o *Options) { o.Format, o.Test = "idx", []string{"a"} },
			"class_weight: among examples.classes":       func(o *Options) { o.Classes, o.ClassWeight.By = []string{"a"}, map[string]float64{"b": 2} },
			"holdout: at least 0":                        func(o *Options) { o.Holdout = math.NaN() },
			"encoding: the name of an encoding":          func(o *Options) { o.Encoding = "klingon" },
			"delimiter: one character":                   func(o *Options) { o.Delimiter = "::" },
			"columns.drop: those of examples.label":      func(o *Options) { o.Train, o.Columns.Drop = []string{"a.parquet"}, []string{"label"} },
			"columns.drop: of examples.columns.use":      func(o *Options) { o.Columns = layout.ColumnChoice{Use: []string{"1"}, Drop: []string{"1"}} },
			"columns.use: different columns":             func(o *Options) { o.Columns.Use = []string{"1", "1"} },
			"categorical: under examples.columns.use":    func(o *Options) { o.Columns.Use, o.Categorical = []string{"1"}, []string{"2"} },
			"times: a unit: auto, s, ms":                 func(o *Options) { o.Times = layout.Times{"2": {Parts: []string{"hour"}, Unit: "h"}} },
			"labels: one or several":                     func(o *Options) { o.Labels = "two" },
			"labels: one label a row":                    func(o *Options) { o.Labels, o.Train = "several", []string{"a.idx", "b.idx"} },
			"label_separator: examples.labels is one":    func(o *Options) { o.LabelSeparator = "," },
			"label_columns: examples.labels is one":      func(o *Options) { o.LabelColumns = []string{"1"} },
			"label_columns: in several columns":          func(o *Options) { o.Labels, o.Label, o.LabelColumns = "several", "0", []string{"1"} },
			"label: predicts one or the other":           func(o *Options) { o.Targets, o.Label = []string{"1"}, "0" },
			"targets: no targets in files of the format": func(o *Options) { o.Targets, o.Train = []string{"1"}, []string{"a.svm"} },
			"class_weight: numbers have no classes":      func(o *Options) { o.Targets, o.ClassWeight.Balanced = []string{"1"}, true },
			"schema: examples.from_topic too":            func(o *Options) { o.Schema = "a.avsc" },
		},
		"csv": {
			"from_topic: ingest files first":                 func(o *Options) { o.Train = []string{"a.csv"} },
			"format: json, csv, arrow, avro or protobuf":     func(o *Options) { o.Format = "parquet" },
			"header: a topic have no header":                 func(o *Options) { o.Header = &yes },
			`format: from 0, unlike "kind"`:                  func(o *Options) { o.Label = "kind" },
			"weight: those of examples.label":                func(o *Options) { o.Weight = "0" },
			"rows: each line is a row":                       func(o *Options) { o.Rows = "a" },
			"schema: values in csv need no schema":           func(o *Options) { o.Schema = "e.avsc" },
			"offsets: the numbers of columns":                func(o *Options) { o.Offsets = layout.Offsets{"a": 1} },
			"on_changed_topic: stop, behind or anew":         func(o *Options) { o.OnChangedTopic = "go" },
			"topic: ingest would write":                      func(o *Options) { o.Topic = "a" },
			"registry.url: such as https://registry:8081":    func(o *Options) { o.Registry.URL = "registry:8081" },
			"registry.url: without a user":                   func(o *Options) { o.Registry.URL = "http://me:secret@registry" },
			"registry.url: https, as certificates":           func(o *Options) { o.Registry.URL, o.Registry.CA = "http://registry", "ca" },
			"registry.user: examples.registry.password_file": func(o *Options) { o.Registry.URL, o.Registry.User = "http://registry", "me" },
			"registry.cert: examples.registry.key":           func(o *Options) { o.Registry.URL, o.Registry.Cert = "https://registry", "cert" },
			"registry.ca: examples.registry.url":             func(o *Options) { o.Registry.CA = "ca" },
		},
		"json": {
			"categorical: examples.columns.use":     func(o *Options) { o.Categorical = []string{"user.country"} },
			"columns.use: that become features":     func(o *Options) { o.Columns.Use = nil },
			"columns.drop: only those":              func(o *Options) { o.Columns.Drop = []string{"y"} },
			"columns.use: those of examples.label":  func(o *Options) { o.Columns.Use = []string{"label"} },
			"rows: is unknown before they are read": func(o *Options) { o.Rows = "dense" },
			"served.label: one label per row": func(o *Options) {
				o.Labels, o.Served = "several", layout.ServedColumns{Label: "l", Version: "v"}
			},
			"served.version: those of examples.label": func(o *Options) {
				o.Label, o.Served = "v", layout.ServedColumns{Label: "l", Version: "v"}
			},
		},
		"avro": {
			"schema: such as events.avsc": func(*Options) {},
			"message: describe several":   func(o *Options) { o.Schema, o.Message = "e.avsc", "E" },
		},
		"protobuf": {
			"schema: says its schema there": func(o *Options) { o.Schema, o.Registry.URL = "e.proto", "http://registry" },
		},
		"arrow": {
			"registry.url: have no schema there": func(o *Options) { o.Registry.URL = "http://registry" },
		},
	} {
		for want, change := range changes {
			o := Defaults()
			if of != "" {
				o = ofTopic(of, func(o *Options) {
					if of != "csv" {
						o.Columns.Use = []string{"x"}
					}
				})
			}
			change(&o)
			key, words, _ := strings.Cut(want, ": ")
			got := o.Check()
			if len(got) != 1 || got[0].Key != key || !strings.Contains(got[0].Want, words) || strings.Contains(fmt.Sprint(got), "secret") {
				t.Errorf("%s: got %v, expected %s", of, got, want)
			}
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
