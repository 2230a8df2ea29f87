package solve

import (
	"math"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// generalized is Algorithm 1, generalized least squares, for a known link with a non-quadratic loss. A method chooses
// the steps.
//
// J safeguards it: a trial that raises J is rejected, and a shorter one starts from the last accepted point.
type generalized struct {
	common
	method     method
	descent    descent
	accepted   point
	objectives []float64 // J at each accepted point, in order
	chosen     Step      // the best accepted point by the stop rule's split
	done       bool      // nothing is left to gain
}

// point is weights W with their evaluation.
type point struct {
	w              []float32
	gradient       []float64 // ∇J(W)
	preconditioned []float64 // (L·S+λI)⁻¹ ∇J(W)
	visit          int
	objective      float64 // J(W)
	decrement      float64 // ⟨∇J(W), (L·S+λI)⁻¹ ∇J(W)⟩: a full step gains about half of it
	size           float64 // the next trial is W − size · step
	step           []float64
}

// minDecrement is the relative gain in J below which float32 scores can't resolve a step.
const minDecrement = 1e-12

func (g *generalized) Observe(v int, w Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	losses, err := g.open(sums)
	if err != nil {
		return nil, err
	}
	weights, penalised, square := g.start(w)
	trial := point{w: weights, visit: v, objective: losses[examples.Train].MeanLoss() + g.lambda/2*square, size: 1}
	g.passes++
	evaluation := &Evaluation{Number: g.passes, Objective: trial.objective}
	first := g.accepted.w == nil
	if first {
		g.method = methodNamed(g.stage.Method)
		g.descent = g.method.start(g.shape)
	} else if !(trial.objective <= g.accepted.objective) || !g.descent.sufficient(&g.accepted, trial.objective) {
		g.accepted.size, g.accepted.step = g.descent.reject(&g.accepted)
		g.done = g.accepted.step == nil
		return evaluation, nil
	}
	evaluation.Accepted = true
	if trial.gradient, err = g.gradient(sums, penalised); err != nil {
		return nil, err
	}
	trial.preconditioned = solved(g.factor, trial.gradient, g.shape.Classes)
	trial.decrement = dot(trial.gradient, trial.preconditioned)
	if first {
		trial.step = g.descent.accept(nil, &trial)
	} else {
		trial.step = g.descent.accept(&g.accepted, &trial)
	}
	g.accepted, g.objectives = trial, append(g.objectives, trial.objective)
	g.done = trial.decrement <= minDecrement*(1+math.Abs(trial.objective)) ||
		!first && g.method.worthwhile != nil && !g.method.worthwhile(g.position, g.passes, g.objectives)
	if g.stop.observe(losses) {
		g.chosen = Step{W: trial.w, Final: true, Of: trial.visit}
	}
	return evaluation, nil
}

func (g *generalized) Next() (Step, error) {
	if g.done || g.passes >= g.stage.Passes || g.stop.ended() {
		return g.chosen, nil
	}
	return Step{W: trialFrom(g.accepted.w, g.accepted.size, g.accepted.step)}, nil
}
