package model

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
)

// add adds the model to a graph: its predictions for each row of raw features (n × d; NaN for a missing value), as the outputs of its
// task. They are those of [Predictor.Probabilities] and [Predictor.Numbers].
//
//	one label       label [n], texts or whole numbers, and probabilities [n, k]
//	several labels  given [n, k], which labels a row is given, and probabilities [n, k]
//	numbers         numbers [n, k], float64
func (m *Model) add(g *onnx.Graph, raw onnx.Value) {
	inputs := m.prepared.Add(g, raw)
	var compared *stages.Compared // which all stages of trees share
	m.addOutputs(g, m.addPredictions(g, inputs, func(s *Stage, score onnx.Value) sink.Product {
		if compared == nil && s.Features.Leaves() > 0 {
			compared = m.prepared.AddCompared(g, raw)
		}
		return s.addProduct(g, inputs, compared, score)
	}))
}

// addSparse is [Model.add] for sparse rows, of indices and values: see [stages.Preparation.AddSparse]. It panics unless [Model.Sparse] is
// true.
func (m *Model) addSparse(g *onnx.Graph, indices, values onnx.Value) {
	inputs := m.prepared.AddSparse(g, indices, values)
	m.addOutputs(g, m.addPredictions(g, inputs.Values, func(*Stage, onnx.Value) sink.Product {
		return func(w kernel.Dense) onnx.Value { return inputs.AddProduct(g, w) }
	}))
}

// addOutputs adds the outputs of the task.
func (m *Model) addOutputs(g *onnx.Graph, predicted onnx.Value) {
	k := len(m.Labels())
	switch m.Task() {
	case examples.Numbers:
		g.Output("numbers", m.prepared.AddRestore(g, predicted), onnx.Double, k)
		return
	case examples.SeveralLabels:
		g.Output("given", g.Node("GreaterOrEqual", predicted, g.Number(least(m.Threshold()))), onnx.Flag, k)
	default:
		of, labels := onnx.Text, g.Texts
		if m.LabelType() == examples.WholeLabels {
			of, labels = onnx.Integer, func(texts []string) onnx.Value { return g.Integers(examples.WholeNumbers(texts)...) }
		}
		g.Output("label", g.Node("Gather", labels(m.Labels()), m.addDecide(g, predicted)), of, 0)
	}
	g.Output("probabilities", predicted, onnx.Float, k)
}

// addPredictions adds the probability of each label, or the standardised numbers (n × k). productOf has the products of a stage's block,
// given the score before it.
func (m *Model) addPredictions(g *onnx.Graph, inputs onnx.Value,
	productOf func(s *Stage, score onnx.Value) sink.Product) (probabilities onnx.Value) {
	k := len(m.Labels())
	plan := m.Manifest.Plan
	var score, votes onnx.Value
	for t, s := range m.stages {
		if plan.BeginsMember(t) {
			score = g.Zeros(inputs, k)
		} else {
			score = link.AddConvert(g, score, k, m.stages[t-1].Link, s.Link)
		}
		product := productOf(s.Stage, score)
		if !plan.EndsMember(t) {
			score = s.fitted.AddScores(g, score, product)
			continue
		}
		score = link.AddTemper(g, s.fitted.AddShown(g, score, product), plan.Temperature(t))
		probabilities = s.Link.AddProbabilities(g, s.Link.AddPredict(g, score, k), k)
		if plan.Member(t) > 0 {
			probabilities = g.Node("Add", votes, probabilities)
		}
		votes = probabilities
	}
	if plan.Members() > 1 {
		probabilities = g.Node("Div", votes, g.Number(float32(plan.Members())))
	}
	return probabilities
}

// least returns the least float32 that is at least a threshold: probabilities are float32.
func least(threshold float64) float32 {
	v := float32(threshold)
	if float64(v) < threshold {
		v = math.Nextafter32(v, 1)
	}
	return v
}

// addDecide adds the computation of [Model.Decide] for each row.
func (m *Model) addDecide(g *onnx.Graph, probabilities onnx.Value) onnx.Value {
	t := m.Manifest.Threshold
	if t == 0 {
		return g.Node("Squeeze", g.Along(1, "ArgMax", probabilities), g.Integers(1))
	}
	second := g.Along(1, "Gather", probabilities, g.Integer(1))
	return g.Node("Where", g.Node("GreaterOrEqual", second, g.Number(least(t))), g.Integer(1), g.Integer(0))
}

// addProduct returns the products of the stage's block, given the score before the stage.
func (s *Stage) addProduct(g *onnx.Graph, inputs onnx.Value, compared *stages.Compared, score onnx.Value) sink.Product {
	if s.Features.Leaves() > 0 {
		return func(w kernel.Dense) onnx.Value { return s.Features.AddProduct(g, compared, w) }
	}
	var predictions onnx.Value
	if s.Features.Scores() > 0 {
		predictions = s.Link.AddPredict(g, score, s.Classes)
	}
	return sink.ProductOf(g, s.Features.Add(g, inputs, predictions))
}
