package schemas

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// predictionOf returns a prediction message for rows of three or more classes, or of that many regression targets.
func predictionOf(task examples.Task, rows, classes int) *Prediction {
	p := &Prediction{
		Topic: "digits.examples", Partition: 3, Offset: 1 << 40, After: 1 << 40, Checksum: "af9b094d-18bcfe56800",
		Version: 7, Run: "2297280bb4a3", Row: 128, Until: 128 + rows, Rows: 128 + rows, Seen: 9,
		Task: task, Probabilities: numbered(rows * classes),
	}
	for c := range classes {
		p.Labels = append(p.Labels, fmt.Sprint("class ", c))
	}
	for i := range rows {
		p.Classes = append(p.Classes, int32(i%classes))
	}
	switch task {
	case examples.SeveralLabels:
		for i := range p.Probabilities {
			p.Given = append(p.Given, i%3 == 0)
		}
	case examples.Numbers:
		for _, v := range p.Probabilities {
			p.Numbers = append(p.Numbers, 1764000000.25+float64(v))
		}
		p.Classes, p.Probabilities = nil, nil
	}
	return p
}

// residualsOf returns the scores and residuals of rows.
func residualsOf(rows, classes int) *Residuals {
	r := &Residuals{
		Identity: wire.Identity{Kind: KindResiduals, Run: "run", Stage: 1, Partition: 3, Parent: "parent"},
		Offset:   1 << 40, Row: 128, Classes: classes,
		Score: numbered(rows * classes), Residual: numbered(rows * classes),
	}
	slices.Reverse(r.Residual)
	return r
}

// votedOf returns [residualsOf] with votes.
func votedOf(rows, classes int) *Residuals {
	r := residualsOf(rows, classes)
	r.Votes = numbered(rows * classes)
	for i := range r.Votes {
		r.Votes[i] += 0.5
	}
	return r
}

func numbered(n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%1000) / 3
	}
	return values
}
