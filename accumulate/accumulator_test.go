package accumulate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// message is the block, residuals and weights of one message.
type message struct {
	block, residual kernel.Dense
	weights         []float32
}

func messageOf(r *rand.Rand, n, p, k int, weight func() float32) message {
	m := message{kernel.NewDense(n, p), kernel.NewDense(n, k), make([]float32, n)}
	for i := range m.block.Data {
		m.block.Data[i] = float32(r.NormFloat64())
	}
	for i := range m.residual.Data {
		m.residual.Data[i] = float32(r.NormFloat64())
	}
	for i := range m.weights {
		m.weights[i] = weight()
	}
	return m
}

func one() float32 { return 1 }

// moments are sums in float64, row by row, with the sums of absolute values that rounding is relative to.
type moments struct{ gram, cross, gramSize, crossSize []float64 }

func momentsOf(p, k int, messages []message) moments {
	m := moments{make([]float64, p*(p+1)/2), make([]float64, p*k), make([]float64, p*(p+1)/2), make([]float64, p*k)}
	for _, one := range messages {
		for n, w := range one.weights {
			if w == 0 {
				continue
			}
			x, y, at := one.block.Row(n), one.residual.Row(n), 0
			for i := range p {
				wx := float64(w) * float64(x[i])
				for j := range i + 1 {
					m.gram[at] += wx * float64(x[j])
					m.gramSize[at] += math.Abs(wx * float64(x[j]))
					at++
				}
				for c, v := range y {
					m.cross[i*k+c] += wx * float64(v)
					m.crossSize[i*k+c] += math.Abs(wx * float64(v))
				}
			}
		}
	}
	return m
}

func (m moments) check(t *testing.T, sum *Sum, relative float64) {
	t.Helper()
	for name, want := range map[string][2][]float64{statistics.FieldGram: {m.gram, m.gramSize}, statistics.FieldCross: {m.cross,
		m.crossSize}} {
		got, ok := sum.Tensors().Find(name)
		if !ok && !slices.ContainsFunc(want[1], func(v float64) bool { return v != 0 }) {
			continue // an absent field is zero
		}
		assert.Need(t, ok && len(got.Data) == len(want[0]), "%s is %v, expected %d values", name, got.Shape, len(want[0]))
		for i, v := range got.Data {
			assert.Near(t, v, want[0][i], relative*want[1][i], "%s[%d]", name, i)
		}
	}
}

func accumulated(a *Accumulator, p, k int, messages ...message) *Sum {
	a.Begin(p, k, true)
	for _, m := range messages {
		a.Add(m.block, m.residual, m.weights)
		a.AddGram(m.block, m.weights)
	}
	return a.End()
}

func TestAccumulatorAgainstFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a := &Accumulator{BLAS: kernel.Gonum()}
	weights := map[string]func() float32{
		"ones":     one,
		"zeros":    func() float32 { return 0 },
		"counts":   func() float32 { return float32(r.IntN(3)) },
		"fraction": func() float32 { return r.Float32() * 3 },
	}
	for _, p := range []int{1, 63, 64, 65} {
		for _, k := range []int{1, 10} {
			for name, weight := range weights {
				t.Run(fmt.Sprint(p, k, name), func(t *testing.T) {
					var messages []message
					for _, n := range []int{64, 0, 1, 65, 63} {
						messages = append(messages, messageOf(r, n, p, k, weight))
					}
					momentsOf(p, k, messages).check(t, accumulated(a, p, k, messages...), 1e-6)
				})
			}
		}
	}
}

// A row of weight 2 counts as the row twice. A row of weight 0 does not count, whatever values it holds.
func TestWeights(t *testing.T) {
	const p, k = 7, 3
	r := rand.New(rand.NewPCG(4, 1))
	weighted := messageOf(r, 100, p, k, func() float32 { return float32(r.IntN(3)) })
	repeated := message{block: kernel.Dense{Cols: p}, residual: kernel.Dense{Cols: k}}
	for i, w := range weighted.weights {
		for range int(w) {
			repeated.block.Data = append(repeated.block.Data, weighted.block.Row(i)...)
			repeated.residual.Data = append(repeated.residual.Data, weighted.residual.Row(i)...)
			repeated.weights = append(repeated.weights, 1)
		}
		if w == 0 {
			weighted.block.Row(i)[i%p] = float32(math.Inf(1))
			weighted.residual.Row(i)[0] = float32(math.NaN())
		}
	}
	repeated.block.Rows, repeated.residual.Rows = len(repeated.weights), len(repeated.weights)
	want := momentsOf(p, k, []message{repeated})
	want.check(t, accumulated(&Accumulator{BLAS: kernel.Gonum()}, p, k, repeated), 1e-6)
	want.check(t, accumulated(&Accumulator{BLAS: kernel.Gonum()}, p, k, weighted), 1e-6)
}

