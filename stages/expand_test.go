package stages

import (
	"fmt"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// BenchmarkExpand makes blocks of 1024 features of tiles of 64 rows, as a worker does.
func BenchmarkExpand(b *testing.B) {
	blas, err := kernel.Open("")
	if err != nil {
		b.Fatal(err)
	}
	for _, inputs := range []int{50, 784} {
		for _, kind := range []string{RFF, SORF} {
			b.Run(fmt.Sprint(kind, "/", inputs), func(b *testing.B) {
				m, err := NewMap(schemas.Features{Kind: kind, Size: 1024, BandwidthScale: 2}, seed, 0, plain(inputs, float64(2*inputs)), 0, false)
				if err != nil {
					b.Fatal(err)
				}
				var block, scratch kernel.Dense
				x := normals(64, inputs, 1)
				m.Expand(blas, &block, &scratch, x, kernel.Dense{})
				for b.Loop() {
					m.Expand(blas, &block, &scratch, x, kernel.Dense{})
				}
			})
		}
	}
}
