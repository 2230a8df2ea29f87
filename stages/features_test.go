package stages

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

const seed = 5

// plain returns an identity preparation for m inputs with a median squared distance of spread.
func plain(m int, spread float64) *Preparation {
	p := &Preparation{Center: make([]float32, m), Scale: make([]float32, m), Spread: spread}
	for j := range p.Scale {
		p.Scale[j] = 1
	}
	return p
}

func normals(rows, cols int, scale float64) kernel.Dense {
	r, x := rand.New(rand.NewPCG(1, uint64(rows*cols))), kernel.NewDense(rows, cols)
	for i := range x.Data {
		x.Data[i] = float32(scale * r.NormFloat64())
	}
	return x
}

func mustMap(t *testing.T, f schemas.Features, stage int, p *Preparation, scores int, intercept bool) *Map {
	t.Helper()
	return assert.Must(NewMap(f, seed, stage, p, scores, intercept))(t)
}

func expand(m *Map, x, predictions kernel.Dense) kernel.Dense {
	var block, scratch kernel.Dense
	m.Expand(kernel.Gonum(), &block, &scratch, x, predictions)
	return block
}

func variants(size int) []schemas.Features {
	return []schemas.Features{
		{Kind: RFF, Size: size, BandwidthScale: 2, Degree: 2},
		{Kind: SORF, Size: size, BandwidthScale: 2, Degree: 2},
		{Kind: Logits, Size: size, BandwidthScale: 2, Degree: 2},
		{Kind: Polynomial, Size: size, BandwidthScale: 2, Degree: 3},
		{Kind: Columns, Size: size, BandwidthScale: 1, Degree: 1},
		{Kind: Columns, Size: size, BandwidthScale: 1, Degree: 1, Replacement: true},
	}
}

// A map expands to the features computed one by one in float64 from the documented draws, followed by the previous
// predictions and the intercept.
func TestExpandAgainstTheDefinition(t *testing.T) {
	const inputs, rows, stage, spread = 70, 9, 3, 11.0
	x, predictions := normals(rows, inputs, 1), normals(rows, 4, 1)
	for _, size := range []int{1, 63, 64, 65} {
		for _, f := range variants(size) {
			for _, extra := range []struct {
				scores    int
				intercept bool
			}{{0, false}, {0, true}, {4, false}, {4, true}} {
				t.Run(fmt.Sprint(f.Kind, size, f.Replacement, extra), func(t *testing.T) {
					m := mustMap(t, f, stage, plain(inputs, spread), extra.scores, extra.intercept)
					block, width := expand(m, x, predictions), size+extra.scores
					assert.Equal(t, m.Penalised(), width, "columns that are penalised")
					if extra.intercept {
						width++
					}
					assert.Need(t, block.Rows == rows && block.Cols == width && m.Size() == width,
						"the block is %d × %d of a map of %d, expected %d × %d", block.Rows, block.Cols, m.Size(), rows, width)
					for i := range rows {
						want := defined(f, stage, spread, x.Row(i))
						if extra.scores > 0 {
							want = append(want, oracle.Wide(predictions.Row(i))...)
						}
						if extra.intercept {
							want = append(want, 1)
						}
						for j, v := range block.Row(i) {
							assert.Near(t, float64(v), want[j], 2e-5*(1+math.Abs(want[j])), "feature %d of row %d", j, i)
						}
					}
				})
			}
		}
	}
}

