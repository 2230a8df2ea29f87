package ingest

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/option"
)

// checkText finds invalid values of the text keys.
func (o Options) checkText() (problems []option.Problem) {
	wrong := func(key string, value any, want string) {
		problems = append(problems, option.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	if o.Text == "" {
		return nil
	}
	problems = append(problems, o.Words.Check()...)
	if o.Words.Found() && !o.Predicts() && len(o.Train) == 0 {
		wrong("words.vocabulary", o.Words.Vocabulary, "files under examples.train, in which its words are found")
	}
	switch {
	case o.Text == o.Label || o.Text == o.Weight:
		wrong("text", o.Text, "another column than those of the label and the weight")
	case slices.Contains(slices.Concat(o.Columns.Use, o.Columns.Drop, o.Categorical, o.Times.Columns()), string(o.Text)):
		wrong("text", o.Text, "another column than those under examples.columns, examples.categorical and examples.times")
	}
	if n, isNumber := o.Text.Number(); isNumber && n < 0 {
		wrong("text", o.Text, "a column's number, from 0, or its name")
	}
	return problems
}

// readsText returns a *input.Error if the options name a text column and the format does not support one.
func (o Options) readsText(f format.Format, file string) error {
	if o.Text == "" || slices.Contains(f.Keys, "text") {
		return nil
	}
	var names []string
	for _, other := range formats() {
		if slices.Contains(other.Keys, "text") {
			names = append(names, other.Name)
		}
	}
	why := "as examples.text is set"
	if o.Predicts() {
		why = "as the model was trained on texts"
	}
	return input.WholeFile(file, fmt.Errorf("format %s: expected %s, %s", f.Name, option.Enumerate(names, "or"), why))
}
