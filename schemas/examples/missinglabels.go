package examples

import (
	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/value"
)

// MissLabels sets words that mean no label: a row with one of them has no label, like a row with null or empty text. It returns e.
func (e *Batch) MissLabels(words value.Missing) *Batch {
	e.missingLabels = words
	return e
}

// isMissing reports whether an entry of the column of labels, or of its lists, means no label.
func (e *Batch) isMissing(i int) bool {
	switch {
	case e.labels.Values == nil || e.labels.isNull(i):
		return true
	case e.labels.Type != arrowvalue.Whole:
		return e.missingLabels.Has(e.labels.Text(i))
	}
	return e.missingLabels.HasNumbers() && e.missingLabels.Has(e.labels.Text(i))
}

// label returns an entry of the column of labels, or of its lists. It does not share memory with e.
func (e *Batch) label(i int) string {
	return e.labels.label(i)
}

// hasLabel reports whether a row has a label, or a list of labels in which not all are missing.
func (e *Batch) hasLabel(row int) bool {
	if e.sets == nil {
		return !e.isMissing(row)
	}
	if e.sets.Null(row) {
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
