package solve

// MethodPaper is Algorithm 1 with its fixed step.
const MethodPaper = "paper"

func paperMethod() method {
	return method{
		name:      MethodPaper,
		doc:       "Algorithm 1 with its fixed step",
		wholeGram: true,
		start:     func(Shape) descent { return &paper{size: 1} },
	}
}

// paper makes the paper's step, Algorithm 1 line 4:
//
//	W ← W − (L·S+λI)⁻¹ ∇J(W)
//
// Each trial that raises J halves the step permanently. Only rounding, or the Gram matrix of a sample, can make a trial
// raise J.
type paper struct{ size float64 }

func (p *paper) accept(_, at *point) []float64 { return scaled(p.size, at.preconditioned) }

func (p *paper) reject(at *point) (size float64, step []float64) {
	if p.size /= 2; p.size < minStep {
		return 0, nil
	}
	return p.size, at.preconditioned
}

func (p *paper) sufficient(*point, float64) bool { return true }
