package model

import (
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/onnx"
)

// Add adds the model to a graph: the most probable label of each row of raw features (n × d; NaN for a missing value), n texts, and the
// probability of each label (n × k). It adds what [Predictor.Probabilities] computes.
func (m *Model) Add(g *onnx.Graph, raw onnx.Value) (label, probabilities onnx.Value) {
	k := len(m.Labels())
	inputs := m.prepared.Add(g, raw)
	plan := m.Manifest.Plan
	var score, votes onnx.Value
	for t, s := range m.stages {
		if plan.BeginsMember(t) {
			score = g.Zeros(inputs, k)
		} else {
			score = link.AddConvert(g, score, k, m.stages[t-1].Link, s.Link)
		}
		var predictions onnx.Value
		if s.Features.Scores() > 0 {
			predictions = s.Link.AddPredict(g, score, k)
		}
		block := s.Features.Add(g, inputs, predictions)
		if !plan.EndsMember(t) {
			score = s.fitted.AddScores(g, score, block)
			continue
		}
		probabilities = s.Link.AddProbabilities(g, s.Link.AddPredict(g, s.fitted.AddShown(g, score, block), k), k)
		if plan.Member(t) > 0 {
			probabilities = g.Node("Add", votes, probabilities)
		}
		votes = probabilities
	}
	if plan.Members() > 1 {
		probabilities = g.Node("Div", votes, g.Number(float32(plan.Members())))
	}
	best := g.Node("Squeeze", g.Along(1, "ArgMax", probabilities), g.Integers(1))
	return g.Node("Gather", g.Texts(m.Labels()), best), probabilities
}