// defined returns the features of one row by their definition.
func defined(f schemas.Features, stage int, spread float64, x []float32) []float64 {
	out, m := make([]float64, f.Size), len(x)
	deviation := math.Sqrt(2 / (spread * f.BandwidthScale))
	of := func(purpose uint64) written { return stream(seed, uint64(stage), purpose) }
	project := func(s written, j int) float64 {
		sum := 0.0
		for i, v := range x {
			sum += deviation * s.normal(uint64(j*m+i)) * float64(v)
		}
		return sum
	}
	var angles []float64
	if f.Kind == SORF {
		angles = structured(x, stage, f.Size, deviation)
	}
	columns := make([]int, m)
	for i := range columns {
		columns[i] = i
	}
	for j := range out {
		u := uint64(j)
		switch {
		case f.Kind == RFF:
			out[j] = math.Sqrt(2/float64(f.Size)) * math.Cos(project(of(1), j)+2*math.Pi*of(2).uniform(u))
		case f.Kind == SORF:
			out[j] = math.Sqrt(2/float64(f.Size)) * math.Cos(angles[j]+2*math.Pi*of(2).uniform(u))
		case f.Kind == Logits:
			out[j] = 1 / (1 + math.Exp(-project(of(1), j)-of(2).normal(u)))
		case f.Kind == Polynomial:
			out[j] = 1
			for l := range 1 + int(of(4).uniform(u)*float64(f.Degree)) {
				out[j] *= project(of(1+16*uint64(l)), j)
			}
		case f.Replacement:
			out[j] = float64(x[int(of(3).uniform(u)*float64(m))])
		default:
			k := j + int(of(3).uniform(u)*float64(m-j))
			columns[j], columns[k] = columns[k], columns[j]
			out[j] = float64(x[columns[j]])
		}
	}
	return out
}

func TestLargerBlockBeginsWithTheSmaller(t *testing.T) {
	p, x := plain(100, 3), normals(5, 100, 1)
	for i, f := range variants(40) {
		small := expand(mustMap(t, f, 0, p, 0, false), x, kernel.Dense{})
		large := expand(mustMap(t, variants(65)[i], 0, p, 0, false), x, kernel.Dense{})
		scale := 1.0
		if f.Kind == RFF || f.Kind == SORF { // the amplitude is √(2/p)
			scale = math.Sqrt(65.0 / 40)
		}
		for i := range x.Rows {
			for j, v := range small.Row(i) {
				assert.Near(t, float64(v), scale*float64(large.Row(i)[j]), 1e-5, "%s: feature %d of row %d of 40 rows, and of 65", f.Kind, j, i)
			}
		}
	}
}

// columnsOf returns the inputs that a map of columns takes.
func columnsOf(t *testing.T, f schemas.Features, inputs int) []int {
	x := kernel.NewDense(1, inputs)
	for j := range x.Data {
		x.Data[j] = float32(j)
	}
	var columns []int
	for _, v := range expand(mustMap(t, f, 0, plain(inputs, 1), 0, false), x, kernel.Dense{}).Data {
		columns = append(columns, int(v))
	}
	return columns
}

func TestColumns(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, size := range []int{0, 10} {
		assert.Equal(t, columnsOf(t, schemas.Features{Kind: Columns, Size: size}, 10), all, "size %d of 10", size)
	}
	distinct := columnsOf(t, schemas.Features{Kind: Columns, Size: 63}, 64)
	slices.Sort(distinct)
	assert.Equal(t, len(slices.Compact(distinct)), 63, "different columns, 63 of 64 without replacement")
	repeated := columnsOf(t, schemas.Features{Kind: Columns, Size: 1000, Replacement: true}, 10)
	slices.Sort(repeated)
	assert.Equal(t, slices.Compact(repeated), all, "1000 of 10 with replacement")
	_, err := NewMap(schemas.Features{Kind: Columns, Size: 11}, seed, 0, plain(10, 1), 0, false)
	var tooMany *SizeError
	assert.True(t, errors.As(err, &tooMany) && tooMany.Size == 11 && tooMany.Inputs == 10, "11 of 10 without replacement: %v", err)
}

