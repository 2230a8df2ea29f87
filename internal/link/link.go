// Package link defines the links of a stage: how a score becomes a prediction, the loss, and the properties of the loss
// that a solver may use.
//
//	score ──Predict──▶ prediction ──Probabilities──▶ probabilities
//	score, truth ──Measure──▶ prediction, loss, predicted class
//	score of one link ──Convert──▶ score of another
//
// Each link is one value in a file of its own, with one line in [All]. Other packages use the traits of a link, never
// its name. Matrices are n rows of k classes. A class is an index from 0 to k−1; a negative class means that the row
// has no label.
package link

import (
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// Link is how the score of a stage becomes a prediction, and the loss that the stage minimises.
type Link struct {
	// Name is the link's name in configurations and plans.
	Name string
	// Doc describes the link in a few words of Markdown, for the documentation of the configuration.
	Doc string
	// Smoothness is L: no eigenvalue of the Hessian of the loss in the scores of a row is larger. The paper's step is
	// scaled by 1/L.
	Smoothness float64
	// Quadratic reports whether the loss is quadratic in the scores: one pass with the Gram matrix of all rows then finds
	// the minimum.
	Quadratic bool
	// Learnt reports whether Algorithm 2 learns the link from the data. Each of its passes takes two visits and yields
	// weights and a calibration. The state of such a stage is the list of all its passes, so a warm start can't begin
	// at its weights. The score after it is the sum of the passes' W x and is never clipped; only its predictions go
	// through the calibrations.
	Learnt bool
	// Regions are the regions in which the predictions of models with the link may lie.
	Regions []Region

	unit    unit
	predict transform // none: a score is its own prediction
	invert  transform // the inverse of predict; none if predict is none
	project bool      // predictions may lie outside of their region
	region  Region
	measure func(score kernel.Dense, truth Truth, loss []float32, predicted []int32, s *Scratch)
	// curvature is the mean second derivative of the loss in the scores of a row, given its prediction; nil: 1.
	curvature func(prediction []float32) float64
	lossOf    func(prediction []float32, class int32, target []float32) float64 // the loss of a labelled row's prediction
}

// A transform is a function of each row of a matrix. The zero value is none: it changes nothing.
type transform struct {
	rows func(x kernel.Dense, s *Scratch)                          // in place
	node func(g *onnx.Graph, x onnx.Value, columns int) onnx.Value // the same, in a graph
}

func (t transform) apply(x kernel.Dense, s *Scratch) {
	if t.rows != nil {
		t.rows(x, s)
	}
}

func (t transform) add(g *onnx.Graph, x onnx.Value, columns int) onnx.Value {
	if t.node == nil {
		return x
	}
	return t.node(g, x, columns)
}

// unit is the unit of a score. Links with the same unit use each other's scores unchanged.
type unit string

const (
	predictions unit = "predictions"
	logits      unit = "logits"
	odds        unit = "logarithms of odds"
)

// All returns the links, in the order of the documentation.
func All() []Link {
	return []Link{identity(), softmax(), logistic(), calibrated()}
}

// Names returns the names of all links, in the order of the documentation.
func Names() []string {
	var names []string
	for _, l := range All() {
		names = append(names, l.Name)
	}
	return names
}

// Named returns the link with the given name. It panics for an unknown name: names are checked with their configuration
// or plan.
func Named[S ~string](name S) Link {
	all := All()
	i := slices.IndexFunc(all, func(l Link) bool { return l.Name == string(name) })
	if i < 0 {
		panic("link: unknown link " + string(name))
	}
	return all[i]
}

// leastCurvature bounds the curvature, so that the rows predicted best still count in sums weighted by it.
const leastCurvature = 1e-4

// Curvature appends the mean second derivative of the loss in the scores of each row, given the rows' predictions. It is at least 1e-4.
func (l Link) Curvature(dst []float32, predictions kernel.Dense) []float32 {
	for i := range predictions.Rows {
		h := float32(1)
		if l.curvature != nil {
			h = float32(max(l.curvature(predictions.Row(i)), leastCurvature))
		}
		dst = append(dst, h)
	}
	return dst
}

// Suits reports whether the link is for models whose predictions lie in a region.
func (l Link) Suits(r Region) bool { return slices.Contains(l.Regions, r) }

// On returns the link for models whose predictions lie in a region. The default region is the simplex. It panics if the
// link does not suit the region: tasks are checked with their configuration or plan.
func (l Link) On(r Region) Link {
	if !l.Suits(r) {
		panic("link: " + l.Name + " on a region that it does not suit")
	}
	l.region = r
	return l
}

// SameLoss reports whether both links measure the same loss, so that losses of one compare with losses of the other: a unit has one loss.
func (l Link) SameLoss(o Link) bool { return l.unit == o.unit }

// Region returns the region of the predictions.
func (l Link) Region() Region { return l.region }

// VisitsPerPass returns the number of visits of a pass: 2 if the link is learnt, otherwise 1.
func (l Link) VisitsPerPass() int {
	if l.Learnt {
		return 2
	}
	return 1
}

// HasGradient reports whether visit v of a stage (0, 1, …) gives a loss and a gradient. The other visits of a learnt link
// fit a calibration.
func (l Link) HasGradient(v int) bool { return v%l.VisitsPerPass() == 0 }

// Scratch is memory that links use between calls. The zero value is ready. It is not safe for concurrent use.
type Scratch struct {
	values []float32
	logs   []float64
}

// row returns k values of any content, valid until the next call.
func (s *Scratch) row(k int) []float32 {
	s.values = slices.Grow(s.values[:0], k)[:k]
	return s.values
}

// Convert changes scores in place from the unit of one link to that of another, so that a stage with another link than
// the one before it keeps what was learnt.
func Convert(score kernel.Dense, from, to Link, s *Scratch) {
	if from.unit == to.unit {
		return
	}
	from.predict.apply(score, s)
	to.invert.apply(score, s)
}

// AddConvert is [Convert] in a graph. The scores have k columns.
func AddConvert(g *onnx.Graph, score onnx.Value, k int, from, to Link) onnx.Value {
	if from.unit == to.unit {
		return score
	}
	return to.invert.add(g, from.predict.add(g, score, k), k)
}

// Predict turns scores into predictions g(score) in place. Residuals are y − g(score); a block with previous predictions
// has these as features.
func (l Link) Predict(score kernel.Dense) { l.predict.apply(score, nil) }

// AddPredict is Predict in a graph. The scores have k columns.
func (l Link) AddPredict(g *onnx.Graph, score onnx.Value, k int) onnx.Value {
	return l.predict.add(g, score, k)
}

// Probabilities turns the predictions of Predict or Measure into probabilities in place. In the region Space it does not change them.
func (l Link) Probabilities(prediction kernel.Dense, s *Scratch) {
	if l.project {
		l.region.Project(prediction, s)
	}
}

// AddProbabilities is Probabilities in a graph. The predictions have k columns.
func (l Link) AddProbabilities(g *onnx.Graph, prediction onnx.Value, k int) onnx.Value {
	if !l.project {
		return prediction
	}
	return l.region.AddProject(g, prediction, k)
}

// LeastProbability is the lower bound of probabilities in the log loss of predictions, so that one confident mistake
// does not decide a mean.
const LeastProbability = 1e-6

// MeasurePredictions is Measure for predictions (n × k) without a score, such as a mean of several. It does not change them.
func (l Link) MeasurePredictions(prediction kernel.Dense, truth Truth, loss []float32, predicted []int32) {
	measureRows(prediction, truth, loss, predicted, l.lossOf)
	l.measureUnknown(prediction, truth, loss)
}

// measureUnknown writes the losses of the rows of [Unknown] classes, given the predictions.
func (l Link) measureUnknown(prediction kernel.Dense, truth Truth, loss []float32) {
	for i, class := range truth.Classes {
		if class == Unknown {
			row := append(slices.Clone(prediction.Row(i)), LeastProbability)
			loss[i] = float32(l.lossOf(row, int32(prediction.Cols), nil))
		}
	}
}

// measureRows writes the loss of each row, 0 if its class is negative, and its predicted class.
func measureRows(prediction kernel.Dense, truth Truth, loss []float32, predicted []int32,
	lossOf func(row []float32, class int32, target []float32) float64) {
	for i, class := range truth.Classes {
		row := prediction.Row(i)
		if loss[i], predicted[i] = 0, Largest(row); class < 0 {
			continue
		}
		var target []float32
		if truth.Targets.Rows > 0 {
			target = truth.Targets.Row(i)
		}
		loss[i] = float32(lossOf(row, class, target))
	}
}

// Measure turns scores (n × k) into predictions in place, with the bits of Predict. It writes the loss of each row, 0
// if y is not known, the loss of the smallest probability if its class is [Unknown], and the predicted class. loss and
// predicted have n values.
func (l Link) Measure(score kernel.Dense, truth Truth, loss []float32, predicted []int32, s *Scratch) {
	l.measure(score, truth, loss, predicted, s)
	l.measureUnknown(score, truth, loss)
}

// Largest returns the index of the largest value of a row, the first of equal ones.
func Largest(row []float32) int32 {
	best := 0
	for c, v := range row {
		if v > row[best] {
			best = c
		}
	}
	return int32(best)
}
