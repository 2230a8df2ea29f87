package accumulate

import (
	"iter"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

const (
	// qualityBins is the number of bins of confidence for the expected calibration error (Guo et al. 2017 use 15).
	qualityBins = 15
	// minProbability bounds the log loss of a row, so that one confident mistake does not decide a mean.
	minProbability = 1e-6
	// maxConfusionClasses bounds the confusion matrix of a split: 4 MB.
	maxConfusionClasses = 724
)

// AddQuality adds the metrics of the final probabilities (n × k) of the labelled rows: log loss, Brier score, bins of
// confidence and, up to 724 classes, the confusion matrix. predicted is the class that each row predicts. Of rows of numbers it adds what
// AddDistances does, of rows with several labels what AddLabels does.
func (s *Sum) AddQuality(rows Rows, probabilities kernel.Dense, predicted []int32) {
	k := probabilities.Cols
	switch rows.Task {
	case examples.Numbers:
		s.AddDistances(rows, probabilities)
		return
	case examples.SeveralLabels:
		s.AddLabels(rows, probabilities)
		return
	}
	quality := s.Field(statistics.FieldQuality, examples.Splits, 2)
	bins := s.Field(statistics.FieldBins, examples.Splits, qualityBins, 3)
	var confusion []float64
	if k <= maxConfusionClasses {
		confusion = s.Field(statistics.FieldConfusion, examples.Splits, k, k)
	}
	for i, class := range rows.Classes {
		if class < 0 {
			continue
		}
		split, w, row := int(rows.Splits[i]), float64(rows.Weights[i]), probabilities.Row(i)
		if confusion != nil {
			confusion[(split*k+int(class))*k+int(predicted[i])]++
		}
		if w == 0 {
			continue
		}
		quality[2*split] -= w * math.Log(max(float64(row[class]), minProbability))
		brier := 0.0
		for c, p := range row {
			d := float64(p)
			if int32(c) == class {
				d--
			}
			brier += d * d
		}
		if k == 2 { // as it is defined for two classes, by the probability of one of them
			brier /= 2
		}
		quality[2*split+1] += w * brier
		confidence := float64(row[predicted[i]])
		bin := 0 // also for a NaN, which comes of scores that have overflown
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

// Quality is the metrics of the probabilities of one split. It is zero if the split has no labelled rows.
type Quality struct {
	LogLoss float64 // mean of −log p of the true class
	// mean squared distance of the probabilities from the indicator of the class, half of it for two classes, as
	// brier_score_loss of scikit-learn
	Brier     float64
	ECE       float64                  // expected calibration error, from 0 to 1
	Confusion [][]int64                // rows by [true][predicted] class; nil if there are more than 724 classes
	Bins      []schemas.ReliabilityBin // those that have rows, in order
}

// QualityOf reads the quality of a split over k classes from the sums of AddQuality and AddLosses.
func (s *Sum) QualityOf(split examples.Split, k int) (q Quality) {
	weight := statistics.LossesOf(s.fields)[split].Weight
	if weight == 0 {
		return q
	}
	quality := s.read(statistics.FieldQuality, examples.Splits, 2)[2*split:]
	q.LogLoss, q.Brier = quality[0]/weight, quality[1]/weight
	for bin := range rowsOf(s.read(statistics.FieldBins, examples.Splits, qualityBins, 3), int(split), qualityBins, 3) {
		q.ECE += math.Abs(bin[1]-bin[2]) / weight
		if bin[0] > 0 {
			q.Bins = append(q.Bins, schemas.ReliabilityBin{Weight: bin[0], Confidence: bin[1] / bin[0], Accuracy: bin[2] / bin[0]})
		}
	}
	if _, has := s.Tensors().Find(statistics.FieldConfusion); has && k <= maxConfusionClasses {
		for row := range rowsOf(s.read(statistics.FieldConfusion, examples.Splits, k, k), int(split), k, k) {
			counts := make([]int64, k)
			for c, n := range row {
				counts[c] = int64(n)
			}
			q.Confusion = append(q.Confusion, counts)
		}
	}
	return q
}

// rowsOf yields the rows of matrix i of an array of rows × cols matrices.
func rowsOf(data []float64, i, rows, cols int) iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		for r := range rows {
			if at := (i*rows + r) * cols; !yield(data[at : at+cols]) {
				return
			}
		}
	}
}
