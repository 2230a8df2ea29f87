package stages

import (
	"fmt"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// maxKnots is the maximum number of knots of a column: its scores are linear between them.
const maxKnots = 129

// Ranks turns columns of numbers into normal scores: a number becomes the normal quantile of its rank in the survey's
// sample. So heavy tails and units make no difference. Each column with missing values in the sample has an additional
// input that indicates missing values. It is immutable.
type Ranks struct {
	from    []int       // offset of the knots of each feature, and then the number of all knots; features of words have none
	x, z    []float32   // of all knots: the number, and its score
	missing []indicator // the additional inputs
}

// indicator is an input that indicates missing values.
type indicator struct {
	feature       int
	center, scale float32
}

// LearnRanks returns the additional tensors of a preparation by ranks. It overwrites the given moments of the features:
// numbers get those of their normal scores, and the indicators of a word's column share one scale, with which their
// variances add up to 1. sample is raw rows (n × d). If columns is nil, each feature is a column.
func LearnRanks(columns examples.Columns, sample kernel.Dense, center, scale []float32) wire.Tensors[float32] {
	if columns == nil {
		columns = make(examples.Columns, sample.Cols)
	}
	counts, knots, missing, feature := make([]float32, sample.Cols), []float32{}, []float32{}, 0
	for _, column := range columns {
		if n := column.Features(); n > 1 {
			shareScale(scale[feature:][:n])
			feature += n
			continue
		}
		values, lacking := valuesOf(sample, feature)
		x, z := knotsOf(values)
		for i := range x {
			knots = append(knots, x[i], z[i])
		}
		counts[feature] = float32(len(x))
		center[feature], scale[feature] = scoreMoments(values, x, z)
		if lacking > 0 && len(values) > 0 {
			share := float64(lacking) / float64(sample.Rows)
			missing = append(missing, float32(feature), float32(share), float32(1/math.Sqrt(share*(1-share))))
		}
		feature++
	}
	return wire.Tensors[float32]{
		wire.Vector(statistics.TensorKnotCounts, counts), wire.Matrix(statistics.TensorKnots, len(knots)/2, 2, knots),
		wire.Matrix(statistics.TensorMissing, len(missing)/3, 3, missing),
	}
}

// shareScale replaces the scales of indicators by a common one, from the sum of their variances.
func shareScale(scale []float32) {
	variance := 0.0
	for _, s := range scale {
		if s > 0 {
			variance += 1 / (float64(s) * float64(s))
		}
	}
	for i, s := range scale {
		if s > 0 {
			scale[i] = float32(1 / math.Sqrt(variance))
		}
	}
}

// valuesOf returns the values of a feature, ascending, and the number of missing ones.
func valuesOf(sample kernel.Dense, feature int) (values []float32, missing int) {
	for i := range sample.Rows {
		if v := sample.Row(i)[feature]; v == v {
			values = append(values, v)
		} else {
			missing++
		}
	}
	slices.Sort(values)
	return values, missing
}

// knotsOf returns the knots of ascending values: at evenly spaced ranks, each with the normal quantile of the mean rank
// of its ties.
func knotsOf(values []float32) (x, z []float32) {
	n := len(values)
	step := max(1, (n-1+maxKnots-2)/(maxKnots-1))
	for i := 0; i < n; i += step {
		if n-1-i < step {
			i = n - 1
		}
		v := values[i]
		if len(x) > 0 && x[len(x)-1] == v {
			continue
		}
		first, _ := slices.BinarySearch(values, v)
		last := first
		for last < n && values[last] == v {
			last++
		}
		rank := (float64(first) + float64(last)) / 2 / float64(n)
		x, z = append(x, v), append(z, float32(math.Sqrt2*math.Erfinv(2*rank-1)))
	}
	return x, z
}

// scoreMoments returns the mean of the scores of values, and the inverse of their deviation; 0 if they do not differ.
func scoreMoments(values, x, z []float32) (center, scale float32) {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		s := float64(scoreOf(v, x, z))
		sum += s
		squares += float64(s * s)
	}
	n := float64(max(len(values), 1))
	mean := sum / n
	if variance := squares/n - float64(mean*mean); len(x) > 1 && variance > 0 {
		scale = float32(1 / math.Sqrt(variance))
	}
	return float32(mean), scale
}

// scoreOf returns the score of a number by linear interpolation between knots, and that of the outermost knot beyond
// them.
func scoreOf(v float32, x, z []float32) float32 {
	i, at := slices.BinarySearch(x, v)
	switch {
	case at:
		return z[i]
	case i == 0:
		return z[0]
	case i == len(x):
		return z[i-1]
	}
	part := (float64(v) - float64(x[i-1])) / (float64(x[i]) - float64(x[i-1]))
	return float32(float64(z[i-1]) + float64(part*(float64(z[i])-float64(z[i-1]))))
}

