package statistics

import "github.com/stagewise/stagewise/schemas/wire"

// KindRows is the kind of a [Visit] record with the rows of an update instead of their sums. It is as confidential as the examples.
const KindRows wire.Kind = "rows"

// Names of the tensors of a record of the kind rows, which has the rows of a partition or of merged partitions: ordered by the partitions
// of the plan, their segments, and the rows in them. Rows without a label or without a weight have no values.
const (
	FieldRowBatches = "row_batches" // [b, 3], each message: partition, segment number in the partition, number of rows
	FieldRowFacts   = "row_facts"   // [n, 5], each row: number of nonzero values, class, weight, weight if it is fitted, split
	FieldRowValues  = "row_values"  // [z, 2], each nonzero value: column of the block, ascending within a row, and the value
	FieldRowScores  = "row_scores"  // [n, k], stages after the first: scores before the stage
	FieldRowTargets = "row_targets" // [n, k], multi-label: 1 for each label of the row
)

// FieldSizes is the name of a sum in the survey of an update that may send rows: [2], the number of nonzero values of training rows and the
// number of columns that have any, both summed over segments.
const FieldSizes = "sizes"

// OfRows reports whether a field has rows, not a sum. Merging appends them to the rows of earlier partitions.
func OfRows(name string) bool {
	switch name {
	case FieldRowBatches, FieldRowFacts, FieldRowValues, FieldRowScores, FieldRowTargets,
		FieldGramBatches, FieldGramBlock, FieldLeaveBatches, FieldLeaveBlock:
		return true
	}
	return false
}
