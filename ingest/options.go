package ingest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// Options are the keys under `examples` of the configuration.
type Options struct {
	// Train and Test are files: idx images and labels in pairs, images first;
	// of other formats any number. None: the topic has the examples already.
	Train []string `mapstructure:"train" yaml:"train"`
	Test  []string `mapstructure:"test" yaml:"test"`
	// Format is idx or csv; "": by the file's name, else by its first bytes.
	Format string `mapstructure:"format" yaml:"format"`
	// Label and Weight are columns of a CSV. An absent label is column 0; with
	// an absent weight every example weighs 1.
	Label  Column `mapstructure:"label" yaml:"label"`
	Weight Column `mapstructure:"weight" yaml:"weight"`
	// Header tells whether a CSV's first row has the names of the columns; nil:
	// it has if Label or Weight is a name.
	Header *bool `mapstructure:"header" yaml:"header"`
	// Classes are the labels that there may be; none: whatever is found.
	Classes []string `mapstructure:"classes" yaml:"classes"`
	// Missing tells what an empty field of a CSV is: an error, or missing, to be
	// replaced by the mean.
	Missing string `mapstructure:"missing" yaml:"missing"`
	// Holdout is the fraction of the training examples that are not fitted, in
	// [0, 1). Visits choose them; files are put on the topic whole.
	Holdout    float64 `mapstructure:"holdout" yaml:"holdout"`
	Partitions int     `mapstructure:"partitions" yaml:"partitions"`
	// BatchRows is the most examples of a message. Wide ones are fewer, so that
	// no message is over schemas.MaxMessage.
	BatchRows int `mapstructure:"batch_rows" yaml:"batch_rows"`
}

// Values of Missing.
const (
	MissingError = "error"
	MissingMean  = "mean"
)

const (
	formatIDX = "idx"
	formatCSV = "csv"
)

// Defaults are the options of an empty configuration.
func Defaults() Options {
	return Options{Missing: MissingError, Partitions: 4, BatchRows: 1024}
}

// Column names a column of a CSV by its number, from 0, or its name in the
// header. What can be read as a number is a number. The zero value is none.
type Column string

// number tells which column it is, unless it is a name.
func (c Column) number() (n int, ok bool) {
	n, err := strconv.Atoi(string(c))
	return n, err == nil
}

func (c Column) isName() bool {
	_, ok := c.number()
	return c != "" && !ok
}

// label is the column of the label of a CSV.
func (o *Options) label() Column {
	if o.Label == "" {
		return "0"
	}
	return o.Label
}

func (o *Options) hasHeader() bool {
	if o.Header != nil {
		return *o.Header
	}
	return o.Label.isName() || o.Weight.isName()
}

const (
	wantFormat = "idx or csv (libsvm, arrow and parquet are not read yet)"
	wantColumn = "a column's number, from 0, or its name"
	wantPairs  = "idx files in pairs, images first, then their labels"
	wantCount  = "a whole number ≥ 1"
)

// Check finds the values that are impossible whatever the files hold. It does
// not look at the files.
func (o Options) Check() []schemas.Problem {
	var problems []schemas.Problem
	wrong := func(key string, value any, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	if o.Format != "" && o.Format != formatIDX && o.Format != formatCSV {
		wrong("format", o.Format, wantFormat)
	} else {
		problems = append(problems, o.checkFiles("train", o.Train)...)
		problems = append(problems, o.checkFiles("test", o.Test)...)
	}
	if n, isNumber := o.Label.number(); isNumber && n < 0 {
		wrong("label", o.Label, wantColumn)
	}
	if n, isNumber := o.Weight.number(); isNumber && n < 0 {
		wrong("weight", o.Weight, wantColumn)
	}
	if o.Weight != "" && o.Weight == o.label() {
		wrong("weight", o.Weight, "another column than the label's")
	}
	if o.Header != nil && !*o.Header && (o.Label.isName() || o.Weight.isName()) {
		wrong("header", false, "true, as a column is given by its name")
	}
	known := map[string]bool{}
	for _, class := range o.Classes {
		if known[class] || class == "" || class != strings.TrimSpace(class) {
			wrong("classes", strconv.Quote(class), "different labels, none of them empty, without space around them")
		}
		known[class] = true
	}
	if o.Missing != MissingError && o.Missing != MissingMean {
		wrong("missing", strconv.Quote(o.Missing), "error or mean")
	}
	if !(o.Holdout >= 0 && o.Holdout < 1) {
		wrong("holdout", o.Holdout, "a fraction, at least 0 and less than 1")
	}
	if o.Partitions < 1 {
		wrong("partitions", o.Partitions, wantCount)
	}
	if o.BatchRows < 1 {
		wrong("batch_rows", o.BatchRows, wantCount)
	}
	return problems
}

// checkFiles looks at names only: what they don't tell is left for Sources.
func (o Options) checkFiles(key string, files []string) []schemas.Problem {
	for i := 0; i < len(files); i++ {
		if files[i] == "" {
			return []schemas.Problem{{Key: key, Value: `""`, Want: "the name of a file"}}
		}
		switch format := o.formatOfName(files[i]); format {
		case "":
			return nil
		case formatCSV:
		case formatIDX:
			if i++; i == len(files) {
				return []schemas.Problem{{Key: key, Value: fmt.Sprint(files), Want: wantPairs}}
			}
			if labels := o.formatOfName(files[i]); labels != formatIDX && labels != "" {
				return []schemas.Problem{{Key: key, Value: fmt.Sprint(files), Want: wantPairs}}
			}
		default:
			return []schemas.Problem{{Key: key, Value: files[i], Want: wantFormat}}
		}
	}
	return nil
}

// formatOfName is "" if the name does not tell.
func (o Options) formatOfName(name string) string {
	if o.Format != "" {
		return o.Format
	}
	name = strings.ToLower(filepath.Base(name))
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".bz2")
	matches := func(pattern string) bool {
		ok, _ := filepath.Match(pattern, name) // the patterns are sound
		return ok
	}
	switch ext := filepath.Ext(name); {
	// train-images-idx3-ubyte, train-images.idx3-ubyte, train-images.idx
	case slices.ContainsFunc([]string{"*ubyte", "*.idx", "*idx[0-9]"}, matches):
		return formatIDX
	case ext == ".csv", ext == ".libsvm", ext == ".arrow", ext == ".parquet":
		return ext[1:]
	}
	return ""
}
