package schemas

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// LabelListError says that each row of a message has a list of labels.
type LabelListError struct{}

// Error implements error.
func (LabelListError) Error() string {
	return "a list of labels for each example: expected one label; examples.labels: several takes lists"
}

// appendLists appends the labels of all rows.
func (r *ExampleRows) appendLists(lists *array.ListBuilder) {
	for _, labels := range r.LabelLists {
		if lists.Append(labels != nil); labels != nil {
			lists.ValueBuilder().(*array.StringBuilder).AppendValues(labels, nil)
		}
	}
}

// takeLabels keeps the column of labels, or of lists of labels.
func (e *Examples) takeLabels(column arrow.Array) error {
	items := column
	if lists, ok := column.(array.ListLike); ok {
		e.sets, items = lists, lists.ListValues()
	}
	labels, ok := valuesOf(items)
	if !ok {
		return fmt.Errorf("type %v, expected text or a whole number that int64 holds, or a list of them", column.DataType())
	}
	e.labels = labels
	return nil
}

// checkLists checks the labels of rows that have lists of them.
func (e *Examples) checkLists() error {
	if e.sets == nil {
		return nil
	}
	for row := range e.Rows {
		if e.sets.IsNull(row) {
			continue
		}
		from, to := e.sets.ValueOffsets(row)
		for i := int(from); i < int(to); i++ {
			if err := e.labels.check(i); err != nil {
				return &ValueError{row, -1, fmt.Sprintf("label %d of the list: %v", i-int(from), err)}
			}
		}
	}
	return nil
}

// check returns why a value is no label of a list.
func (v *values) check(i int) error {
	switch {
	case v.isNull(i):
		return errors.New("null: expected a label; a row without labels has an empty list")
	case v.words == nil:
		return nil
	}
	switch label := v.words(i); {
	case label == "":
		return errors.New("empty: expected a label; a row without labels has an empty list")
	case len(label) > MaxLabel || !utf8.ValidString(label):
		return fmt.Errorf("%d bytes: expected at most %d of UTF-8", len(label), MaxLabel)
	}
	return nil
}

// HasLists reports whether each row has a list of labels.
func (e *Examples) HasLists() bool { return e.sets != nil }

// Labels yields the labels of a labelled row as texts, which stay valid after Release. A row of a message without lists has one.
func (e *Examples) Labels(row int) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, to := int64(row), int64(row)+1
		if e.sets != nil {
			from, to = e.sets.ValueOffsets(row)
		}
		for i := int(from); i < int(to); i++ {
			label := ""
			if e.labels.words != nil {
				label = strings.Clone(e.labels.words(i))
			} else {
				label = strconv.FormatInt(e.labels.numbers(i), 10)
			}
			if !yield(label) {
				return
			}
		}
	}
}

// LabelSets writes 1 for each label of a row and 0 for the others into dst (Rows × k, row-major), and 0 or [Unlabelled] into classes, which has a
// place for each row. It calls unknown with a label that l does not have: the row is then [Unlabelled], unless unknown returns an error, which
// LabelSets returns.
func (e *Examples) LabelSets(dst []float32, classes []int32, l *Labels, unknown func(row int, label string) error) error {
	clear(dst)
	k := l.Len()
	for row := range e.Rows {
		if classes[row] = Unlabelled; !e.Labelled(row) {
			continue
		}
		classes[row] = 0
		for label := range e.Labels(row) {
			class, ok := l.words[label]
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
