package accumulate

import (
	"math"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// maxRanked bounds the number of classes with histograms, which take up to 3 MB of memory per measured segment.
const maxRanked = 100

// dense is the suffix of the name of a ranking with all values. Other rankings consist of pairs: see [Sum.Pack].
const dense = "/dense"

// histograms describes the histograms of the probabilities of k classes: one per class, count of them, from class first
// on. Two classes have only that of the second: the probability of the first is its complement.
type histograms struct {
	grid
	count, first int
}

func histogramsOf(k int) histograms {
	switch {
	case k < 2 || k > maxRanked:
		return histograms{}
	case k == 2:
		return histograms{gridOf(1), 1, 1}
	}
	return histograms{gridOf(k), k, 0}
}

// size is the number of values of the histograms of one split.
func (h histograms) size() int { return h.count * h.bins() * 2 }

// AddRanking adds the sums behind measures of the final probabilities (n × k) of rows with one label each that depend on more than one row,
// such as the area under the ROC curve. Up to 100 classes, these are histograms of the probability of each class, in the rows of the class
// and in the others; up to 724 classes, the rows by class and by predicted class, and the rows predicted correctly. With a threshold above
// 0 on the probability of the second of two classes, it also adds the decisions of the threshold.
func (s *Sum) AddRanking(rows Rows, probabilities kernel.Dense, predicted []int32, threshold float64) {
	k := probabilities.Cols
	if rows.Task != examples.OneLabel {
		return
	}
	h := histogramsOf(k)
	var classes, ranking, decided []float64
	if k <= maxConfusionClasses {
		classes = s.Field(statistics.FieldClasses, examples.Splits, 4, k)
	}
	if h.count > 0 {
		ranking = s.Field(statistics.FieldRanking+dense, examples.Splits, h.count, h.bins(), 2)
	}
	if threshold > 0 && k == 2 {
		decided = s.Field(statistics.FieldDecided, examples.Splits, 2, 2)
	}
	for i, class := range rows.Classes {
		if class < 0 {
			continue
		}
		split, w, row := int(rows.Splits[i]), float64(rows.Weights[i]), probabilities.Row(i)
		if classes != nil {
			of := classes[split*4*k:]
			of[class]++
			of[k+int(class)] += w
			if of[2*k+int(predicted[i])] += w; predicted[i] == class {
				of[3*k+int(class)] += w
			}
		}
		if w == 0 {
			continue
		}
		for c := range h.count {
			at := 2 * ((split*h.count+c)*h.bins() + h.bin(row[h.first+c]))
			if int(class) == h.first+c {
				at++
			}
			ranking[at] += w
		}
		if decided != nil {
			at := split*4 + int(class)*2
			if float64(row[1]) >= threshold {
				at++
			}
			decided[at] += w
		}
	}
}

// Pack converts the histograms to pairs of an index and its value, as most values are 0. Only packed sums merge and have measures.
func (s *Sum) Pack() {
	for i, f := range s.fields {
		name, ok := strings.CutSuffix(f.Name, dense)
		if !ok {
			continue
		}
		var pairs []float64
		for at, v := range f.Data {
			if v != 0 {
				pairs = append(pairs, float64(at), v)
			}
		}
		s.fields[i] = wire.Matrix(name, len(pairs)/2, 2, pairs)
	}
}

// rankingOf returns the histograms of a split over k classes; nil if there are none.
func (s *Sum) rankingOf(split examples.Split, h histograms) []float64 {
	if h.count == 0 {
		return nil
	}
	from, ranking := int(split)*h.size(), make([]float64, h.size())
	f, ok := s.Tensors().Find(statistics.FieldRanking)
	if !ok {
		return nil
	}
	for i := 0; i+1 < len(f.Data); i += 2 {
		if at := int(f.Data[i]) - from; at >= 0 && at < h.size() {
			ranking[at] = f.Data[i+1]
		}
	}
	return ranking
}

// MeasuresOf returns the measures of a split over k classes from the sums of [Sum.AddRanking], which must be packed.
// Undefined measures are absent.
func (s *Sum) MeasuresOf(split examples.Split, k int) (m statistics.ClassMeasures) {
	if _, ok := s.Tensors().Find(statistics.FieldClasses); !ok || k > maxConfusionClasses {
		return m
	}
	of := s.read(statistics.FieldClasses, examples.Splits, 4, k)[int(split)*4*k:]
	have, given, right, weight := of[k:2*k], of[2*k:3*k], of[3*k:4*k], 0.0
	for _, w := range have {
		weight += w
	}
	if weight == 0 {
		return m
	}
	recalls, present := 0.0, 0.0
	for c := range k {
		m.Precision = append(m.Precision, statistics.Ratio(right[c], given[c]))
		m.Recall = append(m.Recall, statistics.Ratio(right[c], have[c]))
		m.F1 = append(m.F1, statistics.Ratio(2*right[c], given[c]+have[c]))
		if have[c] > 0 {
			recalls, present = recalls+m.Recall[c], present+1
		}
	}
	m.BalancedError = percent(1 - recalls/present)
	if majority := s.MajorityOf(k); majority >= 0 {
		m.MajorityError = percent(1 - have[majority]/weight)
	}
	h := histogramsOf(k)
	ranking := s.rankingOf(split, h)
	if ranking == nil {
		return m
	}
	var auc, precision, ranked float64
	for c := range h.count {
		area, average, ok := h.areas(ranking[c*h.bins()*2:][:h.bins()*2])
		if !ok && have[h.first+c] > 0 { // all rows are of the class
			return m
		}
		w := have[h.first+c]
		auc, precision, ranked = auc+w*area, precision+w*average, ranked+w
	}
	if ranked > 0 {
		auc, precision = auc/ranked, precision/ranked
		m.AUC, m.AveragePrecision = &auc, &precision
	}
	return m
}

// areas returns the area under the ROC curve of a histogram, and the average precision. Rows in one bin count as rows
// with the same probability: the error of the area is at most half the fraction of pairs, of a row of the class and
// another row, that share a bin. It returns false if there are no pairs.
func (h histograms) areas(of []float64) (auc, averagePrecision float64, ok bool) {
	var positive, negative float64
	for at := 0; at < len(of); at += 2 {
		auc += of[at+1] * (negative + of[at]/2)
		negative, positive = negative+of[at], positive+of[at+1]
	}
	if positive == 0 || negative == 0 {
		return 0, 0, false
	}
	var right, given float64
	for at := len(of) - 2; at >= 0; at -= 2 {
		right, given = right+of[at+1], given+of[at]+of[at+1]
		if of[at+1] > 0 {
			averagePrecision += of[at+1] * right / given
		}
	}
	return auc / (positive * negative), averagePrecision / positive, true
}

// MajorityOf returns the class with the most training rows, the first of a tie; −1 if it is unknown.
func (s *Sum) MajorityOf(k int) int {
	if _, ok := s.Tensors().Find(statistics.FieldClasses); !ok || k > maxConfusionClasses {
		return -1
	}
	rows, majority := s.read(statistics.FieldClasses, examples.Splits, 4, k)[int(examples.Train)*4*k:][:k], 0
	for c, n := range rows {
		if n > rows[majority] {
			majority = c
		}
	}
	if rows[majority] == 0 {
		return -1
	}
	return majority
}

// DecisionAt returns the decisions of a threshold on the probability of the second of two classes: Σw by true class,
// then by predicted class. The threshold must be a result of [Sum.ThresholdOf], or that of [Sum.AddRanking].
func (s *Sum) DecisionAt(split examples.Split, threshold float64) (d statistics.Decision) {
	if _, ok := s.Tensors().Find(statistics.FieldDecided); ok {
		of := s.read(statistics.FieldDecided, examples.Splits, 2, 2)[int(split)*4:]
		return statistics.Decision{{of[0], of[1]}, {of[2], of[3]}}
	}
	h := histogramsOf(2)
	for at, w := range s.rankingOf(split, h) {
		given := 0
		if h.edge(at/2) >= threshold {
			given = 1
		}
		d[at%2][given] += w
	}
	return d
}

// ThresholdOf returns the threshold whose decisions have the least cost in a split of two classes; ties go to the
// threshold nearest to 1/2. It returns false if the split lacks rows of either class.
func (s *Sum) ThresholdOf(split examples.Split, cost func(statistics.Decision) float64) (threshold float64, ok bool) {
	h := histogramsOf(2)
	of := s.rankingOf(split, h)
	var d statistics.Decision // initially, all rows are predicted as the first class
	for at, w := range of {
		d[at%2][0] += w
	}
	if d[0][0] == 0 || d[1][0] == 0 {
		return 0.5, false
	}
	least := math.Inf(1)
	for bin := h.bins() - 1; bin > 0; bin-- {
		for class := range d {
			d[class][0] -= of[2*bin+class]
			d[class][1] += of[2*bin+class]
		}
		edge := h.edge(bin)
		if c := cost(d); c < least || c == least && math.Abs(edge-0.5) < math.Abs(threshold-0.5) {
			threshold, least = edge, c
		}
	}
	return threshold, true
}

func percent(part float64) *float64 {
	part *= 100
	return &part
}

// grid is the bins of probabilities: perHalving bins per halving of a probability, or of its complement, down to 2⁻²⁰.
// So the bins also resolve the probabilities of a rare class. A probability is in bin b or above if and only if it is
// at least edge(b).
type grid struct{ perHalving int }

const (
	// finest is the end of the grid: about the probability at which the log loss is clipped.
	finest = 1.0 / (1 << 20)
	// halvings is the number of halvings from 1/2 to finest.
	halvings = 19
)

// gridOf returns the grid of the given number of histograms. It is coarser for more, as each segment has them in memory.
func gridOf(histograms int) grid {
	switch {
	case histograms <= 1:
		return grid{256}
	case histograms <= 10:
		return grid{64}
	}
	return grid{16}
}

// bins returns the number of bins.
func (g grid) bins() int { return 2*halvings*g.perHalving + 2 }

// steps returns the number of bins between finest and a number up to 1/2. The bits of positive float32 numbers sort like the numbers.
func (g grid) steps(bits uint32) int {
	return int(uint64(bits-math.Float32bits(finest)) * uint64(g.perHalving) >> 23)
}

// bin returns the bin of a probability.
func (g grid) bin(p float32) int {
	switch rest := 1 - p; { // exact if p ≥ 1/2
	case !(p >= finest): // also for a NaN, from overflowed scores
		return 0
	case p < 0.5:
		return 1 + g.steps(math.Float32bits(p))
	case rest <= finest:
		return g.bins() - 1
	default: // one bit less: a complement on an edge belongs to the bin of smaller complements
		return g.bins() - 2 - g.steps(math.Float32bits(rest)-1)
	}
}

// edge returns the least probability of a bin.
func (g grid) edge(bin int) float64 {
	step := func(n int) float64 {
		return float64(math.Float32frombits(math.Float32bits(finest) + uint32(n<<23/g.perHalving)))
	}
	half := halvings * g.perHalving
	switch {
	case bin == 0:
		return 0
	case bin <= half:
		return step(bin - 1)
	}
	return 1 - step(2*half+1-bin)
}