// 2^24 + 1 has no float32: adding 1 to a float32 sum would lose it.
func TestTilesKeepWhatOneFloat32Loses(t *testing.T) {
	const n, times = 4096, 5
	m := message{kernel.NewDense(n, 1), kernel.NewDense(n, 1), slices.Repeat([]float32{1}, n)}
	for i := range m.block.Data {
		m.block.Data[i], m.residual.Data[i] = 64, 1 // each tile adds 2^24 to the Gram matrix
	}
	small := message{kernel.NewDense(1, 1), kernel.NewDense(1, 1), []float32{1}}
	small.block.Data[0] = 1
	messages := append(slices.Repeat([]message{m}, times), small)
	sum := accumulated(&Accumulator{BLAS: kernel.Gonum()}, 1, 1, messages...)
	assert.Equal(t, sum.Field(statistics.FieldGram, 1)[0], times<<24+1, "the sum")
}

// A segment has nothing of the one before it, also if that was abandoned.
func TestEmptySegmentIsZeros(t *testing.T) {
	a, m := &Accumulator{BLAS: kernel.Gonum()}, messageOf(rand.New(rand.NewPCG(1, 1)), 10, 3, 2, one)
	accumulated(a, 3, 2, m)
	a.Begin(3, 2, true)
	a.Add(m.block, m.residual, m.weights)
	a.AddGram(m.block, m.weights)
	sum := accumulated(a, 3, 2)
	for _, f := range sum.Tensors() {
		for _, v := range f.Data {
			assert.Need(t, v == 0, "%s of no rows is %v", f.Name, f.Data)
		}
	}
	assert.Equal(t, len(sum.Tensors()), 1, "fields of an empty segment")
}

func TestExactAgainstFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	e := &Exact{BLAS: kernel.Gonum()}
	for _, p := range []int{3, 30, 65} {
		const k = 4
		var messages []message
		for _, n := range []int{64, 0, 5000, 63} {
			messages = append(messages, messageOf(r, n, p, k, func() float32 { return float32(r.IntN(3)) }))
		}
		sum := &Sum{}
		e.Begin(p, k)
		for _, m := range messages {
			e.Add(m.block, m.residual, m.weights)
		}
		e.End(sum)
		momentsOf(p, k, messages).check(t, sum, 1e-13)
	}
}

// The field block has the values of the Gram matrix that are not 0, whatever was summed before, and fields of several segments add up.
func TestBlockIsGramMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var b Block
	for _, p := range []int{1, 63, 64, 65, 130} {
		for _, ones := range []bool{false, true} {
			cols := p
			if ones {
				cols--
			}
			want, total := make([]float64, p*(p+1)/2), &Sum{}
			for segment := range 3 {
				b.Begin(p)
				for range 2 {
					var x kernel.Sparse
					x.Begin(cols)
					x.Ones = ones
					weights := make([]float32, 30)
					for i := range weights {
						weights[i] = float32(i % 3)
						row := make([]float64, p)
						for j := range cols {
							if r.IntN(20) > 0 {
								continue
							}
							v := float32(r.NormFloat64())
							if row[j] = float64(v); weights[i] == 0 {
								v = float32(math.NaN())
							}
							x.Columns, x.Values = append(x.Columns, int32(j)), append(x.Values, v)
						}
						if ones {
							row[cols] = 1
						}
						for i2, at := 0, 0; i2 < p; i2++ {
							for j := range i2 + 1 {
								want[at] += float64(weights[i]) * row[i2] * row[j]
								at++
							}
						}
						x.End()
					}
					b.Add(x, weights)
				}
				sum := &Sum{Coverage: coverage.Coverage{Spans: coverage.Spans{{From: int64(segment), To: int64(segment) + 1}}}}
				b.End(sum)
				assert.NoError(t, total.Merge(sum))
			}
			block, _ := total.Tensors().Find(statistics.FieldBlock)
			before := -1.0
			for pairs := block.Data; len(pairs) > 0; pairs = pairs[2:] {
				place, v := int(pairs[0]), pairs[1]
				assert.Need(t, pairs[0] > before && math.Abs(v-want[place]) <= 1e-9,
					"%d columns, ones %v: place %v after %v has %v, expected %v", p, ones, pairs[0], before, v, want[place])
				before, want[place] = pairs[0], 0
			}
			for place, v := range want {
				assert.True(t, v == 0, "%d columns, ones %v: the value of place %d is missing", p, ones, place)
			}
		}
	}
	misshapen := NewSum(coverage.Coverage{}, wire.Tensors[float64]{wire.Vector(statistics.FieldBlock, []float64{1})})
	well := NewSum(coverage.Coverage{}, wire.Tensors[float64]{wire.Matrix(statistics.FieldBlock, 1, 2, []float64{1, 2})})
	assert.Fails(t, well.Merge(misshapen), new(*wire.ShapeError))
}