// Every field of the configuration has a key, in the order of the fields, and every kind is documented.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		fields any
		keys   []option.Key
	}{{schemas.Features{}, Keys()}, {schemas.Prepare{}, PrepareKeys()}} {
		var fields, names []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(c.fields)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, name)
		}
		for _, k := range c.keys {
			names = append(names, k.Name)
			assert.True(t, k.Meaning != "" && !strings.ContainsAny(k.Meaning, "|\n"), "%s: the meaning %q is no cell of a table", k.Name, k.Meaning)
		}
		assert.Equal(t, names, fields, "the keys")
	}
	for k := range kinds {
		assert.True(t, strings.Contains(Keys()[0].Meaning, "`"+k.name+"` ("+k.meaning+")"), "the meaning of kind lacks %s", k.name)
		for _, key := range k.keys {
			documented := func(s option.Key) bool { return s.Name == key.Name && strings.Contains(s.Meaning, key.Meaning) }
			assert.True(t, slices.ContainsFunc(Keys(), documented), "%s: the documentation of %s lacks what it means to this kind", k.name, key.Name)
		}
		problems := Check(DefaultsOf(k.name))
		assert.True(t, len(problems) == 0, "%s: the defaults: %v", k.name, problems)
	}
	assert.Equal(t, DefaultsOf("fourier"), Defaults(), "the defaults of no kind")
}

// BenchmarkExpand computes blocks of 1024 features of tiles of 64 rows, like a worker.
func BenchmarkExpand(b *testing.B) {
	blas := assert.Must(kernel.Open(""))(b)
	for _, inputs := range []int{50, 784} {
		for _, kind := range []string{RFF, SORF} {
			b.Run(fmt.Sprint(kind, "/", inputs), func(b *testing.B) {
				m, err := NewMap(schemas.Features{Kind: kind, Size: 1024, BandwidthScale: 2}, seed, 0, plain(inputs, float64(2*inputs)), 0, false)
				assert.NoError(b, err)
				var block, scratch kernel.Dense
				x := normals(64, inputs, 1)
				m.Expand(blas, &block, &scratch, x, kernel.Dense{})
				for b.Loop() {
					m.Expand(blas, &block, &scratch, x, kernel.Dense{})
				}
			})
		}
	}
}

func TestVariants(t *testing.T) {
	image := []float32{
		1, 2, 3,
		4, 5, 6,
	}
	for a, want := range map[schemas.Augment][][]float32{
		{}:                       nil,
		{Mirror: true}:           {{3, 2, 1, 6, 5, 4}},
		{Shift: 1}:               {{2, 3, 3, 5, 6, 6}, {1, 1, 2, 4, 4, 5}, {4, 5, 6, 4, 5, 6}, {1, 2, 3, 1, 2, 3}},
		{Mirror: true, Shift: 2}: nil, // only their number
	} {
		var got [][]float32
		for _, v := range Variants(a) {
			dst := make([]float32, len(image))
			v.Of(dst, image, examples.Image{2, 3, 1})
			got = append(got, dst)
		}
		assert.Equal(t, len(got), a.Rows()-1, "%+v: variants, and one of the row itself", a)
		assert.True(t, a.Shift >= 2 || slices.EqualFunc(got, want, slices.Equal[[]float32]), "%+v: %v, expected %v", a, got, want)
		different := map[string]bool{fmt.Sprint(image): true}
		for _, v := range got {
			different[fmt.Sprint(v)] = true
		}
		// An image of two rows shifted by 2 equals one shifted by 1.
		assert.True(t, len(different) == a.Rows() || a.Shift >= 2, "%+v: two variants are the same", a)
	}
	colours, dst := []float32{1, 10, 2, 20}, make([]float32, 4)
	Variant{mirrored: true}.Of(dst, colours, examples.Image{1, 2, 2})
	assert.Equal(t, dst, []float32{2, 20, 1, 10}, "two channels mirrored")
}

