package solve

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/schemas"
)

// generalized is Algorithm 1, generalized least squares, for a known link that
// is not the identity, by one of the methods to go down: a fold over the visits that were made.
//
// It is safeguarded by J: a trial that raises it is taken back, and a shorter
// one is made from where it was accepted last.
type generalized struct {
	common
	method   method
	accepted point
	chosen   point // of the accepted, the best by the stop rule's split
	done     bool  // nothing is left to gain
}

// point is a W with what is known of it.
type point struct {
	visit     int
	w         []float32
	objective float64
	gradient  []float64 // ∇J(W)
	natural   []float64 // (L·S+λI)⁻¹ ∇J(W)
	decrement float64   // ⟨gradient, natural⟩: a full step gains about half of it
	trial     []float64 // what the next trial is less than w
}

// method chooses the trials. It sees the accepted points in order and keeps
// nothing that they do not determine.
type method interface {
	// accept is the first trial from a point, W less what it answers with; before
	// is the point accepted before it, nil for the first.
	accept(before, at *point) []float64
	// reject is another trial from a point, after the one from there was rejected;
	// nil if there is none that is worth a pass.
	reject(at *point) []float64
	// enough tells whether a trial from a point to an objective gains enough.
	enough(from *point, objective float64) bool
}

func newMethod(name string) method {
	switch name {
	case MethodAccelerated:
		return &accelerated{}
	case MethodPaper:
		return &fixed{size: 1}
	}
	return &quasiNewton{}
}

// negligible is the gain relative to J below which float32 scores can't tell a
// step from none.
const negligible = 1e-12

// auto ends a stage when a pass lowers J by less than a part that is worthwhile:
// another pass over a later block gains more, and fits less noise. Measured on
// MNIST, softmax, 10 × 1024, at most 12 passes, the median test error of three
// seeds: 1.67 % without the rule, 1.63 at 0.01, 1.57 at 0.02, 1.54 at 0.04, in
// 120, 76, 60 and 48 passes. The first passes learn how long a step is.
const (
	worthwhile  = 0.04
	firstPasses = 3
)

// smallest step that is still tried, as a fraction of the method's own.
const smallest = 1.0 / (1 << 20)

func (g *generalized) Observe(v int, w Step, sums schemas.Tensors[float64]) (*Pass, error) {
	scores, err := g.open(sums)
	if err != nil {
		return nil, err
	}
	weights, penalised, ridge := g.start(w)
	trial := point{visit: v, w: weights, objective: scores[schemas.Train].MeanLoss() + ridge}
	g.passes++
	pass := &Pass{Number: g.passes, Objective: trial.objective}
	first := g.accepted.w == nil
	if first {
		g.method = newMethod(g.stage.Method)
	} else if !(trial.objective <= g.accepted.objective) || !g.method.enough(&g.accepted, trial.objective) {
		g.accepted.trial = g.method.reject(&g.accepted)
		g.done = g.accepted.trial == nil
		return pass, nil
	}
	pass.Accepted = true
	before := g.accepted.objective
	if trial.gradient, err = g.ridgeGradient(sums, penalised); err != nil {
		return nil, err
	}
	trial.natural = g.factor.Solve(trial.gradient, g.shape.Classes)
	trial.decrement = floats.Dot(trial.gradient, trial.natural)
	if first {
		trial.trial = g.method.accept(nil, &trial)
	} else {
		trial.trial = g.method.accept(&g.accepted, &trial)
	}
	g.accepted = trial
	g.done = trial.decrement <= negligible*(1+math.Abs(trial.objective)) ||
		g.stage.Method == MethodAuto && g.passes > firstPasses && before-trial.objective < worthwhile*before
	if g.stop.observe(scores) {
		g.chosen = trial
	}
	return pass, nil
}

func (g *generalized) Next() (Step, error) {
	if g.done || g.passes >= g.stage.Passes || g.stop.ended() {
		return Step{W: g.chosen.w, Final: true, Of: g.chosen.visit}, nil
	}
	return Step{W: g.accepted.less(g.accepted.trial)}, nil
}

// less is W − step.
func (p *point) less(step []float64) []float32 {
	w := make([]float32, len(p.w))
	for i, x := range p.w {
		w[i] = float32(float64(x) - step[i])
	}
	return w
}

// scaled is size · step.
func scaled(size float64, step []float64) []float64 {
	return floats.ScaleTo(make([]float64, len(step)), size, step)
}
