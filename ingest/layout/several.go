package layout

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/value"
)

const (
	LabelsOne     = "one"                 // Options.Labels: single-label
	LabelsSeveral = schemas.LabelsSeveral // Options.Labels: multi-label
)

// PlanLabels returns the labels of a plan: "" if single-label.
func (o Options) PlanLabels() string {
	if o.Several() {
		return LabelsSeveral
	}
	return ""
}

// Several reports whether examples are multi-label.
func (o Options) Several() bool { return o.Labels == LabelsSeveral }

// assignLabelColumns assigns the role of label columns.
func (l *Layout) assignLabelColumns() error {
	for _, name := range l.Options.LabelColumns {
		at, err := l.Column(Column(name))
		if err != nil {
			return err
		}
		if l.Cells[at].Role == Indicator {
			return l.Locate(at, errors.New("this column twice under examples.label_columns"))
		}
		l.Cells[at].Role = Indicator
		if l.Indicated[at], err = l.Listed(l.NameOf(at)); err != nil {
			return l.Locate(at, err)
		}
	}
	return nil
}

// Split splits a text into labels. An empty text has none; the labels of a missing-value text are unknown.
func (l *Layout) Split(text string) ([]string, error) {
	labels := []string{}
	switch {
	case text == "":
		return labels, nil
	case l.NoLabels.Has(text):
		return nil, nil
	}
	fields := []string{}
	if separator := l.Options.LabelSeparator; separator != "" {
		fields = strings.Split(text, separator)
	} else {
		rest := text
		for at := strings.IndexAny(rest, ",;|"); at >= 0; at = strings.IndexAny(rest, ",;|") {
			fields, rest = append(fields, rest[:at]), rest[at+1:]
		}
		fields = append(fields, rest)
	}
	for i, field := range fields {
		word, err := l.Listed(field)
		if err != nil {
			return nil, fmt.Errorf("label %d of %s: %w", i, value.Quote(text), err)
		}
		labels = append(labels, word)
	}
	return labels, nil
}

// ListOf returns the labels of a list; nil, meaning unknown labels, for nil.
func (l *Layout) ListOf(items []string) ([]string, error) {
	if items == nil {
		return nil, nil
	}
	labels := make([]string, 0, len(items))
	for i, item := range items {
		word, err := l.Listed(item)
		if err != nil {
			return nil, fmt.Errorf("label %d of the list: %w", i, err)
		}
		labels = append(labels, word)
	}
	return labels, nil
}

// Listed is Word for one of several labels, which must not be missing.
func (l *Layout) Listed(text string) (word string, err error) {
	if word, err = l.Word(text); err == nil && word == "" {
		err = fmt.Errorf("%s: expected a label", missingText(strings.TrimSpace(text)))
	}
	return word, err
}

// Indicate reports whether a row has the label of a column, from the text of its value.
func Indicate(field string) (bool, error) {
	switch v, err := value.Number(field); {
	case err != nil:
	case v == 0:
		return false, nil
	case v == 1:
		return true, nil
	}
	return false, fmt.Errorf("%s: expected 1 in the rows with the label, and 0 in the others", value.Quote(field))
}