// drawnBy returns the columns that each stage of a plan draws from the given number.
func drawnBy(t *testing.T, list []schemas.Stage, inputs int) (all [][]int) {
	t.Helper()
	x := kernel.NewDense(1, inputs)
	for j := range x.Data {
		x.Data[j] = float32(j)
	}
	for number, s := range list {
		m := mustMap(t, s.Features, number, plain(inputs, 1), 0, false)
		m.After(s.Drawn)
		var columns []int
		for _, v := range expand(m, x, kernel.Dense{}).Data {
			columns = append(columns, int(v))
		}
		all = append(all, columns)
	}
	return all
}

// Stages that draw without replacement draw each column once before any twice, for any sizes. The first draws the same as by itself.
func TestColumnsAreDrawnAcrossStages(t *testing.T) {
	stage := func(size int) schemas.Stage {
		return schemas.Stage{Features: schemas.Features{Kind: Columns, Size: size}}
	}
	for _, test := range []struct {
		inputs int
		sizes  []int
	}{{64, slices.Repeat([]int{16}, 8)}, {65, slices.Repeat([]int{16}, 9)}, {63, slices.Repeat([]int{20}, 10)}, {10, []int{4, 3, 5, 1, 2, 5, 4}},
		{8, []int{8, 8, 3}}} {
		var list []schemas.Stage
		for _, size := range test.sizes {
			list = append(list, stage(size))
		}
		placed, times, total := Placed(list, nil), make([]int, test.inputs), 0
		all := drawnBy(t, placed, test.inputs)
		assert.Equal(t, all[0], drawnBy(t, list[:1], test.inputs)[0],
			"%v of %d: what the first stage draws, and by itself", test.sizes, test.inputs)
		for i, columns := range all {
			assert.Equal(t, len(slices.Compact(slices.Sorted(slices.Values(columns)))), test.sizes[i],
				"%v of %d: different columns of stage %d", test.sizes, test.inputs, i)
			for _, c := range columns {
				times[c]++
			}
			total += len(columns)
			least, most := total/test.inputs, (total+test.inputs-1)/test.inputs
			assert.True(t, slices.Min(times) >= least && slices.Max(times) <= most, "%v of %d, to stage %d: %v", test.sizes, test.inputs, i, times)
		}
	}
}

// Only stages that draw without replacement continue others, and those of an earlier plan keep their draws.
func TestPlaced(t *testing.T) {
	columns, other := schemas.Features{Kind: Columns, Size: 3}, Defaults()
	list := []schemas.Stage{{Features: other}, {Features: columns}, {Features: schemas.Features{Kind: Columns}},
		{Features: schemas.Features{Kind: Columns, Size: 3, Replacement: true}}, {Features: columns}, {Features: columns}}
	placed := Placed(list, nil)
	want := []schemas.Draw{{Stage: 1, Size: 3}, {Stage: 4, Size: 3}}
	for i, s := range placed {
		n := max(i-3, 0)
		assert.True(t, len(s.Drawn) == n && (n <= 0 || slices.Equal(s.Drawn, want[:n])), "stage %d goes on from %v", i, s.Drawn)
		assert.NoError(t, CheckDrawn(s, i))
	}
	again := Placed(placed, &schemas.Plan{Stages: list})
	assert.True(t, again[4].Drawn == nil && again[5].Drawn == nil, "earlier releases go on from %v and %v", again[4].Drawn, again[5].Drawn)
	for _, drawn := range [][]schemas.Draw{{{Stage: 4, Size: 3}}, {{Stage: 1, Size: 3}, {Stage: 1, Size: 3}}, {{Stage: 1, Size: 0}}, {{Stage: -1, Size: 1}}} {
		err := CheckDrawn(schemas.Stage{Features: columns, Drawn: drawn}, 4)
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%v: %v", drawn, err)
	}
}

