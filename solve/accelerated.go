package solve

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// accelerated is the paper's step with Nesterov's momentum, restarted where the
// step turns against it (O'Donoghue and Candès 2015), or where J has risen:
//
//	U' = V − (L·S+λI)⁻¹ ∇J(V),  V' = U' + (t−1)/t' (U' − U),  t' = (1 + √(1 + 4t²))/2
//
// The points that are visited, and whose J is known, are the V.
type accelerated struct {
	size     float64 // of the step; halved for good where it raises J without momentum
	t        float64
	u        []float64 // U' of the point accepted last
	momentum bool      // the trial from there has any
}

func (a *accelerated) accept(before, at *point) []float64 {
	if before == nil {
		a.size, a.t, a.u = 1, 1, wide(at.w)
	}
	step := scaled(a.size, at.natural)
	ahead, gained := wide(at.w), make([]float64, len(at.w))
	floats.Sub(ahead, step)
	floats.SubTo(gained, ahead, a.u)
	later := (1 + math.Sqrt(1+4*a.t*a.t)) / 2
	factor := (a.t - 1) / later
	// ⟨V − U', U' − U⟩ > 0
	if floats.Dot(step, gained) > 0 {
		later, factor = 1, 0
	}
	a.t, a.u, a.momentum = later, ahead, factor > 0
	// V − V' = V − U' − factor · (U' − U)
	floats.AddScaled(step, -factor, gained)
	return step
}

// reject drops the momentum, and where there was none halves the step.
func (a *accelerated) reject(at *point) []float64 {
	if !a.momentum {
		if a.size /= 2; a.size < smallest {
			return nil
		}
	}
	step := scaled(a.size, at.natural)
	a.u = wide(at.w)
	floats.Sub(a.u, step)
	a.t, a.momentum = 1, false
	return step
}

func (a *accelerated) enough(*point, float64) bool { return true }

func wide(w []float32) []float64 {
	out := make([]float64, len(w))
	for i, x := range w {
		out[i] = float64(x)
	}
	return out
}
