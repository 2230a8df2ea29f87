package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The conjunction equals that of Go's operator, word by word, and words past its end do not change.
func TestConjoin(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		words := make([]uint64, 1000)
		for i := range words {
			words[i] = r.Uint64() | r.Uint64() | r.Uint64()
		}
		for width := range 67 {
			for _, n := range []int{0, 1, 2, 3, 28} {
				offsets, want := make([]int, n), slices.Repeat([]uint64{^uint64(0)}, width+1)
				want[width] = 5
				for i := range offsets {
					offsets[i] = r.IntN(len(words) - width + 1)
					for j := range width {
						want[j] &= words[offsets[i]+j]
					}
				}
				got := make([]uint64, width+1)
				got[width] = 5
				if Conjoin(got[:width], words, offsets); !slices.Equal(got, want) {
					t.Errorf("%d rows of %d words: %x, expected %x", n, width, got, want)
				}
			}
		}
		for _, from := range []int{-1, 985} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("a row at %d is read", from)
					}
				}()
				Conjoin(make([]uint64, 16), words, []int{0, from})
			}()
		}
	})
}
