package sink

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Convert changes scores, in place, from the unit of one link to that of
// another, so that links which change between stages keep what was learnt: the
// scores of a softmax are logits, those of the others predictions.
func Convert(score kernel.Dense, from, to schemas.Link, scratch []float32) {
	switch logits, want := from == schemas.LinkSoftmax, to == schemas.LinkSoftmax; {
	case logits == want:
	case logits:
		kernel.SoftmaxRows(score, nil, nil)
	default:
		// A prediction of 0 must not become a score that no later stage can take
		// back; of very many classes the greatest may be near 1/k, and has to stay it.
		least := min(1e-3, 0.1/float64(max(score.Cols, 1)))
		kernel.SimplexRows(score, scratch)
		for i, p := range score.Data {
			score.Data[i] = float32(math.Log(max(float64(p), least)))
		}
	}
}

// Predict turns scores, in place, into g(score): what residuals are taken
// from, and what a block with previous predictions gets.
func Predict(link schemas.Link, score kernel.Dense) {
	if link == schemas.LinkSoftmax {
		kernel.SoftmaxRows(score, nil, nil)
	}
}

// Probabilities turns predictions of Predict, in place, into probabilities.
func Probabilities(link schemas.Link, prediction kernel.Dense, scratch []float32) {
	if link != schemas.LinkSoftmax {
		kernel.SimplexRows(prediction, scratch)
	}
}

// Measure turns scores (n × k), in place, into predictions as Predict does, and writes the link's own loss of each row and
// the class that it predicts. The loss is for softmax −log of the class's probability, for the others half the squared
// distance from the indicator of the class; rows without a label have loss 0. logs is room for n values.
func Measure(link schemas.Link, score kernel.Dense, classes []int32, loss []float32, predicted []int32, logs []float64) {
	if link == schemas.LinkSoftmax {
		for i, class := range classes {
			if loss[i] = 0; class != schemas.Unlabelled {
				loss[i] = score.Row(i)[class] // for now
			}
		}
		kernel.SoftmaxRows(score, logs, predicted)
		for i, class := range classes {
			if class != schemas.Unlabelled {
				loss[i] = float32(logs[i] - float64(loss[i]))
			}
		}
		return
	}
	for i, class := range classes {
		row := score.Row(i)
		if predicted[i] = largest(row); class == schemas.Unlabelled {
			loss[i] = 0
			continue
		}
		sum := 0.0
		for c, v := range row {
			d := float64(v)
			if int32(c) == class {
				d--
			}
			sum += d * d
		}
		loss[i] = float32(sum / 2)
	}
}

// largest is the first of the greatest.
func largest(row []float32) int32 {
	best := 0
	for c, v := range row {
		if v > row[best] {
			best = c
		}
	}
	return int32(best)
}

// Residuals turns predictions (n × k), in place, into y − prediction; rows
// without a label become 0.
func Residuals(prediction kernel.Dense, classes []int32) {
	for i, class := range classes {
		row := prediction.Row(i)
		if class == schemas.Unlabelled {
			clear(row)
			continue
		}
		for c := range row {
			row[c] = -row[c]
		}
		row[class]++
	}
}

// Targets writes y, the indicators of the classes (n × k).
func Targets(dst kernel.Dense, classes []int32) {
	clear(dst.Data)
	for i, class := range classes {
		if class != schemas.Unlabelled {
			dst.Row(i)[class] = 1
		}
	}
}

// Cubic writes G(z) = (z, z², z³), elementwise, into dst (n × 3k): the basis in
// which Algorithm 2 learns the link.
func Cubic(dst *kernel.Dense, z kernel.Dense) {
	k := z.Cols
	dst.Reshape(z.Rows, 3*k)
	for i := range z.Rows {
		from, to := z.Row(i), dst.Row(i)
		for c, v := range from {
			to[c], to[k+c], to[2*k+c] = v, v*v, v*v*v
		}
	}
}

func mustMatch(what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("sink: %s is %d, expected %d", what, got, want))
	}
}
