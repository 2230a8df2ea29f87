package layout

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// MissingLabels returns the texts for a missing label: the missing-value texts, except classes named in the options.
func (o Options) MissingLabels() value.Missing {
	return value.MissingOf(o.MissingValues).Without(o.Classes)
}

// MissingLabels is Options.MissingLabels for the examples of a run.
func MissingLabels(plan *schemas.Plan) value.Missing {
	o := Options{MissingValues: value.Usual(), Classes: plan.Classes}
	if plan.Input.MissingValues != nil {
		o.MissingValues = plan.Input.MissingValues
	}
	return o.MissingLabels()
}

// maxLabels is the maximum number of labels whose text is kept.
const maxLabels = 1 << 16

// KeepClasses makes the classes in the options the only labels whose text is kept.
func (l *Layout) KeepClasses() {
	clear(l.Labels)
	for _, class := range l.Options.Classes {
		l.Labels[class] = class
	}
	for _, class := range l.Options.Classes { // may be spelt differently in rows
		if _, taken := l.Labels[l.LabelOf(class)]; !taken {
			l.Labels[l.LabelOf(class)] = class
		}
	}
}

// Word checks a label and returns an interned string for it; "" if the text is not a label. The text itself may be a slice
// of the row, and would keep the whole row in memory.
func (l *Layout) Word(text string) (string, error) {
	if word, ok := l.Labels[text]; ok {
		return word, nil
	}
	label := l.LabelOf(text)
	word, known := l.Labels[label]
	if !known {
		switch {
		case l.NoLabels.Has(label):
			return "", nil
		case len(label) > examples.MaxLabel:
			return "", fmt.Errorf("label %s: expected at most %d bytes", value.Quote(label), examples.MaxLabel)
		case len(l.Options.Classes) > 0:
			return "", fmt.Errorf("label %s is not one of the classes", value.Quote(label))
		}
		if err := l.CheckText(label); err != nil {
			return "", fmt.Errorf("label %w", err)
		}
		word = strings.Clone(label)
	}
	if len(l.Labels) >= maxLabels {
		l.KeepClasses()
	}
	l.Labels[word] = word
	if len(text) <= examples.MaxLabel {
		l.Labels[strings.Clone(text)] = word
	}
	return word, nil
}

// CheckText returns an error unless a text is valid UTF-8.
func (l *Layout) CheckText(text string) error {
	if err := value.CheckText(text); err != nil {
		return l.Options.NotUTF8(err, l.Encoded)
	}
	return nil
}

// NotUTF8 adds advice to an error of invalid UTF-8. encoded reports whether the text is in the encoding of the options.
func (o Options) NotUTF8(err error, encoded bool) error {
	if encoded {
		return fmt.Errorf("%w: set %s, such as windows-1252, or convert the text", err, o.Key("encoding"))
	}
	return fmt.Errorf("%w: convert the text", err)
}

// noteLabel records whether the last of n rows has no label.
func noteLabel(b *examples.Rows, n int, none bool) {
	if none || len(b.NoLabel) > 0 {
		for len(b.NoLabel) < n-1 {
			b.NoLabel = append(b.NoLabel, false)
		}
		b.NoLabel = append(b.NoLabel, none)
	}
}

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

// split splits a text into labels. An empty text has none; those of a missing-value text are unknown: nil.
func (l *Layout) split(text string) []string {
	switch separator := l.Options.LabelSeparator; {
	case text == "":
		return []string{}
	case l.NoLabels.Has(text):
		return nil
	case separator != "":
		return strings.Split(text, separator)
	}
	return strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, ";", ","), "|", ","), ",")
}

// listed is Word for one of several labels, which must not be missing.
func (l *Layout) listed(text string) (word string, err error) {
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

// CheckTarget returns an error for an invalid target.
func CheckTarget(v float64) error {
	switch {
	case v != v:
		return errors.New("a missing value: expected a number to predict")
	case math.Abs(v) > math.MaxFloat32:
		return fmt.Errorf("%v: expected a finite number to predict, at most %.3g in size", v, math.MaxFloat32)
	}
	return nil
}
