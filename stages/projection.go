package stages

import (
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
