package stages

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
)

// Logits is the kind of sigmoids of random projections: feature j is 1/(1 + exp(−w·x − b)), with w from N(0, 2/s·I) for the s
// of [RFF], and b standard normal.
const Logits = "logits"

func logits() Kind {
	return Kind{
		name:     Logits,
		Scaled:   true,
		meaning:  "sigmoids of random projections",
		keys:     []option.Key{bandwidthScale(projectionBandwidth)},
		minSize:  1,
		describe: func(f schemas.Features) string { return fmt.Sprintf("%d %s", f.Size, f.Kind) },
		draw: func(m *Map) drawn {
			w, offsets := m.project(m.stream(drawDirections), nil), m.stream(drawOffsets)
			for j := range m.size {
				w.offsets[j] = float32(offsets.Normal(uint64(j)))
			}
			return drawn{
				expand: func(blas *kernel.BLAS, dst kernel.Dense, _ *kernel.Dense, x kernel.Dense) {
					w.apply(blas, dst, x)
					kernel.Sigmoid(dst.Data)
				},
				node: func(g *onnx.Graph, x onnx.Value) onnx.Value { return g.Node("Sigmoid", w.add(g, x, m.size)) },
				slopes: w.slopesOf(func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }, func(v float64) float64 {
					s := 1 / (1 + math.Exp(-v))
					return s * (1 - s)
				}),
			}
		},
	}
}
