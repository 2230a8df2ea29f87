package solve

// fixed is the paper's step, Algorithm 1 line 4:
//
//	W ← W − (L·S+λI)⁻¹ ∇J(W)
//
// halved for good by each trial that raises J, which only a Gram matrix of a
// sample, or rounding, can bring about.
type fixed struct{ size float64 }

func (f *fixed) accept(_, at *point) []float64 { return scaled(f.size, at.natural) }

func (f *fixed) reject(at *point) []float64 {
	if f.size /= 2; f.size < smallest {
		return nil
	}
	return scaled(f.size, at.natural)
}

func (f *fixed) enough(*point, float64) bool { return true }
