package examples

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/value"
)

// Classes of rows that are of no class. All of them are negative.
const (
	Unlabelled = -1 // a row without a label
	Unknown    = -2 // a row with a label that is not a class
)

// ErrLabelLists is the error of a message whose rows have lists of labels.
var ErrLabelLists = errors.New("a list of labels for each example: expected one label, or examples.labels: several")

// UnknownLabel returns the error of a label that is not in the frozen set of classes. It wraps [wire.ErrDamaged].
func UnknownLabel(row int, label string) error {
	return &ValueError{row, -1, fmt.Sprintf("label %q is not one of the classes", label)}
}

// setLabels keeps the column of labels, or of lists of labels.
func (e *Batch) setLabels(column arrow.Array) error {
	items := column
	if lists := arrowvalue.Of(column); lists.Type == arrowvalue.List {
		e.sets, items = lists, lists.Items().Column
	}
	labels, ok := valuesOf(items)
	if !ok {
		return fmt.Errorf("type %v, expected text, numbers or booleans, or a list of them", column.DataType())
	}
	e.labels = labels
	return nil
}

// checkLabels checks the labels of all rows.
func (e *Batch) checkLabels() error {
	if e.labels.Values == nil || e.sets == nil && e.labels.Type != arrowvalue.Text {
		return nil
	}
	for row := range e.Rows {
		if e.sets == nil && e.labels.Null(row) || e.sets != nil && e.sets.Null(row) {
			continue
		}
		from, to := e.labelsOf(row)
		for i := from; i < to; i++ {
			err := e.checkLabel(i)
			if err != nil && e.sets != nil {
				err = fmt.Errorf("label %d of the list: %w", i-from, err)
			}
			if err != nil {
				return &ValueError{row, -1, err.Error()}
			}
		}
	}
	return nil
}

// checkLabel returns an error if an entry of the column of labels, or of its lists, is not a valid label.
func (e *Batch) checkLabel(i int) error {
	switch {
	case e.labels.isNull(i):
		return errors.New("null: expected a label; a row without labels has an empty list")
	case e.labels.Type != arrowvalue.Text:
		return nil
	}
	switch label := e.labels.Text(i); {
	case e.sets != nil && strings.TrimSpace(label) == "":
		return errors.New("empty: expected a label; a row without labels has an empty list")
	case len(label) > MaxLabel || !utf8.ValidString(label):
		return fmt.Errorf("label of %d bytes: expected at most %d of UTF-8", len(label), MaxLabel)
	}
	return nil
}

// HasLists reports whether each row has a list of labels.
func (e *Batch) HasLists() bool { return e.sets != nil }

// MissLabels sets words that mean no label: a row with one of them has no label, like a row with null or empty text. It returns e.
func (e *Batch) MissLabels(words value.Missing) *Batch {
	e.missingLabels = words
	return e
}

// Unlabel removes the label and the targets of a row, so that it is not used for training.
func (e *Batch) Unlabel(row int) {
	if e.unlabelled == nil {
		e.unlabelled = map[int]bool{}
	}
	e.unlabelled[row] = true
}

// labelsOf returns the range of a row's labels among those of all rows.
func (e *Batch) labelsOf(row int) (from, to int) {
	if e.sets == nil {
		return row, row + 1
	}
	return e.sets.Range(row)
}

// isMissing reports whether an entry of the column of labels, or of its lists, means no label.
func (e *Batch) isMissing(i int) bool {
	return e.labels.Values == nil || e.labels.isNull(i) ||
		(e.labels.Type != arrowvalue.Whole || e.missingLabels.HasNumbers()) && e.missingLabels.Has(e.labels.Text(i))
}

// hasLabel reports whether a row has a label, or a list of labels in which not all are missing.
func (e *Batch) hasLabel(row int) bool {
	if e.sets != nil && e.sets.Null(row) {
		return false
	}
	from, to := e.labelsOf(row)
	for i := from; i < to; i++ {
		if !e.isMissing(i) {
			return true
		}
	}
	return from == to // an empty list states that there are none
}

// Labelled reports whether a row has a label. A forgotten row has none.
func (e *Batch) Labelled(row int) bool {
	return !e.forgot(row) && !e.unlabelled[row] && e.hasLabel(row)
}

// WithoutLabel returns the number of rows without a label, excluding forgotten rows and those of [Batch.Unlabel].
func (e *Batch) WithoutLabel() (rows int64) {
	for row := range e.Rows {
		if !e.forgot(row) && !e.unlabelled[row] && !e.hasLabel(row) {
			rows++
		}
	}
	return rows
}

// Label returns the label of a labelled row as text, which stays valid after Release. Label panics without a label
// column. It must not be used for messages with lists of labels.
func (e *Batch) Label(row int) string { return e.labels.label(row) }

// Labels yields the labels of a labelled row as text, which stays valid after Release. A row of a message without lists has one.
func (e *Batch) Labels(row int) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, to := e.labelsOf(row)
		for i := from; i < to; i++ {
			if !e.isMissing(i) && !yield(e.labels.label(i)) {
				return
			}
		}
	}
}

// Classes writes the class of each row into dst, or [Unlabelled] for a row without a label. It calls unknown for a label that l
// does not have: the row is then [Unknown], unless unknown returns an error, such as [UnknownLabel], which Classes returns. dst has an
// element for each row.
func (e *Batch) Classes(dst []int32, l *Labels, unknown func(row int, label string) error) error {
	for row := range e.Rows {
		if !e.Labelled(row) {
			dst[row] = Unlabelled
			continue
		}
		class, ok := int32(0), false
		if !e.labels.isWhole() {
			class, ok = l.Find(e.labels.Text(row))
		} else {
			number, _ := e.labels.Whole(row)
			class, ok = l.numbers[number]
		}
		if dst[row] = class; ok {
			continue
		}
		dst[row] = Unknown
		if err := unknown(row, e.Label(row)); err != nil {
			return err
		}
	}
	return nil
}

// LabelSets writes 1 for each label of a row and 0 for the others into dst (Rows × k, row-major), and 0 or [Unlabelled]
// into classes, which has an element for each row. It calls unknown for a label that l does not have: the row is then
// [Unlabelled], unless unknown returns an error, which LabelSets returns.
func (e *Batch) LabelSets(dst []float32, classes []int32, l *Labels, unknown func(row int, label string) error) error {
	clear(dst)
	k := l.Len()
	for row := range e.Rows {
		if classes[row] = Unlabelled; !e.Labelled(row) {
			continue
		}
		classes[row] = 0
		for label := range e.Labels(row) {
			class, ok := l.Find(label)
			if !ok {
				if err := unknown(row, label); err != nil {
					return err
				}
				classes[row] = Unlabelled
				continue
			}
			dst[row*k+int(class)] = 1
		}
	}
	return nil
}
