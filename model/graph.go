package model

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Add adds the model to a graph: the label of each row of raw features (n × d; NaN for a missing value),
// n texts or whole numbers, and the probability of each label (n × k). It adds what [Predictor.Probabilities] computes.
func (m *Model) Add(g *onnx.Graph, raw onnx.Value) (label, probabilities onnx.Value) {
	k := len(m.Labels())
	inputs := m.prepared.Add(g, raw)
	plan := m.Manifest.Plan
	var score, votes onnx.Value
	var compared *prepare.Compared // which all stages of trees share
	for t, s := range m.stages {
		if plan.BeginsMember(t) {
			score = g.Zeros(inputs, k)
		} else {
			score = link.AddConvert(g, score, k, m.stages[t-1].Link, s.Link)
		}
		if compared == nil && s.Features.Leaves() > 0 {
			compared = m.prepared.AddCompared(g, raw)
		}
		product := s.addProduct(g, inputs, compared, score)
		if !plan.EndsMember(t) {
			score = s.fitted.AddScores(g, score, product)
			continue
		}
		probabilities = s.Link.AddProbabilities(g, s.Link.AddPredict(g, s.fitted.AddShown(g, score, product), k), k)
		if plan.Member(t) > 0 {
			probabilities = g.Node("Add", votes, probabilities)
		}
		votes = probabilities
	}
	if plan.Members() > 1 {
		probabilities = g.Node("Div", votes, g.Number(float32(plan.Members())))
	}
	return g.Node("Gather", m.addLabels(g), m.addDecide(g, probabilities)), probabilities
}

// addDecide adds what [Model.Decide] computes of each row.
func (m *Model) addDecide(g *onnx.Graph, probabilities onnx.Value) onnx.Value {
	t := m.Manifest.Threshold
	if t == 0 {
		return g.Node("Squeeze", g.Along(1, "ArgMax", probabilities), g.Integers(1))
	}
	least := float32(t)
	if float64(least) < t { // probabilities are float32: they are at least t if they are at least the next one
		least = math.Nextafter32(least, 1)
	}
	second := g.Along(1, "Gather", probabilities, g.Integer(1))
	return g.Node("Where", g.Node("GreaterOrEqual", second, g.Number(least)), g.Integer(1), g.Integer(0))
}

// addProduct returns the products of the stage's block, given the score before the stage.
func (s *Stage) addProduct(g *onnx.Graph, inputs onnx.Value, compared *prepare.Compared, score onnx.Value) sink.Product {
	if s.Features.Leaves() > 0 {
		return func(w kernel.Dense) onnx.Value { return s.Features.AddProduct(g, compared, w) }
	}
	var predictions onnx.Value
	if s.Features.Scores() > 0 {
		predictions = s.Link.AddPredict(g, score, s.Classes)
	}
	return sink.ProductOf(g, s.Features.Add(g, inputs, predictions))
}

// addLabels adds the labels as a constant, of whole numbers or of texts.
func (m *Model) addLabels(g *onnx.Graph) onnx.Value {
	if m.LabelType() != examples.WholeLabels {
		return g.Texts(m.Labels())
	}
	return g.Integers(examples.WholeNumbers(m.Labels())...)
}
