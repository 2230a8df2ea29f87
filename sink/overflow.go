package sink

import "github.com/stagewise/stagewise/internal/kernel"

// maxScore bounds the length of a row of scores: the cubes that a calibration is fitted to fit float32, and squares
// have room for the sum over rows.
const maxScore = 1 << 40

// TakeBack makes the scores (n × k) of rows that overflow those before the stage (n × k), as if the stage had added
// nothing, and returns these rows.
func TakeBack(scores, before kernel.Dense) (overflowed []int) {
	for i := range scores.Rows {
		if row := scores.Row(i); len(row) > 0 && !(kernel.SquaredLength(row) <= maxScore*maxScore) {
			copy(row, before.Row(i))
			overflowed = append(overflowed, i)
		}
	}
	return overflowed
}
