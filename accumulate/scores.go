package accumulate

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Rows are what one message's rows are to a sum.
type Rows struct {
	Classes []int32         // schemas.Unlabelled where there is no label
	Weights []float32       // of all rows, whatever their split
	Splits  []schemas.Split //
}

// Slice is the rows from (included) to to (excluded), shared.
func (r Rows) Slice(from, to int) Rows {
	return Rows{r.Classes[from:to], r.Weights[from:to], r.Splits[from:to]}
}

// AddScores adds the labelled rows of a message to the splits' scores: for
// each row its loss and the class that is predicted.
func (s *Sum) AddScores(rows Rows, loss []float32, predicted []int32) {
	scores := s.Field(schemas.FieldSplits, schemas.Splits, schemas.ScoreFields)
	for i, class := range rows.Classes {
		if class == schemas.Unlabelled {
			continue
		}
		at := scores[int(rows.Splits[i])*schemas.ScoreFields:]
		w := float64(rows.Weights[i])
		at[1]++
		if w == 0 {
			continue // 0 times a loss that has overflown would be NaN
		}
		at[0] += w
		if predicted[i] != class {
			at[2] += w
		}
		at[3] += w * float64(loss[i])
	}
}

const (
	// qualityBins is how many bins of confidence the expected calibration error
	// is taken over (Guo et al. 2017 use 15).
	qualityBins = 15
	// leastProbability clips the log loss, so that one confident mistake does not
	// decide a mean.
	leastProbability = 1e-6
	// mostConfused bounds the confusion matrix of a split: 4 MB.
	mostConfused = 724
)

// AddQuality adds what the final probabilities (n × k) of a message are worth:
// log loss, Brier score, bins of confidence and, unless there are very many
// classes, the confusion matrix.
func (s *Sum) AddQuality(rows Rows, probabilities kernel.Dense, predicted []int32) {
	k := probabilities.Cols
	quality := s.Field(schemas.FieldQuality, schemas.Splits, 2)
	bins := s.Field(schemas.FieldBins, schemas.Splits, qualityBins, 3)
	var confusion []float64
	if k <= mostConfused {
		confusion = s.Field(schemas.FieldConfusion, schemas.Splits, k, k)
	}
	for i, class := range rows.Classes {
		if class == schemas.Unlabelled {
			continue
		}
		split, w, row := int(rows.Splits[i]), float64(rows.Weights[i]), probabilities.Row(i)
		if confusion != nil {
			confusion[(split*k+int(class))*k+int(predicted[i])]++
		}
		if w == 0 {
			continue
		}
		quality[2*split] -= w * math.Log(max(float64(row[class]), leastProbability))
		brier := 0.0
		for c, p := range row {
			d := float64(p)
			if int32(c) == class {
				d--
			}
			brier += d * d
		}
		quality[2*split+1] += w * brier
		confidence := float64(row[predicted[i]])
		bin := 0 // of a NaN, which scores that have overflown end as
		if confidence > 0 {
			bin = min(int(confidence*qualityBins), qualityBins-1)
		}
		at := bins[(split*qualityBins+bin)*3:]
		at[0] += w
		at[1] += w * confidence
		if predicted[i] == class {
			at[2] += w
		}
	}
}

// Quality is what AddQuality's sums say of one split.
type Quality struct {
	LogLoss   float64
	Brier     float64
	ECE       float64   // expected calibration error
	Confusion [][]int64 // [true][predicted] rows; nil if there are too many classes
}

// QualityOf reads the quality of a split over k classes.
func (s *Sum) QualityOf(split schemas.Split, k int) (q Quality) {
	weight := schemas.ScoresOf(s.fields)[split].Weight
	if weight == 0 {
		return q
	}
	quality := s.Field(schemas.FieldQuality, schemas.Splits, 2)[2*split:]
	q.LogLoss, q.Brier = quality[0]/weight, quality[1]/weight
	for bin := range slicesOf(s.Field(schemas.FieldBins, schemas.Splits, qualityBins, 3), int(split), qualityBins, 3) {
		q.ECE += math.Abs(bin[1]-bin[2]) / weight
	}
	if k <= mostConfused {
		for row := range slicesOf(s.Field(schemas.FieldConfusion, schemas.Splits, k, k), int(split), k, k) {
			counts := make([]int64, k)
			for c, n := range row {
				counts[c] = int64(n)
			}
			q.Confusion = append(q.Confusion, counts)
		}
	}
	return q
}

// slicesOf yields the rows of slice i of an array of rows × cols slices.
func slicesOf(data []float64, i, rows, cols int) func(func([]float64) bool) {
	return func(yield func([]float64) bool) {
		for r := range rows {
			if at := (i*rows + r) * cols; !yield(data[at : at+cols]) {
				return
			}
		}
	}
}