// readRanks reads the result of LearnRanks for rows of the given number of features; nil if there is none.
func readRanks(t wire.Tensors[float32], width int) (*Ranks, error) {
	counts, err := t.Optional(statistics.TensorKnotCounts, width)
	if counts == nil {
		return nil, err
	}
	knots, err := t.Shaped(statistics.TensorKnots, -1, 2)
	if err != nil {
		return nil, err
	}
	missing, err := t.Shaped(statistics.TensorMissing, -1, 3)
	if err != nil {
		return nil, err
	}
	r := &Ranks{from: make([]int, 1, width+1)}
	for i := 0; i < len(knots); i += 2 {
		r.x, r.z = append(r.x, knots[i]), append(r.z, knots[i+1])
	}
	for j, count := range counts {
		end := r.from[j] + int(count)
		if !(count >= 0 && count <= maxKnots) || end > len(r.x) {
			return nil, fmt.Errorf("%w: feature %d has %v knots", wire.ErrDamaged, j, count)
		}
		for i := r.from[j]; i < end; i++ {
			if !(r.x[i]-r.x[i] == 0) || i > r.from[j] && !(r.x[i] > r.x[i-1]) {
				return nil, fmt.Errorf("%w: knot %d of feature %d is not above the one before it", wire.ErrDamaged, i-r.from[j], j)
			}
		}
		r.from = append(r.from, end)
	}
	if r.from[width] != len(r.x) {
		return nil, fmt.Errorf("%w: %d knots, expected %d", wire.ErrDamaged, len(r.x), r.from[width])
	}
	for of := range slices.Chunk(missing, 3) {
		if !(of[0] >= 0 && of[0] < float32(width)) || of[0] != float32(int(of[0])) {
			return nil, fmt.Errorf("%w: feature %v of %d may be missing", wire.ErrDamaged, of[0], width)
		}
		r.missing = append(r.missing, indicator{int(of[0]), of[1], of[2]})
	}
	return r, nil
}

// apply writes the inputs of raw rows (n × d) into dst (n × (d + the indicators)), and overwrites raw with the scores.
func (r *Ranks) apply(dst, raw kernel.Dense, center, scale []float32) {
	for i := range raw.Rows {
		row, to := raw.Row(i), dst.Row(i)
		for at, m := range r.missing {
			lacks := float32(0)
			if v := row[m.feature]; v != v {
				lacks = 1
			}
			to[raw.Cols+at] = (lacks - m.center) * m.scale
		}
		for j, v := range row {
			if from, end := r.from[j], r.from[j+1]; end > from && v == v {
				row[j] = scoreOf(v, r.x[from:end], r.z[from:end])
			}
		}
	}
	kernel.Standardize(raw, center, scale)
	for i := range raw.Rows {
		copy(dst.Row(i), raw.Row(i))
	}
}

// add is apply in a graph, without the standardisation: it returns the scores of rows, with a number in place of each
// missing value, and the additional inputs, if there are any.
func (r *Ranks) add(g *onnx.Graph, rows, raw onnx.Value, width int) (scores, missing onnx.Value) {
	segments := 1
	for j := range width {
		segments = max(segments, r.from[j+1]-r.from[j]-1)
	}
	size := width * segments
	left, length, rise := make([]float32, size), slices.Repeat([]float32{1}, size), make([]float32, size)
	first, itself := make([]float32, width), slices.Repeat([]float32{1}, width) // factors of features without knots
	for j := range width {
		from, end := r.from[j], r.from[j+1]
		if end == from {
			continue
		}
		first[j], itself[j] = r.z[from], 0
		for i := from; i+1 < end; i++ {
			at := j*segments + i - from
			left[at], length[at], rise[at] = r.x[i], r.x[i+1]-r.x[i], r.z[i+1]-r.z[i]
		}
	}
	x := g.Node("Unsqueeze", rows, g.Integers(2))
	part := g.Node("Div", g.Node("Sub", x, g.Floats(left, width, segments)), g.Floats(length, width, segments))
	part = g.Node("Min", g.Node("Max", part, g.Number(0)), g.Number(1))
	sum := g.Node("Squeeze", g.Node("ReduceSum", g.Node("Mul", part, g.Floats(rise, width, segments)), g.Integers(2)), g.Integers(2))
	scores = g.Node("Add", g.Node("Add", sum, g.Row(first)), g.Node("Mul", rows, g.Row(itself)))
	if len(r.missing) == 0 {
		return scores, ""
	}
	features, centers, scales := make([]int64, len(r.missing)), make([]float32, len(r.missing)), make([]float32, len(r.missing))
	for i, m := range r.missing {
		features[i], centers[i], scales[i] = int64(m.feature), m.center, m.scale
	}
	lacks := g.Node("Where", g.Node("IsNaN", g.Along(1, "Gather", raw, g.Integers(features...))), g.Number(1), g.Number(0))
	return scores, g.Node("Mul", g.Node("Sub", lacks, g.Row(centers)), g.Row(scales))
}