// Moments about the mean of the first message keep the variance of a column whose mean is 10,000 times its deviation. About
// 0, float32 would lose it.
func TestMomentsOfAColumnFarFromZero(t *testing.T) {
	const n, mean = 20_000, 1e4
	r := rand.New(rand.NewPCG(1, 1))
	x, ones := kernel.NewDense(n, 1), kernel.NewDense(n, 1)
	first, second := 0.0, 0.0
	for i := range n {
		x.Data[i], ones.Data[i] = float32(mean+r.NormFloat64()), 1
		first, second = first+(float64(x.Data[i])-mean), second+(float64(x.Data[i])-mean)*(float64(x.Data[i])-mean)
	}
	want := second/n - first/n*first/n
	for _, shift := range []float32{mean, mean + 0.03} {
		a, c := &Accumulator{BLAS: kernel.Gonum()}, kernel.Dense{Rows: n, Cols: 1, Data: slices.Clone(x.Data)}
		a.Begin(1, 1, true)
		a.Sum().AddColumns(c, []float32{shift}, ones.Data)
		for from := 0; from < n; from += 1000 {
			a.Add(c.Slice(from, from+1000), ones.Slice(from, from+1000), ones.Data[from:from+1000])
			a.AddGram(c.Slice(from, from+1000), ones.Data[from:from+1000])
		}
		sum := a.End()
		shifted := sum.Field(statistics.FieldCross, 1, 1)[0] / n
		for name, square := range map[string]float64{"squares": sum.Field(statistics.FieldSquares, 1)[0],
			"gram": sum.Field(statistics.FieldGram, 1)[0]} {
			assert.Near(t, square/n-shifted*shifted, want, 1e-5, "about %v the variance from %s", shift, name)
		}
	}
}

// offered is a row that is offered to samples.
type offered struct {
	hash uint64
	row  []float32
}

// The sample is the rows of the smallest hashes, however the rows are split and in whatever order they are offered.
func TestSample(t *testing.T) {
	for _, n := range []int{0, 1, SampleRows - 1, SampleRows, SampleRows + 1, 3 * SampleRows} {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		all := make([]offered, n)
		for i := range all {
			all[i] = offered{r.Uint64(), []float32{float32(i), -float32(i)}}
		}
		var want []float32
		smallest := slices.SortedFunc(slices.Values(all), func(a, b offered) int { return cmp.Compare(a.hash, b.hash) })
		for _, d := range smallest[:min(n, SampleRows)] {
			want = append(want, d.row...)
		}
		for range 4 {
			r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
			split := make([]Sample, 1+r.IntN(5))
			row := make([]float32, 2)
			for _, d := range all {
				copy(row, d.row) // offered rows are copied
				split[r.IntN(len(split))].Offer(d.hash, row)
			}
			total := &Sample{}
			for i := range split {
				total.Merge(&split[i])
			}
			again := &Sample{}
			assert.NoError(t, again.MergeRecord(total.Record(wire.Identity{}), nil))
			for _, s := range []*Sample{total, again} {
				got := s.Rows()
				assert.Need(t, slices.Equal(got.Data, want) && got.Rows == min(n, SampleRows), "%d of %d rows: not the smallest hashes", got.Rows, n)
			}
			few := &Sample{Max: 1 + r.IntN(SampleRows)}
			few.Merge(total)
			got := few.Rows().Data
			assert.Need(t, slices.Equal(got, want[:min(len(want), 2*few.Max)]), "at most %d rows: %v are not the smallest hashes", few.Max, got)
			again.Merge(total) // shares no memory with total
			total.Offer(0, []float32{7, 7})
		}
	}
}

// A damaged record has rows of another width: they are an error, and the sample stays as it is.
func TestSampleOfOtherWidth(t *testing.T) {
	narrow, wide := &Sample{}, &Sample{}
	narrow.Offer(1, []float32{1})
	wide.Offer(2, []float32{1, 2})
	var shape *wire.ShapeError
	err := narrow.MergeRecord(wide.Record(wire.Identity{}), nil)
	assert.True(t, errors.As(err, &shape), "error %v", err)
	assert.Equal(t, narrow.Rows().Data, []float32{1}, "rows")
	assert.NoError(t, narrow.MergeRecord((&Sample{}).Record(wire.Identity{}), nil))
}
