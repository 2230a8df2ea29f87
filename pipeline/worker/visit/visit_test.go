package visit

import (
	"math"
	"testing"
)

// For any ratio, the sample has about that fraction of the messages of each partition and of all partitions together, and
// includes the first message of the plan.
func TestGramSample(t *testing.T) {
	for _, ratio := range []struct{ want, total int64 }{{1, 2}, {10_000, 60_000}, {59_999, 60_000}, {1, 60_000}, {7, 1 << 40},
		{1 << 39, 1 << 40}} {
		g := newGramSample(ratio.want, ratio.total)
		f := float64(ratio.want) / float64(ratio.total)
		if !g.has(0, 0) {
			t.Errorf("%v: not the first message", ratio)
		}
		for _, messages := range []int64{15, 1000} {
			total := 0
			const partitions = 200
			for n := range partitions {
				chosen := 0
				for ordinal := range messages {
					if g.has(n, ordinal) {
						chosen++
					}
				}
				if total += chosen; math.Abs(float64(chosen)-f*float64(messages)) > 1 {
					t.Errorf("%v: %d of %d messages of partition %d", ratio, chosen, messages, n)
				}
			}
			if want := f * partitions * float64(messages); math.Abs(float64(total)-want) > 2+0.05*want {
				t.Errorf("%v: %d messages of %d partitions of %d, expected %.0f", ratio, total, partitions, messages, want)
			}
		}
	}
}
