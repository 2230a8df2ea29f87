package stages

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages/prepare"
)

const seed = 5

// plain returns an identity preparation for m inputs with a median squared distance of spread.
func plain(m int, spread float64) *prepare.Preparation {
	p := &prepare.Preparation{Center: make([]float32, m), Scale: make([]float32, m), Spread: spread}
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

func mustMap(t *testing.T, f schemas.Features, stage int, p *prepare.Preparation, scores int, intercept bool) *Map {
	t.Helper()
	m := arrowtest.Must(NewMap(f, seed, stage, p, scores, intercept))(t)
	return m
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
					if m.Penalised() != width {
						t.Errorf("%d columns are penalised, expected %d", m.Penalised(), width)
					}
					if extra.intercept {
						width++
					}
					if block.Rows != rows || block.Cols != width || m.Size() != width {
						t.Fatalf("the block is %d × %d of a map of %d, expected %d × %d", block.Rows, block.Cols, m.Size(), rows, width)
					}
					for i := range rows {
						want := defined(f, stage, spread, x.Row(i))
						if extra.scores > 0 {
							want = append(want, oracle.Wide(predictions.Row(i))...)
						}
						if extra.intercept {
							want = append(want, 1)
						}
						for j, v := range block.Row(i) {
							if math.Abs(float64(v)-want[j]) > 2e-5*(1+math.Abs(want[j])) {
								t.Fatalf("feature %d of row %d is %v, expected %v", j, i, v, want[j])
							}
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
		larger := variants(65)[i]
		large := expand(mustMap(t, larger, 0, p, 0, false), x, kernel.Dense{})
		scale := 1.0
		if f.Kind == RFF || f.Kind == SORF { // the amplitude is √(2/p)
			scale = math.Sqrt(65.0 / 40)
		}
		for i := range x.Rows {
			for j, v := range small.Row(i) {
				if w := scale * float64(large.Row(i)[j]); math.Abs(float64(v)-w) > 1e-5 {
					t.Fatalf("%s: feature %d of row %d is %v of 40, %v of 65", f.Kind, j, i, v, w)
				}
			}
		}
	}
}

func TestLogitsLieBetweenZeroAndOne(t *testing.T) {
	f := schemas.Features{Kind: Logits, Size: 65, BandwidthScale: 1}
	block := expand(mustMap(t, f, 0, plain(3, 1), 0, false), normals(50, 3, 1e6), kernel.Dense{})
	for i, v := range block.Data {
		if !(v >= 0 && v <= 1) {
			t.Fatalf("value %d is %v", i, v)
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
		if got := columnsOf(t, schemas.Features{Kind: Columns, Size: size}, 10); !slices.Equal(got, all) {
			t.Errorf("size %d of 10 is %v", size, got)
		}
	}
	distinct := columnsOf(t, schemas.Features{Kind: Columns, Size: 63}, 64)
	slices.Sort(distinct)
	if got := len(slices.Compact(distinct)); got != 63 {
		t.Errorf("63 of 64 without replacement are %d different columns", got)
	}
	repeated := columnsOf(t, schemas.Features{Kind: Columns, Size: 1000, Replacement: true}, 10)
	slices.Sort(repeated)
	if got := slices.Compact(repeated); !slices.Equal(got, all) {
		t.Errorf("1000 of 10 with replacement are %v", got)
	}
	_, err := NewMap(schemas.Features{Kind: Columns, Size: 11}, seed, 0, plain(10, 1), 0, false)
	if tooMany := (*SizeError)(nil); !errors.As(err, &tooMany) || tooMany.Size != 11 || tooMany.Inputs != 10 {
		t.Errorf("11 of 10 without replacement: %v", err)
	}
}

func TestExpandOfNoRows(t *testing.T) {
	for _, f := range variants(5) {
		m := mustMap(t, f, 0, plain(6, 1), 2, true)
		if block := expand(m, kernel.Dense{Cols: 6}, kernel.Dense{Cols: 2}); block.Rows != 0 || block.Cols != 8 {
			t.Errorf("%s: %d × %d", f.Kind, block.Rows, block.Cols)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, p := range []schemas.Prepare{{Scale: prepare.ScaleNone, MinRows: -1},
		{Scale: prepare.ScaleNone, Values: "log"}, {Scale: prepare.ScaleNone, IDF: -1}, {Scale: prepare.ScaleNone, IDF: math.NaN()}} {
		if problems := prepare.Check(p); len(problems) != 1 {
			t.Errorf("%+v: %v", p, problems)
		}
	}
}

// Every field of the configuration has a key, in the order of the fields, and every kind is documented.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		fields any
		keys   []option.Key
	}{{schemas.Features{}, Keys()}, {schemas.Prepare{}, prepare.Keys()}} {
		var fields, names []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(c.fields)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, name)
		}
		for _, k := range c.keys {
			names = append(names, k.Name)
			if k.Meaning == "" || strings.ContainsAny(k.Meaning, "|\n") {
				t.Errorf("%s: the meaning %q is no cell of a table", k.Name, k.Meaning)
			}
		}
		if !slices.Equal(names, fields) {
			t.Errorf("the keys are %v, expected %v", names, fields)
		}
	}
	for k := range kinds {
		if !strings.Contains(Keys()[0].Meaning, "`"+k.name+"` ("+k.meaning+")") {
			t.Errorf("the meaning of kind lacks %s", k.name)
		}
		for _, key := range k.keys {
			if !slices.ContainsFunc(Keys(), func(s option.Key) bool { return s.Name == key.Name && strings.Contains(s.Meaning, key.Meaning) }) {
				t.Errorf("%s: the documentation of %s lacks what it means to this kind", k.name, key.Name)
			}
		}
		if problems := Check(DefaultsOf(k.name)); len(problems) > 0 {
			t.Errorf("%s: the defaults: %v", k.name, problems)
		}
	}
	if DefaultsOf("fourier") != Defaults() {
		t.Errorf("the defaults of no kind are %+v", DefaultsOf("fourier"))
	}
}

// BenchmarkExpand computes blocks of 1024 features of tiles of 64 rows, like a worker.
func BenchmarkExpand(b *testing.B) {
	blas := arrowtest.Must(kernel.Open(""))(b)
	for _, inputs := range []int{50, 784} {
		for _, kind := range []string{RFF, SORF} {
			b.Run(fmt.Sprint(kind, "/", inputs), func(b *testing.B) {
				m, err := NewMap(schemas.Features{Kind: kind, Size: 1024, BandwidthScale: 2}, seed, 0, plain(inputs, float64(2*inputs)), 0, false)
				arrowtest.NoError(b, err)
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
