package solve

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

const (
	// MethodPaper is Algorithm 1 with its fixed step.
	MethodPaper = "paper"
	// MethodAccelerated is the same with Nesterov's momentum.
	MethodAccelerated = "accelerated"
)

func paperMethod() method {
	return method{
		name:      MethodPaper,
		doc:       "Algorithm 1 with its fixed step",
		wholeGram: true,
		start:     func(Shape) descent { return &accelerated{fixed: true} },
	}
}

func acceleratedMethod() method {
	return method{
		name:      MethodAccelerated,
		doc:       "the same with Nesterov's momentum",
		wholeGram: true,
		start:     func(Shape) descent { return &accelerated{} },
	}
}

// accelerated makes the paper's step, Algorithm 1 line 4, or the same with Nesterov's momentum:
//
//	W ← W − (L·S+λI)⁻¹ ∇J(W)
//
// Each trial without momentum that raises J halves the step permanently; J can rise only by rounding, or with the Gram
// matrix of a sample. With momentum it restarts where the step turns against the momentum (O'Donoghue and Candès 2015),
// and where J has risen:
//
//	U' = V − (L·S+λI)⁻¹ ∇J(V),  V' = U' + (t−1)/t' (U' − U),  t' = (1 + √(1 + 4t²))/2
//
// The visited points, whose J is known, are the V.
type accelerated struct {
	fixed    bool    // no step has momentum
	size     float64 // of the step; halved permanently by a trial without momentum that raises J
	t        float64
	u        []float64 // U' of the last accepted point
	momentum bool      // whether the trial from there has momentum
}

func (a *accelerated) accept(before, at *point) []float64 {
	if before == nil {
		a.size, a.t, a.u = 1, 1, wide(at.w)
	}
	step := floats.ScaleTo(make([]float64, len(at.w)), a.size, at.preconditioned)
	ahead, gained := wide(at.w), make([]float64, len(at.w))
	floats.Sub(ahead, step)
	floats.SubTo(gained, ahead, a.u)
	later := (1 + math.Sqrt(1+4*a.t*a.t)) / 2
	factor := (a.t - 1) / later
	// ⟨∇J(V), U' − U⟩ > 0: unlike ⟨V − U', U' − U⟩, it does not depend on the scale of features
	if a.fixed || dot(at.gradient, gained) > 0 {
		later, factor = 1, 0
	}
	a.t, a.u, a.momentum = later, ahead, factor > 0
	// V − V' = V − U' − factor · (U' − U)
	floats.AddScaled(step, -factor, gained)
	return step
}

// reject drops the momentum. If there was none, it halves the step.
func (a *accelerated) reject(at *point) (size float64, step []float64) {
	if !a.momentum {
		if a.size /= 2; a.size < minStep {
			return 0, nil
		}
	}
	step = floats.ScaleTo(make([]float64, len(at.w)), a.size, at.preconditioned)
	a.u = wide(at.w)
	floats.Sub(a.u, step)
	a.t, a.momentum = 1, false
	return 1, step
}

func (a *accelerated) sufficient(*point, float64) bool { return true }
