package schemas

import "strconv"

// KindGram is the kind of a [Gram].
const KindGram Kind = "gram"

// Gram is the Gram matrix of one partition's span, a record of its own: it is
// sent while the rest of the visit is still summed.
type Gram struct {
	Identity
	Matrix []float64 // p(p+1)/2: the lower triangle, row by row; nil: no rows
	// Weight is Σw of the rows behind the matrix. The survey's and a calibration's
	// records have none, as their visit says it.
	Weight float64
}

// noteWeight of a block's Gram matrix is Σw of the rows behind it.
const noteWeight = "weight"

func (g *Gram) tensors() Tensors[float64] {
	if g.Matrix == nil {
		return Tensors[float64]{}
	}
	return Tensors[float64]{Vector(FieldGram, g.Matrix)}
}

// BlockRecord encodes the Gram matrix of a block in single precision, with its
// weight. Its tiles were summed in single precision. Measured on MNIST, identity,
// 10 × 1024, ridge 1e-5, predictions move by 1e-6 (RMS).
func (g *Gram) BlockRecord() *Record[float32] {
	return &Record[float32]{
		Identity: g.Identity, Notes: []Header{{noteWeight, strconv.FormatFloat(g.Weight, 'g', -1, 64)}}, Tensors: narrow(g.tensors()),
	}
}

// ExactRecord encodes the Gram matrix of the survey or of a calibration, which
// may be nearly singular, in double precision and without a weight.
func (g *Gram) ExactRecord() *Record[float64] {
	return &Record[float64]{Identity: g.Identity, Tensors: g.tensors()}
}

// BlockGramOf decodes the Gram matrix of a block into memory that get returns, of
// so many values. Errors wrap ErrDamaged.
func BlockGramOf(r *Record[float32], get func(size int) []float64) (*Gram, error) {
	weight, err := strconv.ParseFloat(r.Note(noteWeight), 64)
	if err != nil {
		return nil, r.damaged(err)
	}
	g := &Gram{Identity: r.Identity, Weight: weight}
	if matrix, ok := r.Tensors.Find(FieldGram); ok {
		g.Matrix = get(len(matrix.Data))
		for i, v := range matrix.Data {
			g.Matrix[i] = float64(v)
		}
	}
	return g, nil
}

// ExactGramOf decodes the Gram matrix of the survey or of a calibration.
func ExactGramOf(r *Record[float64]) *Gram {
	matrix, _ := r.Tensors.Find(FieldGram)
	return &Gram{Identity: r.Identity, Matrix: matrix.Data}
}

func narrow(t Tensors[float64]) Tensors[float32] {
	single := make(Tensors[float32], len(t))
	for i, tensor := range t {
		single[i] = Tensor[float32]{Name: tensor.Name, Shape: tensor.Shape, Data: make([]float32, len(tensor.Data))}
		for j, v := range tensor.Data {
			single[i].Data[j] = float32(v)
		}
	}
	return single
}

func gramLayout() Layout {
	return Layout{
		Kind: KindGram, Topic: "statistics", Writer: "worker", Reader: "solver",
		Tensors: []Part{{FieldGram, "[p(p+1)/2]: Σ w x xᵀ, its lower triangle row by row, or none if there are no rows; float32 for a block, float64 for the survey and a calibration"}},
		Notes:   []Part{{noteWeight, "block: Σw of the rows behind it"}},
	}
}
