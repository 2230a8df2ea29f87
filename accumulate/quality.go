package accumulate

import (
	"math"
	"slices"

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
// confidence and, up to 724 classes, the confusion matrix. predicted is the class that each row predicts. For rows of
// numbers it is AddDistances, for rows with several labels AddLabels.
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
		if k == 2 { // the Brier score of two classes is that of one probability
			brier /= 2
		}
		quality[2*split+1] += w * brier
		confidence := float64(row[predicted[i]])
		bin := 0 // also for a NaN, from overflowed scores
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
	Bins      []schemas.ReliabilityBin // bins with rows, in order
}

// QualityOf reads the quality of a split over k classes from the sums of AddQuality and AddLosses.
func (s *Sum) QualityOf(split examples.Split, k int) (q Quality) {
	weight := statistics.LossesOf(s.fields)[split].Weight
	if weight == 0 {
		return q
	}
	quality := s.read(statistics.FieldQuality, examples.Splits, 2)[2*split:]
	q.LogLoss, q.Brier = quality[0]/weight, quality[1]/weight
	bins := s.read(statistics.FieldBins, examples.Splits, qualityBins, 3)
	for bin := range slices.Chunk(bins[int(split)*qualityBins*3:][:qualityBins*3], 3) {
		q.ECE += math.Abs(bin[1]-bin[2]) / weight
		if bin[0] > 0 {
			q.Bins = append(q.Bins, schemas.ReliabilityBin{Weight: bin[0], Confidence: bin[1] / bin[0], Accuracy: bin[2] / bin[0]})
		}
	}
	if _, has := s.Tensors().Find(statistics.FieldConfusion); has && k <= maxConfusionClasses {
		for row := range slices.Chunk(s.read(statistics.FieldConfusion, examples.Splits, k, k)[int(split)*k*k:][:k*k], k) {
			counts := make([]int64, k)
			for c, n := range row {
				counts[c] = int64(n)
			}
			q.Confusion = append(q.Confusion, counts)
		}
	}
	return q
}

// thresholds is the number of steps between thresholds, which are hundredths.
const thresholds = 100

// rankings is the number of cutoffs of the precision: the 1, 3 and 5 most probable labels.
const rankings = 3

// thresholdOf returns the greatest threshold, in hundredths, at which a label with this probability is predicted.
func thresholdOf(p float32) int {
	if !(p > 0) { // also for a NaN, from overflowed scores
		return 0
	}
	return min(int(float64(p)*thresholds), thresholds-1)
}

// AddLabels adds the metrics of the final probabilities (n × k) of labelled rows that may have several labels: log loss
// and Brier score, each a mean over the labels, bins of the labels' probabilities, and the sums behind the metrics at
// every threshold.
func (s *Sum) AddLabels(rows Rows, probabilities kernel.Dense) {
	k := probabilities.Cols
	quality := s.Field(statistics.FieldQuality, examples.Splits, 2)
	bins := s.Field(statistics.FieldBins, examples.Splits, qualityBins, 3)
	hits := s.Field(statistics.FieldHits, examples.Splits, thresholds, 2, k)
	subset := s.Field(statistics.FieldSubset, examples.Splits, thresholds+1)
	precision := s.Field(statistics.FieldRanks, examples.Splits, rankings)
	order := make([]int, k)
	for i, class := range rows.Classes {
		w := float64(rows.Weights[i])
		if class < 0 || w == 0 {
			continue
		}
		split, target, row := int(rows.Splits[i]), rows.Targets.Row(i), probabilities.Row(i)
		lacks, has := 0, thresholds-1 // the row is right at thresholds above lacks, up to has
		for c, p := range row {
			bin, y, q := thresholdOf(p), 0, float64(p)
			if target[c] > 0.5 {
				y, has = 1, min(has, bin)
				quality[2*split] -= w / float64(k) * math.Log(max(q, minProbability))
			} else {
				lacks = max(lacks, bin)
				quality[2*split] -= w / float64(k) * math.Log(max(1-q, minProbability))
			}
			quality[2*split+1] += w / float64(k) * (q - float64(y)) * (q - float64(y))
			hits[((split*thresholds+bin)*2+y)*k+c] += w
			at := bins[(split*qualityBins+min(bin*qualityBins/thresholds, qualityBins-1))*3:]
			at[0] += w
			at[1] += w * q
			at[2] += w * float64(y)
		}
		if lacks < has {
			subset[split*(thresholds+1)+lacks+1] += w
			subset[split*(thresholds+1)+has+1] -= w
		}
		for c := range order {
			order[c] = c
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case row[a] > row[b]:
				return -1
			case row[a] < row[b]:
				return 1
			}
			return 0
		})
		for r, n := range [rankings]int{1, 3, 5} {
			n, right := min(n, k), 0.0
			for _, c := range order[:n] {
				right += float64(target[c])
			}
			precision[split*rankings+r] += w * right / float64(n)
		}
	}
}

