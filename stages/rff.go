package stages

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/option"
)

// RFF is the kind of random Fourier features (Rahimi and Recht 2007): feature j is √(2/p)·cos(w·x + b), with w from
// N(0, 2/s·I) and b uniform on (0, 2π). Inner products of two rows' features approximate the kernel exp(−‖x−x'‖²/s), where s
// is the median squared distance between rows times bandwidth_scale.
const RFF = "rff"

func rff() Kind {
	return Kind{
		name:     RFF,
		Scaled:   true,
		meaning:  "random Fourier features",
		keys:     []option.Key{bandwidthScale(gaussianBandwidth)},
		Suits:    []Examples{Vectors},
		Opens:    true,
		minSize:  1,
		describe: describeBandwidth,
		draw: func(m *Map) drawn {
			w := m.project(m.stream(drawDirections), nil)
			copy(w.offsets, m.phases())
			scale := m.waveScale()
			return drawn{
				expand: func(blas *kernel.BLAS, dst kernel.Dense, _ *kernel.Dense, x kernel.Dense) {
					blas.Mul(dst, x, w.directions, false)
					kernel.Cosine(dst, w.offsets, scale)
				},
				node:   func(g *onnx.Graph, x onnx.Value) onnx.Value { return w.addWaves(g, x, m.size, scale) },
				slopes: w.waveSlopes(scale),
			}
		},
	}
}

// gaussianBandwidth is the meaning of bandwidth_scale for kinds that approximate the Gaussian kernel.
const gaussianBandwidth = "the kernel is exp(-‖x-x'‖²/s), s = median squared distance × this"

// phases draws the p offsets of cosines, uniform on (0, 2π).
func (m *Map) phases() []float32 {
	phases, s := make([]float32, m.size), m.stream(drawOffsets)
	for j := range phases {
		phases[j] = float32(2 * math.Pi * s.Uniform(uint64(j)))
	}
	return phases
}

// waveScale is the amplitude √(2/p) of p cosines, which makes their inner products a mean over the draws.
func (m *Map) waveScale() float32 { return float32(math.Sqrt(2 / float64(m.size))) }

// addWaves adds the first n cosines of the functions, with the given amplitude, to a graph.
func (p projection) addWaves(g *onnx.Graph, x onnx.Value, n int, amplitude float32) onnx.Value {
	return g.Node("Mul", g.Node("Cos", p.add(g, x, n)), g.Number(amplitude))
}
