package solve

import (
	"math"

	"github.com/stagewise/stagewise/schemas"
)

// generalized is Algorithm 1, generalized least squares, for a known link:
//
//	W ← W − (L·S+λI)⁻¹ ∇J(W)        (line 4)
//
// safeguarded by J: a trial that raises it is taken back and half the step is
// tried from where it was accepted last.
type generalized struct {
	common
	accepted point
	chosen   point // of the accepted, the best by the stop rule's split
	size     float64
	done     bool // nothing is left to gain
}

// point is a W with what is known of it.
type point struct {
	visit     int
	w         []float32
	objective float64
	step      []float64 // (L·S+λI)⁻¹ ∇J(W)
	decrement float64   // ⟨∇J, step⟩: a full step gains about half of it
}

// smoothness is L of each link (Gershgorin for softmax): the Hessian of the
// loss in the scores is at most L.
func smoothness(link schemas.Link) float64 {
	if link == schemas.LinkSoftmax {
		return 0.5
	}
	return 1
}

// negligible is the gain relative to J below which float32 scores can't tell a
// step from none.
const negligible = 1e-12

// smallest step that is still tried.
const smallest = 1.0 / (1 << 20)

func (g *generalized) Observe(v int, w Step, sums schemas.Tensors[float64]) (*Pass, error) {
	scores, err := g.open(sums)
	if err != nil {
		return nil, err
	}
	k := g.shape.Classes
	if w.W == nil { // a stage begins at no weights
		w.W = make([]float32, g.shape.Columns*k)
	}
	penalised, norm := w.W[:g.shape.Penalised*k], 0.0
	for _, x := range penalised {
		norm += float64(x) * float64(x)
	}
	trial := point{visit: v, w: w.W, objective: scores[schemas.Train].MeanLoss() + g.factor.Lambda/2*norm}
	g.passes++
	pass := &Pass{Number: g.passes, Objective: trial.objective}
	if g.accepted.w != nil && !(trial.objective <= g.accepted.objective) {
		g.size /= 2
		g.done = g.size < smallest
		return pass, nil
	}
	pass.Accepted = true
	// the sums have y − g(Wx); ∇J = Ê[(g(Wx) − y) xᵀ] + λW
	gradient, err := g.cross(sums)
	if err != nil {
		return nil, err
	}
	for i, r := range gradient {
		gradient[i] = -r
	}
	for i, x := range penalised {
		gradient[i] += g.factor.Lambda * float64(x)
	}
	trial.step = g.factor.Solve(gradient, k)
	for i, s := range trial.step {
		trial.decrement += s * gradient[i]
	}
	g.accepted = trial
	g.done = trial.decrement <= negligible*(1+math.Abs(trial.objective))
	if g.stop.observe(scores) {
		g.chosen = trial
	}
	return pass, nil
}

func (g *generalized) Next() (Step, error) {
	if g.stage.Link == schemas.LinkIdentity {
		// Square loss ends after one pass: J is quadratic, its Hessian S+λI, so
		// this is its minimum, ½ the decrement below what was measured.
		return Step{W: g.ahead(1), Final: true, Of: g.accepted.visit + 1}, nil
	}
	if g.done || g.passes >= g.stage.Passes || g.stop.ended() {
		return Step{W: g.chosen.w, Final: true, Of: g.chosen.visit}, nil
	}
	return Step{W: g.ahead(g.size)}, nil
}

// ahead is W − rate · (L·S+λI)⁻¹ ∇J(W) from the accepted point.
func (g *generalized) ahead(rate float64) []float32 {
	w := make([]float32, len(g.accepted.w))
	for i, x := range g.accepted.w {
		w[i] = float32(float64(x) - rate*g.accepted.step[i])
	}
	return w
}
