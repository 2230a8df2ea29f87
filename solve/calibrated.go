package solve

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// calibrated is Algorithm 2, calibrated least squares, for a learnt link. A pass is two visits:
//
//	2i      fit y − ŷ by least squares, W; ỹ = ŷ + Wx      (lines 3, 4)
//	2i + 1  fit y by least squares on G(ỹ); clip            (lines 5, 6)
//
// After the cubes and the clip the loss is not convex in a step, so no step is halved. The stage ends when the loss no longer
// falls.
type calibrated struct {
	common
	visit int
	loss  float64 // the last that decreased
	made  int     // complete passes behind that loss
	best  int     // passes that are final if no better loss follows
	bound float64 // upper bound of the loss after the last calibration
	next  Step
	done  bool
}

// heldOutRidge is the ridge of a calibration to held-out rows. They are few, so it must not fit their residuals.
const heldOutRidge = 1e-3

// errNoHoldout means that there are no rows for the calibration.
var errNoHoldout = errors.New("link calibrated: no holdout row has labels: with several labels a row, the calibration is fitted to rows " +
	"that the weights have not seen: set examples.holdout")

// calibrationRidge keeps the system solvable if classes are empty. Its scores are of order 1.
const calibrationRidge = 1e-6

func (c *calibrated) Observe(v int, _ Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	c.visit = v
	if !c.link.HasGradient(v) {
		return nil, c.calibrate(sums)
	}
	losses, err := c.open(sums)
	if err != nil {
		return nil, err
	}
	if losses[c.shape.Calibration].Weight <= 0 {
		return nil, errNoHoldout
	}
	loss := losses[c.shape.Calibration].MeanLoss()
	c.passes++
	evaluation := &Evaluation{Number: c.passes, Objective: loss, Accepted: v == 0 || loss < c.loss}
	if !evaluation.Accepted {
		c.done = true
		return evaluation, nil
	}
	c.loss, c.made = loss, v/2
	if c.stop.observe(losses) {
		c.best = c.made
	}
	if c.done = c.stop.ended(); c.done {
		return evaluation, nil
	}
	cross, err := c.cross(sums)
	if err != nil {
		return nil, err
	}
	c.next = Step{W: narrow(solved(c.factor, cross, c.shape.Classes))}
	return evaluation, nil
}

// calibrate fits M = (Ê[G Gᵀ] + εI)⁻¹ Ê[G yᵀ] from the moments of G(ỹ).
func (c *calibrated) calibrate(sums wire.Tensors[float64]) error {
	k := c.shape.Classes
	p := c.shape.Basis.Len() * k
	gram, err := sums.Shaped(statistics.FieldGram, p*(p+1)/2)
	if err != nil {
		return err
	}
	cross, err := sums.Shaped(statistics.FieldCross, p, k)
	if err != nil {
		return err
	}
	weight, square, ridge := c.weight, 1.0, float64(calibrationRidge) // Ê|y|² is 1 if y is the indicator of a class
	if c.shape.Calibration != examples.Train {
		calibrated, err := sums.Shaped(statistics.FieldCalibrated, 2)
		if err != nil {
			return err
		}
		if weight = calibrated[1]; weight <= 0 {
			return errNoHoldout
		}
		square, ridge = calibrated[0]/weight, heldOutRidge
	}
	full, solution := make([]float64, p*p), make([]float64, len(cross))
	for i, at := 0, 0; i < p; i, at = i+1, at+i+1 {
		floats.ScaleTo(full[i*p:i*p+i+1], 1/weight, gram[at:at+i+1])
		if full[i*p+i] += ridge; !Finite(full[i*p+i]) {
			return fmt.Errorf("calibrate: %w", &NotFiniteError{What: "the Gram matrix of the predictions"})
		}
	}
	floats.ScaleTo(solution, 1/weight, cross)
	moment := slices.Clone(solution)
	factor, ok := kernel.Factor(full, p)
	if !ok {
		return fmt.Errorf("calibrate: %w", &SingularError{Size: p, Weight: weight, Lambda: ridge})
	}
	factor.Solve(solution, k)
	// The bound is ½ Ê|y − Mᵀ G|² = ½(Ê|y|² − 2⟨M, Ê[G yᵀ]⟩ + ⟨M, Ê[G Gᵀ] M⟩), where M solves Ê[G Gᵀ] M = Ê[G yᵀ]. The clip projects
	// onto a convex region that contains y, so it only lowers the loss.
	c.bound = (square - floats.Dot(solution, moment)) / 2
	c.next = Step{Calibration: narrow(solution)}
	return nil
}

func (c *calibrated) Next() (Step, error) {
	if c.done {
		return Step{Final: true, Of: 2 * c.best, Passes: c.best}, nil
	}
	next := c.next
	if !c.link.HasGradient(c.visit) && c.passes >= c.stage.Passes {
		// The loss after this pass is not measured, but is at most bound. A stop rule uses the loss of the split, which
		// has no such bound, so this pass does not count.
		next.Final = true
		if c.bound < c.loss && c.stop.rule == nil {
			next.Passes = c.visit/2 + 1
		} else {
			next.Passes = c.best
		}
		next.Of = 2 * next.Passes
	}
	return next, nil
}
