package sink

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
)

// Counts are the counts behind the weights of a counted stage of a chain.
type Counts struct {
	All       []float32 // of each class in each column (p × k)
	Totals    []float64 // of each class over the inputs (k)
	Smoothing float64   // added to each count
	Weight    float64   // factor of the logarithms
}

// LeaveOut removes the effect of each row's own counts from its scores (n × k), given the block (n × p), the class of
// each row, and the factor of its counts. An update scores rows before it counts them, and the next stage must not be
// fitted to scores that include the row's own label. Rows with a negative class or the factor 0 are not counted.
func (c *Counts) LeaveOut(scores kernel.Dense, block kernel.Sparse, classes []int32, factors []float32) {
	k := float64(scores.Cols)
	for i, class := range classes {
		if class < 0 || factors[i] == 0 {
			continue
		}
		change, row := c.withoutRow(block, i, int(class), float64(factors[i])), scores.Row(i)
		for other := range row {
			if other == int(class) {
				row[other] += float32(change - change/k)
			} else {
				row[other] += float32(-change / k)
			}
		}
	}
}

// withoutRow returns the change of the score of a row's class without its own counts, before the mean over the classes is subtracted.
func (c *Counts) withoutRow(block kernel.Sparse, row, class int, factor float64) float64 {
	sum, length := 0.0, 0.0
	add := func(column int, x float64) {
		n := float64(c.All[column*len(c.Totals)+class])
		sum += x * math.Log((max(n-factor*x, 0)+c.Smoothing)/(n+c.Smoothing))
	}
	columns, values := block.Row(row)
	for i, column := range columns {
		x := float64(values[i])
		add(int(column), x)
		length += x
	}
	total, smoothing := c.Totals[class], c.Smoothing*float64(block.Cols)
	sum -= length * math.Log((max(total-factor*length, 0)+smoothing)/(total+smoothing))
	if block.Ones {
		add(block.Cols, 1)
	}
	return sum * c.Weight
}
