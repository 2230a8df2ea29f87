package statistics

import "github.com/stagewise/stagewise/schemas/wire"

// KindRows is the kind of a [Visit] record that has the rows of an update in place of their sums. It is as confidential as the examples.
const KindRows wire.Kind = "rows"

// Names of what a record of the kind rows has of the rows of a partition, or of merged partitions: in the order of the partitions of the
// plan, of their segments, and of the rows in them. Rows without a label or without a weight have no values.
const (
	FieldRowBatches = "row_batches" // [b, 3], of each message: its partition, the number of its segment there, and how many rows it has
	FieldRowFacts   = "row_facts"   // [n, 5], of each row: its values that are not 0, class, weight, weight if it is fitted, split
	FieldRowValues  = "row_values"  // [z, 2], of the values that are not 0: the column of the block, ascending in each row, and the value
	FieldRowScores  = "row_scores"  // [n, k], of stages after the first: the scores before the stage
	FieldRowTargets = "row_targets" // [n, k], several labels: 1 for each label of the row
)

// FieldSizes is the name of a sum of the survey of an update that may send rows: [2], over segments, how many values of training rows are
// not 0, and in how many columns they are.
const FieldSizes = "sizes"

// OfRows reports whether a field has rows, which follow those of the partitions before them: it is no sum.
func OfRows(name string) bool {
	switch name {
	case FieldRowBatches, FieldRowFacts, FieldRowValues, FieldRowScores, FieldRowTargets:
		return true
	}
	return false
}
