package stages

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// A projection is p random affine functions of the inputs. It has zero columns for the previous predictions and the
// intercept, so that one matrix product fills a whole block.
type projection struct {
	directions kernel.Dense // m × Size
	offsets    []float32    // Size
}

// projectionBandwidth is the meaning of bandwidth_scale for kinds that use projections but approximate no kernel: the
// median squared distance is about twice the variance of the rows, and w has variance 2/s.
const projectionBandwidth = "the variance of a projection over the rows is about 1 / this"

// project draws directions; the offsets are zero. Component i of direction j is draw j·m + i, so that a larger block of the
// same seed begins with the features of a smaller one. Function j is the constant 1 if one is not nil and one(j) is true.
func (m *Map) project(s Stream, one func(j int) bool) projection {
	directions, offsets := kernel.NewDense(m.inputs, m.Size()), make([]float32, m.Size())
	for j := range m.size {
		if one != nil && one(j) {
			offsets[j] = 1
			continue
		}
		for i := range m.inputs {
			directions.Data[i*directions.Cols+j] = float32(m.deviation * s.Normal(uint64(j*m.inputs+i)))
		}
	}
	return projection{directions, offsets}
}

// apply computes dst = x·directions + offsets: x is n × m, dst n × Size.
func (p projection) apply(blas *kernel.BLAS, dst, x kernel.Dense) {
	blas.Mul(dst, x, p.directions, false)
	kernel.AddRow(dst, p.offsets)
}

// add adds the first n functions of the inputs x to a graph.
func (p projection) add(g *onnx.Graph, x onnx.Value, n int) onnx.Value {
	directions := kernel.NewDense(p.directions.Rows, n)
	for i := range directions.Rows {
		copy(directions.Row(i), p.directions.Row(i))
	}
	return g.Node("Add", g.Node("MatMul", x, g.Floats(directions.Data, directions.Rows, n)), g.Row(p.offsets[:n]))
}

// Sloped reports whether features have slopes, so that [Map.AddSlopes] can be called.
func (m *Map) Sloped() bool { return m.draw().slopes != nil }

// AddSlopes adds to dst (m × k) the mean gradient of block·w on the straight path from the inputs 0, the mean of dense
// rows, to x (m). w is Size × k. So x·dst is the increase of the score on that path: integrated gradients
// (Sundararajan, Taly and Yan 2017), without quadrature error. It panics for features without slopes.
func (m *Map) AddSlopes(blas *kernel.BLAS, dst kernel.Dense, x []float32, w kernel.Dense) {
	if !m.Sloped() || m.scores > 0 || len(x) != m.inputs || dst.Rows != m.inputs || w.Rows != m.Size() {
		panic(fmt.Sprintf("stages: slopes of %s at %d inputs with %d weights", m.features.Kind, len(x), w.Rows))
	}
	m.draw().slopes(blas, dst, x, w)
}

// slopes adds to dst (m × k) the mean gradient of a block times w on the path from 0 to x.
type slopes func(blas *kernel.BLAS, dst kernel.Dense, x []float32, w kernel.Dense)

// slopesOf returns the slopes of f applied to the functions, given f and its derivative. The mean of the derivative
// between two values is the difference of f divided by the difference of the values.
func (p projection) slopesOf(f, derivative func(float64) float64) slopes {
	return func(blas *kernel.BLAS, dst kernel.Dense, x []float32, w kernel.Dense) {
		p.addSlopes(blas, dst, w, p.rises(blas, x), func(j int, rise float64) float64 {
			at := float64(p.offsets[j])
			if math.Abs(rise) < 1e-6 { // the difference has few digits
				return derivative(at + rise/2)
			}
			return (f(at+rise) - f(at)) / rise
		})
	}
}

// rises returns the increase of each function from the inputs 0 to x.
func (p projection) rises(blas *kernel.BLAS, x []float32) []float32 {
	rises := kernel.NewDense(1, p.directions.Cols)
	blas.Mul(rises, kernel.Dense{Rows: 1, Cols: len(x), Data: x}, p.directions, false)
	return rises.Data
}

// addSlopes adds directions · diag(slope) · w.
func (p projection) addSlopes(blas *kernel.BLAS, dst, w kernel.Dense, rises []float32, slope func(j int, rise float64) float64) {
	sloped := kernel.NewDense(w.Rows, w.Cols)
	for j, rise := range rises {
		s := slope(j, float64(rise))
		for out, v := range w.Row(j) {
			sloped.Row(j)[out] = float32(s * float64(v))
		}
	}
	blas.Mul(dst, p.directions, sloped, true)
}

// waveSlopes returns the slopes of cosines with the given amplitude.
func (p projection) waveSlopes(amplitude float32) slopes {
	a := float64(amplitude)
	return p.slopesOf(func(v float64) float64 { return a * math.Cos(v) }, func(v float64) float64 { return -a * math.Sin(v) })
}

// productSlopes returns the slopes of products of functions, which are polynomials along the path: the quadrature is exact.
func productSlopes(factors []projection) slopes {
	at, weights := make([]float64, (len(factors)+1)/2), make([]float64, (len(factors)+1)/2)
	quad.Legendre{}.FixedLocations(at, weights, 0, 1)
	return func(blas *kernel.BLAS, dst kernel.Dense, x []float32, w kernel.Dense) {
		rises := make([][]float32, len(factors))
		for l, f := range factors {
			rises[l] = f.rises(blas, x)
		}
		for l, f := range factors {
			f.addSlopes(blas, dst, w, rises[l], func(j int, _ float64) (mean float64) {
				for q, t := range at {
					product := weights[q]
					for other, f := range factors {
						if other != l {
							product *= float64(f.offsets[j]) + t*float64(rises[other][j])
						}
					}
					mean += product
				}
				return mean
			})
		}
	}
}
