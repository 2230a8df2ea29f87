package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

const (
	LabelsOne     = "one"                 // Options.Labels: an example has one label
	LabelsSeveral = schemas.LabelsSeveral // Options.Labels: an example has any number of labels
)

// DefaultSeveralHoldout is the fraction of the training rows that are held out if rows may have several labels and no key says another: thresholds
// and calibrations need rows that the weights have not seen.
const DefaultSeveralHoldout = 0.2

// PlanLabels returns the labels of a plan: nothing if a row has one.
func (o Options) PlanLabels() string {
	if o.several() {
		return LabelsSeveral
	}
	return ""
}

func (o Options) several() bool { return o.Labels == LabelsSeveral }

// checkLabels finds what is impossible with several labels, of examples in these files.
func (o Options) checkLabels(files []string) (problems []schemas.Problem) {
	wrong := func(key, value, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: value, Want: want})
	}
	if o.Labels != LabelsOne && o.Labels != "" && !o.several() {
		wrong("labels", quote(o.Labels), "one or several")
	}
	if !o.several() {
		if o.LabelSeparator != "" {
			wrong("label_separator", quote(o.LabelSeparator), "no separator, as examples.labels is one")
		}
		if len(o.LabelColumns) > 0 {
			wrong("label_columns", fmt.Sprint(o.LabelColumns), "no columns, as examples.labels is one")
		}
		return problems
	}
	for _, f := range o.formatsOf(files) {
		if len(files) > 0 && f.open != nil && !slices.Contains(f.keys, "label_separator") {
			wrong("labels", o.Labels, "one, as files of the format "+f.name+" have one label a row")
			break
		}
	}
	if len(o.Targets) > 0 {
		wrong("labels", o.Labels, "one beside examples.targets: a model predicts labels or numbers")
	}
	if !o.ClassWeight.IsZero() {
		wrong("class_weight", o.ClassWeight.String(), "none, as a row may have several labels")
	}
	if o.FromTopic != "" {
		wrong("labels", o.Labels, "one beside examples.from_topic: producers write lists of labels to the examples topic")
	}
	if len(o.LabelColumns) > 0 && (o.Label != "" || o.LabelSeparator != "") {
		wrong("label_columns", fmt.Sprint(o.LabelColumns), "no columns beside examples.label and examples.label_separator: the labels are in several columns or in one")
	}
	known := map[string]bool{}
	for _, c := range o.LabelColumns {
		n, isNumber := Column(c).number()
		switch {
		case c == "" || known[c] || isNumber && n < 0:
			wrong("label_columns", quote(c), "different columns, each by its number, from 0, or by its name")
		case Column(c) == o.Weight || slices.Contains(slices.Concat(o.Columns.Use, o.Columns.Drop, o.Categorical), c):
			wrong("label_columns", c, "other columns than those of the weight and the features")
		}
		known[c] = true
	}
	return problems
}

// assignLabelColumns gives the columns of labels their role.
func (l *layout) assignLabelColumns() error {
	for _, name := range l.options.LabelColumns {
		at, err := l.column(Column(name))
		if err != nil {
			return err
		}
		if l.cells[at].role == indicator {
			return l.locate(at, errors.New("this column twice under examples.label_columns"))
		}
		l.cells[at].role = indicator
		if l.indicated[at], err = l.word(l.nameOf(at)); err != nil {
			return l.locate(at, err)
		}
	}
	return nil
}

// split returns the labels of a text. An empty text has none.
func (l *layout) split(text string) ([]string, error) {
	labels := []string{}
	if text == "" {
		return labels, nil
	}
	fields := []string{}
	if separator := l.options.LabelSeparator; separator != "" {
		fields = strings.Split(text, separator)
	} else {
		rest := text
		for at := strings.IndexAny(rest, ",;|"); at >= 0; at = strings.IndexAny(rest, ",;|") {
			fields, rest = append(fields, rest[:at]), rest[at+1:]
		}
		fields = append(fields, rest)
	}
	for i, field := range fields {
		word, err := l.word(strings.TrimSpace(field))
		if err != nil {
			return nil, fmt.Errorf("label %d of %s: %w", i, quote(text), err)
		}
		labels = append(labels, word)
	}
	return labels, nil
}

// indicate returns whether a row has the label of a column, by a text of it.
func indicate(field string) (bool, error) {
	switch field {
	case "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fmt.Errorf("%s: expected 1 in the rows with the label, and 0 in the others", quote(field))
}
