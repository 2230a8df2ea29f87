package pipeline

import (
	"math"
	"testing"
)

// Whatever the ratio, the sample has about so many messages of each share of
// some length and of all shares together, and the first of the plan.
func TestGramSample(t *testing.T) {
	for _, ratio := range []struct{ most, of int64 }{{1, 2}, {10_000, 60_000}, {59_999, 60_000}, {1, 60_000}, {7, 1 << 40}, {1 << 39, 1 << 40}} {
		g := newGramSample(ratio.most, ratio.of)
		f := float64(ratio.most) / float64(ratio.of)
		if !g.has(0, 0) {
			t.Errorf("%v: not the first message", ratio)
		}
		for _, messages := range []int64{15, 1000} {
			total := 0
			const shares = 200
			for share := range shares {
				n := 0
				for ordinal := range messages {
					if g.has(share, ordinal) {
						n++
					}
				}
				if total += n; math.Abs(float64(n)-f*float64(messages)) > 1 {
					t.Errorf("%v: %d of %d messages of share %d", ratio, n, messages, share)
				}
			}
			if want := f * shares * float64(messages); math.Abs(float64(total)-want) > 2+0.05*want {
				t.Errorf("%v: %d messages of %d shares of %d, expected %.0f", ratio, total, shares, messages, want)
			}
		}
	}
}
