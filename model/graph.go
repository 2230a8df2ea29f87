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
	score := g.Zeros(inputs, k)
	last := m.stages[len(m.stages)-1]
	for t, s := range m.stages {
		if t > 0 {
			score = link.AddConvert(g, score, k, m.stages[t-1].Link, s.Link)
		}
		var predictions onnx.Value
		if s.Features.Scores() > 0 {
			predictions = s.Link.AddPredict(g, score, k)
		}
		block := s.Features.Add(g, inputs, predictions)
		if s == last {
			score = s.fitted.AddShown(g, score, block)
		} else {
			score = s.fitted.AddScores(g, score, block)
		}
	}
	probabilities = last.Link.AddProbabilities(g, last.Link.AddPredict(g, score, k), k)
	best := g.Node("Squeeze", g.Along(1, "ArgMax", probabilities), g.Integers(1))
	return g.Node("Gather", g.Texts(m.Labels()), best), probabilities
}