// A component that does not support sparse rows needs dense ones, unless another component requires sparse ones.
func TestNeedDense(t *testing.T) {
	stage := func(kind string) schemas.Stage { return schemas.Stage{Features: DefaultsOf(kind)} }
	scores, some := stage(Columns), stage(Columns)
	scores.Scores, some.Features.Size = true, 3
	for name, test := range map[string]struct {
		prepare schemas.Prepare
		stages  []schemas.Stage
		want    bool
	}{
		"no stages":             {schemas.Prepare{}, nil, false},
		"columns":               {schemas.Prepare{}, []schemas.Stage{stage(Columns)}, false},
		"unit":                  {schemas.Prepare{Scale: "unit"}, []schemas.Stage{stage(Columns)}, false},
		"standard":              {schemas.Prepare{Scale: "standard"}, []schemas.Stage{stage(Columns)}, true},
		"components":            {schemas.Prepare{PCA: 2}, []schemas.Stage{stage(Columns)}, true},
		"Fourier":               {schemas.Prepare{}, []schemas.Stage{stage(Columns), stage(RFF)}, true},
		"trees":                 {schemas.Prepare{}, []schemas.Stage{stage(Trees)}, true},
		"scores":                {schemas.Prepare{}, []schemas.Stage{scores}, true},
		"some columns":          {schemas.Prepare{}, []schemas.Stage{some}, true},
		"counts and Fourier":    {schemas.Prepare{}, []schemas.Stage{stage(RFF), stage(ClassCounts)}, false},
		"Fourier after the idf": {schemas.Prepare{IDF: 1}, []schemas.Stage{stage(RFF)}, false},
	} {
		assert.Equal(t, NeedDense(test.prepare, test.stages, false), test.want, "%s: dense rows are needed", name)
	}
}

// written is a second implementation of Stream, from its documentation alone.
type written struct{ key uint64 }

func mix(z uint64) uint64 {
	z1 := z + 0x9e3779b97f4a7c15
	z2 := (z1 ^ z1/(1<<30)) * 0xbf58476d1ce4e5b9
	z3 := (z2 ^ z2/(1<<27)) * 0x94d049bb133111eb
	return z3 ^ z3/(1<<31)
}

func stream(seed, stage, purpose uint64) written { return written{mix(mix(mix(seed)^stage) ^ purpose)} }

func (w written) word(i uint64) uint64     { return mix(w.key + i*0x9e3779b97f4a7c15) }
func (w written) uniform(i uint64) float64 { return (float64(w.word(i)/(1<<12)) + 0.5) / (1 << 52) }

func (w written) normal(i uint64) float64 {
	j := i / 2
	radius, angle := math.Sqrt(-2*math.Log(w.uniform(2*j))), 2*math.Pi*w.uniform(2*j+1)
	if i%2 == 0 {
		return radius * math.Cos(angle)
	}
	return radius * math.Sin(angle)
}

func TestStreamIsAsDocumented(t *testing.T) {
	for _, seed := range []uint64{0, 1, math.MaxUint64} {
		for stage := range 3 {
			for _, purpose := range []uint64{drawDirections, drawOffsets, drawDirections + 16*7} {
				s, w := NewStream(seed, stage, purpose), stream(seed, uint64(stage), purpose)
				for _, i := range []uint64{0, 1, 2, 3, 1001, 1 << 40} {
					assert.Need(t, s.Word(i) == w.word(i) && s.Uniform(i) == w.uniform(i) && s.Normal(i) == w.normal(i),
						"draw %d of (%d, %d, %d) is %x, %v, %v, documented %x, %v, %v", i, seed, stage, purpose, s.Word(i), s.Uniform(i), s.Normal(i),
						w.word(i), w.uniform(i), w.normal(i))
					assert.Equal(t, s.Below(i, 10), int(w.uniform(i)*10), "draw %d below 10", i)
				}
			}
		}
	}
}

