package examples

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas/value"
)

// Classes of rows without a class. All of them are negative.
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

// HasLists reports whether each row has a list of labels.
func (r *Rows) HasLists() bool { return r.LabelLists != nil }

// MissLabels sets words that mean no label: a row with one of them has no label, like a row with null or empty text. It returns r.
func (r *Rows) MissLabels(words value.Missing) *Rows {
	for row, labels := range r.LabelLists {
		if known := slices.DeleteFunc(labels, words.Has); len(known) > 0 || len(labels) == 0 {
			r.LabelLists[row] = known
		} else {
			r.LabelLists[row] = nil
		}
	}
	for row := range r.NoLabel {
		if !r.NoLabel[row] && (r.Words != nil || words.HasNumbers()) {
			r.NoLabel[row] = words.Has(r.LabelText(row))
		}
	}
	return r
}

// Unlabel removes the label and the targets of a row, so that it is not used for training.
func (r *Rows) Unlabel(row int) {
	if r.unlabelled == nil {
		r.unlabelled = make([]bool, r.Rows)
	}
	r.unlabelled[row] = true
}

// left reports whether a row is forgotten, or its label was removed.
func (r *Rows) left(row int) bool {
	return r.forgotten != nil && r.forgotten[row] || r.unlabelled != nil && r.unlabelled[row]
}

// hasLabel reports whether a row has a label, or a list of labels, which may be empty.
func (r *Rows) hasLabel(row int) bool {
	if len(r.LabelLists) > 0 {
		return r.LabelLists[row] != nil
	}
	return len(r.Words)+len(r.Numbers) > 0 && (len(r.NoLabel) == 0 || !r.NoLabel[row])
}

// Labelled reports whether a row has a label. A forgotten row has none.
func (r *Rows) Labelled(row int) bool { return !r.left(row) && r.hasLabel(row) }

// WithoutLabel returns the number of rows without a label, excluding forgotten rows and those of [Rows.Unlabel].
func (r *Rows) WithoutLabel() (rows int64) {
	for row := range r.Rows {
		if !r.left(row) && !r.hasLabel(row) {
			rows++
		}
	}
	return rows
}

// LabelText returns the label of a row as it is written; "": it has none. The rows are not multi-label.
func (r *Rows) LabelText(row int) string {
	switch {
	case len(r.NoLabel) > 0 && r.NoLabel[row]:
	case len(r.Words) > 0:
		return r.Words[row]
	case len(r.Numbers) > 0:
		return strconv.FormatInt(r.Numbers[row], 10)
	}
	return ""
}

// Label returns the label of a labelled row. The rows are not multi-label.
func (r *Rows) Label(row int) string { return value.Label(r.LabelText(row)) }

// Labels yields the labels of a labelled row: a single one, unless the rows have lists.
func (r *Rows) Labels(row int) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(r.LabelLists) == 0 {
			yield(r.Label(row))
			return
		}
		for _, label := range r.LabelLists[row] {
			if !yield(value.Label(label)) {
				return
			}
		}
	}
}

// Classes writes the class of each row into dst, or [Unlabelled] for a row without a label. It calls unknown for a label that l
// does not have: the row is then [Unknown], unless unknown returns an error, such as [UnknownLabel], which Classes returns. dst has an
// element for each row.
func (r *Rows) Classes(dst []int32, l *Labels, unknown func(row int, label string) error) error {
	for row := range r.Rows {
		if !r.Labelled(row) {
			dst[row] = Unlabelled
			continue
		}
		class, ok := int32(0), false
		if len(r.Numbers) > 0 {
			class, ok = l.numbers[r.Numbers[row]]
		} else {
			class, ok = l.Find(r.Words[row])
		}
		if dst[row] = class; ok {
			continue
		}
		dst[row] = Unknown
		if err := unknown(row, r.Label(row)); err != nil {
			return err
		}
	}
	return nil
}

// LabelSets writes 1 for each label of a row and 0 for the others into dst (Rows × k, row-major), and 0 or [Unlabelled]
// into classes, which has an element for each row. It calls unknown for a label that l does not have: the row is then
// [Unlabelled], unless unknown returns an error, which LabelSets returns.
func (r *Rows) LabelSets(dst []float32, classes []int32, l *Labels, unknown func(row int, label string) error) error {
	clear(dst)
	k := l.Len()
	for row := range r.Rows {
		if classes[row] = Unlabelled; !r.Labelled(row) {
			continue
		}
		classes[row] = 0
		for label := range r.Labels(row) {
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
