package statistics

import "github.com/stagewise/stagewise/schemas/wire"

// The rows of a [Sample] record of a stage are training rows that its trees are grown on: of each the codes of its c columns, its k
// residuals, and its weight.

// GrowthWidth returns how many values such a row has.
func GrowthWidth(columns, classes int) int { return columns + classes + 1 }

// growthPurpose tells the hashes of such rows from others of the same seed.
const growthPurpose = 0x67726f77

// GrowthHash returns the hash of a row, given its place: the rows with the smallest hashes are the sample.
func GrowthHash(seed uint64, stage, partition int, offset int64, row int) uint64 {
	return wire.Hash(seed, growthPurpose, uint64(stage), uint64(partition), uint64(offset), uint64(row))
}
