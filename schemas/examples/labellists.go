package examples

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/schemas/arrowvalue"
)

// LabelListError is the error of a message whose rows have lists of labels.
type LabelListError struct{}

// Error implements error.
func (LabelListError) Error() string {
	return "a list of labels for each example: expected one label, or examples.labels: several"
}

// appendLists appends the labels of all rows.
func (r *Rows) appendLists(b array.Builder) {
	lists := b.(*array.ListBuilder)
	for _, labels := range r.LabelLists {
		if lists.Append(labels != nil); labels != nil {
			lists.ValueBuilder().(*array.StringBuilder).AppendValues(labels, nil)
		}
	}
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

// checkLists checks the labels of rows that have lists of them.
func (e *Batch) checkLists() error {
	if e.sets == nil {
		return nil
	}
	for row := range e.Rows {
		if e.sets.Null(row) {
			continue
		}
		from, to := e.sets.Range(row)
		for i := from; i < to; i++ {
			if err := e.labels.check(i); err != nil {
				return &ValueError{row, -1, fmt.Sprintf("label %d of the list: %v", i-from, err)}
			}
		}
	}
	return nil
}

// check returns an error if a value of a list is not a valid label.
func (v *values) check(i int) error {
	switch {
	case v.isNull(i):
		return errors.New("null: expected a label; a row without labels has an empty list")
	case v.Type != arrowvalue.Text:
		return nil
	}
	switch label := v.Text(i); {
	case strings.TrimSpace(label) == "":
		return errors.New("empty: expected a label; a row without labels has an empty list")
	case len(label) > MaxLabel || !utf8.ValidString(label):
		return fmt.Errorf("%d bytes: expected at most %d of UTF-8", len(label), MaxLabel)
	}
	return nil
}

// HasLists reports whether each row has a list of labels.
func (e *Batch) HasLists() bool { return e.sets != nil }

// Labels yields the labels of a labelled row as text, which stays valid after Release. A row of a message without lists has one.
func (e *Batch) Labels(row int) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, to := e.labelsOf(row)
		for i := from; i < to; i++ {
			if !e.isMissing(i) && !yield(e.label(i)) {
				return
			}
		}
	}
}

// labelsOf returns the range of a row's labels among those of all rows.
func (e *Batch) labelsOf(row int) (from, to int) {
	if e.sets == nil {
		return row, row + 1
	}
	begin, end := e.sets.Range(row)
	return begin, end
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
			class, ok := l.find(label)
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