// Features are drawn if two stages of them have different blocks; learnt features are learnt from draws.
func TestDrawn(t *testing.T) {
	const inputs = 20
	x := normals(9, inputs, 1)
	all := schemas.Features{Kind: Columns, Size: 0, BandwidthScale: 1, Degree: 1}
	for _, f := range append(variants(10), all) {
		first, second := expand(mustMap(t, f, 0, plain(inputs, 1), 0, false), x, x), expand(mustMap(t, f, 1, plain(inputs, 1), 0, false), x, x)
		assert.Equal(t, Drawn(f), !slices.Equal(first.Data, second.Data), "%s is drawn", Describe(f))
	}
	for kind, want := range map[string]bool{Patches: true, PatchPolynomial: true, Gradient: false, ClassCounts: false, "unknown": false} {
		f := DefaultsOf(kind)
		f.Kind = kind
		assert.Equal(t, Drawn(f), want, "%s is drawn", kind)
	}
}

// FORMAT.md specifies the features of each kind, for implementations in other languages.
func TestFormatHasAllKinds(t *testing.T) {
	_, page, _ := strings.Cut(string(assert.Must(os.ReadFile("../schemas/FORMAT.md"))(t)), "\n## Predictions\n")
	for k := range kinds {
		assert.True(t, strings.Contains(page, "\n| `"+k.name+"` | "), "FORMAT.md has no formula of the features %s", k.name)
	}
}

// Monomials may overflow when their inputs do not. Such a row has only its intercept.
func TestBlockThatOverflows(t *testing.T) {
	p := assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleNone}, wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, []float32{0, 0}), wire.Vector(statistics.TensorScale, []float32{1, 1}),
		wire.Vector(statistics.TensorSpread, []float32{2}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}))(t)
	f := DefaultsOf(Polynomial)
	f.Size, f.Degree = 8, 4
	m := assert.Must(NewMap(f, 1, 0, p, 0, true))(t)
	x := kernel.Dense{Rows: 3, Cols: 2, Data: []float32{1, 2, 1e9, -1e9, 0, 0}}
	var block, alone, scratch kernel.Dense
	overflowed := m.Expand(kernel.Gonum(), &block, &scratch, x, kernel.Dense{})
	m.Expand(kernel.Gonum(), &alone, &scratch, x.Slice(0, 1), kernel.Dense{})
	want := append(make([]float32, 8), 1)
	assert.True(t, slices.Equal(overflowed, []int{1}) && slices.Equal(block.Row(1), want) && slices.Equal(block.Row(0), alone.Row(0)),
		"block %v, of which %v overflow", block, overflowed)
	assert.Equal(t, m.Overflowed(block, x), 1, "rows that have overflowed")
}

// Components that require dense rows reject sparse ones, and vice versa.
func TestSparseRowsAreRefused(t *testing.T) {
	prepared := assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleNone}, wire.Tensors[float32]{
		wire.Vector(statistics.TensorFactors, []float32{1, 1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}))(t)
	for _, f := range []schemas.Features{DefaultsOf(RFF), DefaultsOf(SORF), DefaultsOf(Logits), DefaultsOf(Polynomial),
		{Kind: Columns, Size: 1}} {
		_, err := NewMap(f, 1, 0, prepared, 0, true)
		assert.True(t, errors.As(err, new(*DenseError)), "%+v: %v, expected a DenseError", f, err)
	}
	assert.MustFail(NewMap(DefaultsOf(Columns), 1, 0, prepared, 2, true))(t, new(*DenseError))
}

