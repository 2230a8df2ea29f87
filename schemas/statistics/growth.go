package statistics

import "github.com/stagewise/stagewise/schemas/wire"

// The rows of a [Sample] record of a stage are the training rows that its trees are grown on. Each has the codes of its c columns, its k
// residuals, and its weight.

// GrowthWidth returns the number of values of such a row.
func GrowthWidth(columns, classes int) int { return columns + classes + 1 }

// growthPurpose separates the hashes of such rows from others with the same seed.
const growthPurpose = 0x67726f77

// GrowthHash returns the hash of a row, given its position: the rows with the smallest hashes are the sample.
func GrowthHash(seed uint64, stage, partition int, offset int64, row int) uint64 {
	return wire.Hash(seed, growthPurpose, uint64(stage), uint64(partition), uint64(offset), uint64(row))
}