// LabelMetrics are the metrics of a split of rows that may have several labels, at one threshold.
type LabelMetrics struct{ Hamming, MicroF1, MacroF1, SubsetAccuracy float64 }

// LabelsOf returns the metrics of a split at every threshold, in hundredths from 1 to 99; nil if it has no labelled rows.
func (s *Sum) LabelsOf(split examples.Split, k int) []LabelMetrics {
	weight := statistics.LossesOf(s.fields)[split].Weight
	if weight == 0 {
		return nil
	}
	hits := s.read(statistics.FieldHits, examples.Splits, thresholds, 2, k)[int(split)*thresholds*2*k:]
	subset := s.read(statistics.FieldSubset, examples.Splits, thresholds+1)[int(split)*(thresholds+1):]
	given, right, have := make([]float64, k), make([]float64, k), make([]float64, k) // Σw of rows by label
	for bin := range thresholds {
		for c := range k {
			have[c] += hits[(bin*2+1)*k+c]
		}
	}
	metrics, whole := make([]LabelMetrics, thresholds), 0.0
	for bin := thresholds - 1; bin > 0; bin-- {
		m, wrong, rights, all := &metrics[bin], 0.0, 0.0, 0.0
		for c := range k {
			given[c] += hits[bin*2*k+c] + hits[(bin*2+1)*k+c]
			right[c] += hits[(bin*2+1)*k+c]
			wrong += given[c] + have[c] - 2*right[c]
			rights, all = rights+right[c], all+given[c]+have[c]
			if both := given[c] + have[c]; both > 0 {
				m.MacroF1 += 2 * right[c] / both / float64(k)
			}
		}
		m.Hamming = wrong / (weight * float64(k))
		if all > 0 {
			m.MicroF1 = 2 * rights / all
		}
	}
	for bin := 1; bin < thresholds; bin++ {
		whole += subset[bin]
		metrics[bin].SubsetAccuracy = whole / weight
	}
	return metrics[1:]
}

// PrecisionOf returns the precision of the 1, 3 and 5 most probable labels of a split with labelled rows, keyed by these numbers.
func (s *Sum) PrecisionOf(split examples.Split) map[string]float64 {
	weight, precision := statistics.LossesOf(s.fields)[split].Weight, map[string]float64{}
	sums := s.read(statistics.FieldRanks, examples.Splits, rankings)[int(split)*rankings:]
	for r, name := range [rankings]string{"1", "3", "5"} {
		precision[name] = sums[r] / max(weight, math.SmallestNonzeroFloat64)
	}
	return precision
}

// ThresholdsOf returns the threshold that is best for each metric in a split of the sums; 1/2 for all if it has no
// labelled rows. Ties go to the threshold nearest to 1/2.
func (s *Sum) ThresholdsOf(split examples.Split, k int) statistics.Thresholds {
	metrics := s.LabelsOf(split, k)
	best := func(value func(LabelMetrics) float64) float64 {
		at := thresholds/2 - 1
		for i := range metrics {
			if d := value(metrics[i]) - value(metrics[at]); d > 0 || d == 0 && distance(i) < distance(at) {
				at = i
			}
		}
		return float64(at+1) / thresholds
	}
	return statistics.Thresholds{
		Hamming: best(func(m LabelMetrics) float64 { return -m.Hamming }), MicroF1: best(func(m LabelMetrics) float64 { return m.MicroF1 }),
		MacroF1:        best(func(m LabelMetrics) float64 { return m.MacroF1 }),
		SubsetAccuracy: best(func(m LabelMetrics) float64 { return m.SubsetAccuracy }),
	}
}

// distance returns the distance between 1/2 and the threshold at an index, in hundredths.
func distance(at int) int { return max(at+1-thresholds/2, thresholds/2-at-1) }

// LabelsAt returns the metrics of a split, each at its own threshold; nil if the split has no labelled rows.
func (s *Sum) LabelsAt(split examples.Split, k int, t statistics.Thresholds) *LabelMetrics {
	metrics := s.LabelsOf(split, k)
	if metrics == nil {
		return nil
	}
	at := func(threshold float64) LabelMetrics {
		return metrics[max(0, min(int(math.Round(threshold*thresholds))-1, len(metrics)-1))]
	}
	return &LabelMetrics{at(t.Hamming).Hamming, at(t.MicroF1).MicroF1, at(t.MacroF1).MacroF1, at(t.SubsetAccuracy).SubsetAccuracy}
}