// Slopes are mean gradients, as central differences at many points of the path have them, and add up to the rise of the score.
func TestSlopesAreMeanGradients(t *testing.T) {
	const inputs, k, points, step = 7, 2, 64, 1.0 / 32
	for _, f := range variants(5) {
		t.Run(fmt.Sprint(f.Kind, f.Replacement), func(t *testing.T) {
			m := mustMap(t, f, 1, plain(inputs, 11), 0, true)
			x, w, blas := normals(1, inputs, 1), normals(m.Size(), k, 1), kernel.Gonum()
			x.Data[3] = 0
			slopes := kernel.NewDense(inputs, k)
			m.AddSlopes(blas, slopes, x.Data, w)
			score := func(t float64, input int, by float64) kernel.Dense {
				at, scores := kernel.NewDense(1, inputs), kernel.NewDense(1, k)
				for i, v := range x.Data {
					at.Data[i] = float32(t * float64(v))
				}
				at.Data[input] += float32(by)
				blas.Mul(scores, expand(m, at, kernel.Dense{}), w, false)
				return scores
			}
			for out := range k {
				rise := float64(score(1, 0, 0).Data[out] - score(0, 0, 0).Data[out])
				for i, v := range x.Data {
					rise -= float64(v) * float64(slopes.Row(i)[out])
					want := 0.0
					for q := range points {
						at := (float64(q) + 0.5) / points
						want += float64(score(at, i, step).Data[out]-score(at, i, -step).Data[out]) / (2 * step * points)
					}
					assert.Near(t, float64(slopes.Row(i)[out]), want, 2e-3*(1+math.Abs(want)), "the slope of input %d", i)
				}
				assert.Near(t, rise, 0, 1e-5, "what the score rises more than the slopes say")
			}
		})
	}
}

// structured returns the angles w·x of the first size features of a row, by the definition of [SORF], in float64 and
// without a fast transform.
func structured(x []float32, stage, size int, deviation float64) []float64 {
	n := 64
	for n < len(x) {
		n *= 2
	}
	draws := stream(seed, uint64(stage), 5)
	var angles []float64
	for t := 0; t*n < size; t++ {
		v := make([]float64, n)
		copy(v, oracle.Wide(x))
		for r := range 3 {
			flipped := make([]float64, n)
			for i := range v {
				sign := 1 - 2*float64(draws.word(uint64((3*t+r)*n+i))>>63)
				flipped[i] = sign * v[i]
			}
			for i := range v {
				v[i] = 0
				for j, f := range flipped {
					sign := 1 - 2*float64(bits.OnesCount(uint(i&j))%2)
					v[i] += sign * f / math.Sqrt(float64(n))
				}
			}
		}
		for _, value := range v {
			angles = append(angles, deviation*math.Sqrt(float64(n))*value)
		}
	}
	return angles[:size]
}

func TestStructuredFeaturesAgainstTheDefinition(t *testing.T) {
	const spread = 11
	for _, inputs := range []int{1, 2, 50, 63, 64, 65, 200} {
		x := normals(3, inputs, 1)
		for _, size := range []int{1, 63, 64, 65, 300} {
			f := schemas.Features{Kind: SORF, Size: size, BandwidthScale: 2}
			block := expand(mustMap(t, f, 1, plain(inputs, spread), 0, true), x, kernel.Dense{})
			for i := range x.Rows {
				want := defined(f, 1, spread, x.Row(i))
				for j, v := range block.Row(i)[:size] {
					assert.Near(t, float64(v), want[j], 1e-5, "%d inputs, size %d: feature %d of row %d", inputs, size, j, i)
				}
			}
		}
	}
}

// signs returns n times 1 or −1.
func signs(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(1 - 2*r.IntN(2))
	}
	return s
}

// The bits are those of a level-by-level transform, and do not depend on neighbouring vectors.
func TestHadamardAddsInOneOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := 8; n <= 2048; n *= 2 {
		const vectors = 3
		x, diagonal := make([]float32, vectors*n), signs(r, vectors*n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		want := slices.Clone(x)
		for i, d := range diagonal {
			want[i] *= d
		}
		for h := 1; h < n; h *= 2 {
			for i := range want {
				if i&h == 0 {
					want[i], want[i+h] = want[i]+want[i+h], want[i]-want[i+h]
				}
			}
		}
		hadamard(x, diagonal, n)
		assert.True(t, slices.Equal(x, want), "n = %d has other bits than level by level", n)
	}
}
