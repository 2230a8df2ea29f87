package stages

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// photographs returns the preparation of images of the given shape, and some prepared images. Pixel 1 never changes.
func photographs(n int, image examples.Image) (*Preparation, kernel.Dense) {
	r, d := rand.New(rand.NewPCG(5, uint64(image.Size()))), image.Size()
	p := &Preparation{Center: make([]float32, d), Scale: make([]float32, d), Image: image}
	for j := range d {
		p.Center[j], p.Scale[j] = float32(100+10*r.NormFloat64()), 0.5
	}
	p.Scale[1] = 0
	x := kernel.NewDense(n, d)
	for i := range x.Data {
		if i%d != 1 {
			x.Data[i] = float32(20 * r.NormFloat64())
		}
	}
	return p, x
}

// nearlyWhite replaces package solve: it whitens by the variances alone.
func nearlyWhite(covariance []float64, n int, ridge float64) ([]float32, error) {
	w := make([]float32, n*n)
	for i := range n {
		w[i*n+i] = float32(1 / math.Sqrt(covariance[i*n+i]+ridge))
	}
	return w, nil
}

func learn(t *testing.T, f schemas.Features, stage int, p *Preparation, x kernel.Dense) wire.Tensors[float32] {
	t.Helper()
	return assert.Must(Learner{BLAS: kernel.Gonum(), Seed: seed, Rows: x, Covariance: accumulate.Covariance, Whiten: nearlyWhite}.Learn(f, stage, p))(t)
}

func smallPatches(filters int, mirror bool, source string) schemas.Features {
	f := DefaultsOf(Patches)
	f.Patch, f.Filters, f.Grid, f.Mirror, f.Source = 3, filters, 2, mirror, source
	return f
}

// responses computes the features of an image by their definition in FORMAT.md, in float64.
func responses(f schemas.Features, p *Preparation, stage int, x []float32) []float64 {
	find := func(name string) []float32 { t, _ := p.Learnt.Find(statistics.OfStage(name, stage)); return t.Data }
	whitening, offset, filters := find(statistics.TensorWhitening), find(statistics.TensorOffset), find(statistics.TensorFilters)
	contrast, mean, factor := float64(find(statistics.TensorContrast)[0]), find(statistics.TensorMean), find(statistics.TensorFactor)
	height, width, channels := p.Image.Height(), p.Image.Width(), p.Image.Channels()
	q, n := f.Patch*f.Patch*channels, f.Filters
	v := make([]float64, 2*n*f.Grid*f.Grid)
	pixel := func(y, x0, c int, mirrored bool) float64 {
		if mirrored {
			x0 = width - 1 - x0
		}
		j := (y*width+x0)*channels + c
		if p.Scale[j] == 0 {
			return float64(p.Center[j])
		}
		return float64(x[j])/float64(p.Scale[j]) + float64(p.Center[j])
	}
	within := func(position, positions, cell int) bool {
		edge := func(c int) int { return int(math.RoundToEven(float64(positions*c) / float64(f.Grid))) }
		return position >= edge(cell)-f.Overlap && position < edge(cell+1)+f.Overlap
	}
	for _, mirrored := range []bool{false, true} {
		if mirrored && !f.Mirror {
			continue
		}
		for y := range height - f.Patch + 1 {
			for x0 := range width - f.Patch + 1 {
				var u []float64
				sum, square := 0.0, 0.0
				for dy := range f.Patch {
					for dx := range f.Patch {
						for c := range channels {
							u = append(u, pixel(y+dy, x0+dx, c, mirrored))
							sum += u[len(u)-1]
						}
					}
				}
				for j := range u {
					u[j] -= sum / float64(q)
					square += u[j] * u[j]
				}
				r, length := make([]float64, q), 0.0
				for j := range r {
					for i := range u {
						r[j] += u[i] / math.Sqrt(square/float64(q-1)+contrast) * float64(whitening[i*q+j])
					}
					r[j] -= float64(offset[j])
					length += r[j] * r[j]
				}
				for i := range n {
					z := 0.0
					for j := range r {
						z += r[j] * math.Sqrt(float64(q)/length) * float64(filters[j*n+i])
					}
					for cell := range f.Grid * f.Grid {
						if within(y, height-f.Patch+1, cell/f.Grid) && within(x0, width-f.Patch+1, cell%f.Grid) {
							v[cell*2*n+i] += max(z-f.Rectify, 0)
							v[cell*2*n+n+i] += max(-z-f.Rectify, 0)
						}
					}
				}
			}
		}
	}
	for j := range v {
		if f.Root {
			v[j] = math.Sqrt(1 + v[j])
		}
		v[j] = (v[j] - float64(mean[j])) * float64(factor[j])
	}
	return v
}

// Features match the definition in FORMAT.md, for images of one and three channels, any source of filters, and more
// filters than a tile has. They are the same in blocks of any number of rows, and for a mirrored image if configured.
func TestPatches(t *testing.T) {
	for _, c := range []struct {
		image   examples.Image
		filters int
		overlap int
		root    bool
		mirror  bool
		source  string
	}{
		{examples.Image{9, 8, 1}, 5, 0, false, false, SourceData},
		{examples.Image{7, 10, 3}, 7, 1, true, true, SourceGaussian},
		{examples.Image{8, 8, 1}, 6, 0, true, true, SourceKMeans},
		{examples.Image{8, 9, 1}, 17, 0, false, true, SourceData},  // seven positions, so that a cell is not as wide as its mirror image
		{examples.Image{16, 19, 1}, 3, 0, false, true, SourceData}, // regions larger than a tile
		{examples.Image{30, 30, 1}, 257, 5, true, false, SourceData},
		{examples.Image{6, 9, 1}, 3, 32, false, false, SourceData}, // each cell has all positions
	} {
		f, stage := smallPatches(c.filters, c.mirror, c.source), 2
		f.Overlap, f.Root = c.overlap, c.root
		p, x := photographs(12, c.image)
		p.Learnt = learn(t, f, stage, p, x)
		block := expand(mustMap(t, f, stage, p, 0, true), x, kernel.Dense{})
		want := 8*c.filters + 1
		assert.Need(t, block.Cols == want, "%v: %d columns, expected %d", c, block.Cols, want)
		for i := range x.Rows {
			for j, want := range responses(f, p, stage, x.Row(i)) {
				assert.Near(t, float64(block.Row(i)[j]), want, 1e-3*(1+math.Abs(want)), "%v: row %d, feature %d", c, i, j)
			}
		}
		alone := expand(mustMap(t, f, stage, p, 0, true), x.Slice(3, 4), kernel.Dense{})
		assert.True(t, slices.Equal(alone.Data, block.Row(3)), "%v: a row alone has other features", c)
		means, deviations := make([]float64, block.Cols), make([]float64, block.Cols)
		for i := range block.Rows {
			for j, v := range block.Row(i) {
				means[j] += float64(v) / float64(block.Rows)
				deviations[j] += float64(v) * float64(v) / float64(block.Rows)
			}
		}
		for j := range block.Cols - 1 {
			assert.True(t, math.Abs(means[j]) <= 1e-3 && deviations[j] <= 1.001,
				"%v: feature %d of the sample has mean %v and variance %v, expected 0 and at most 1", c, j, means[j], deviations[j])
		}
	}
}

// A whitening that is not invariant to mirroring, as a version may have, gives the features of its definition too.
func TestPatchesOfAnotherWhitening(t *testing.T) {
	p, x := photographs(6, examples.Image{7, 10, 3})
	f := smallPatches(5, true, SourceData)
	p.Learnt = learn(t, f, 0, p, x)
	for _, name := range []string{statistics.TensorWhitening, statistics.TensorOffset} {
		learnt, _ := p.Learnt.Find(statistics.OfStage(name, 0))
		same := learnt.Data[0]
		learnt.Data[0] = 1.5*same + 0.1
		block := expand(mustMap(t, f, 0, p, 0, true), x, kernel.Dense{})
		for i := range x.Rows {
			for j, want := range responses(f, p, 0, x.Row(i)) {
				assert.Near(t, float64(block.Row(i)[j]), want, 1e-3*(1+math.Abs(want)), "another %s: row %d, feature %d", name, i, j)
			}
		}
		learnt.Data[0] = same
	}
}

// What a stage learns depends only on its number and its sample.
func TestLearnPatches(t *testing.T) {
	p, x := photographs(9, examples.Image{9, 8, 1})
	for _, source := range sources() {
		f := smallPatches(6, false, source)
		first, again, other := learn(t, f, 0, p, x), learn(t, f, 0, p, x), learn(t, f, 1, p, x)
		assert.Equal(t, schemas.WeightsDigest(first), schemas.WeightsDigest(again), "%s: the filters, learnt twice", source)
		a, _ := first.Find(statistics.OfStage(statistics.TensorFilters, 0))
		b, _ := other.Find(statistics.OfStage(statistics.TensorFilters, 1))
		assert.True(t, !slices.Equal(a.Data, b.Data), "%s: two stages have the same filters", source)
		for j := range f.Filters {
			length := 0.0
			for i := range 9 {
				length += float64(a.Data[i*f.Filters+j]) * float64(a.Data[i*f.Filters+j])
			}
			assert.Near(t, length, 1, 1e-5, "%s: the squared length of filter %d", source, j)
		}
	}
	assert.True(t, KindOf(smallPatches(6, false, SourceData)).Learns() && !KindOf(Defaults()).Learns(), "Learns is wrong")
}

func TestPatchesNeedImages(t *testing.T) {
	f := smallPatches(4, false, SourceData)
	p, _ := photographs(2, examples.Image{6, 6, 1})
	assert.MustFail(NewMap(f, seed, 0, p, 0, false))(t, new(*wire.ShapeError))
	small := *p
	small.Image = examples.Image{2, 18, 1}
	_, err := NewMap(f, seed, 0, &small, 0, false)
	assert.True(t, err != nil, "images smaller than a patch have features")
	p.Image = examples.Image{}
	assert.MustFail(NewMap(f, seed, 0, p, 0, false))(t, ErrNoImages)
	for _, prepare := range []schemas.Prepare{{Scale: ScaleNone, PCA: 5}, {Scale: ScaleUnit}} {
		assert.Equal(t, len(CheckStage(schemas.Stage{Features: f}, prepare, examples.OneLabel)), 1, "problems of inputs prepared by %+v", prepare)
	}
	problems := CheckStage(schemas.Stage{Features: f}, schemas.Prepare{Scale: ScaleStandard}, examples.OneLabel)
	assert.True(t, len(problems) == 0, "patches of standardized pixels: %v", problems)
	for key, change := range map[string]func(*schemas.Features){
		"patch": func(f *schemas.Features) { f.Patch = 0 }, "filters": func(f *schemas.Features) { f.Filters = 20_000 },
		"grid": func(f *schemas.Features) { f.Grid = -1 }, "overlap": func(f *schemas.Features) { f.Overlap = 33 },
		"rectify": func(f *schemas.Features) { f.Rectify = math.NaN() },
		"whiten":  func(f *schemas.Features) { f.Whiten = 0 }, "contrast": func(f *schemas.Features) { f.Contrast = math.Inf(1) },
		"source": func(f *schemas.Features) { f.Source = "noise" },
	} {
		f := DefaultsOf(Patches)
		change(&f)
		problems := Check(f)
		assert.True(t, len(problems) == 1 && problems[0].Key == key, "%s: %v", key, problems)
	}
}

// Feature j is the product of the first projections of the features of the same patches without monomials.
func TestPatchPolynomial(t *testing.T) {
	f, stage := DefaultsOf(PatchPolynomial), 1
	f.Size, f.Degree, f.BandwidthScale, f.Patch, f.Filters, f.Grid, f.Mirror = 65, 3, 2, 3, 4, 2, true
	pooled := f
	pooled.Kind, pooled.Size = Patches, 0
	p, x := photographs(12, examples.Image{9, 8, 1})
	p.Learnt = learn(t, f, stage, p, x)
	block := expand(mustMap(t, f, stage, p, 0, true), x, kernel.Dense{})
	z := expand(mustMap(t, pooled, stage, p, 0, false), x, kernel.Dense{})
	const columns = 2 * 4 * 2 * 2
	assert.Need(t, block.Cols == 66 && z.Cols == columns, "%d columns of %d, expected 66 of %d", block.Cols, z.Cols, columns)
	degrees, factors := NewStream(seed, stage, drawDegrees), 0
	for j := range 65 {
		n := 1 + degrees.Below(uint64(j), f.Degree)
		factors += n
		for i := range x.Rows {
			want := 1.0
			for l := range n {
				draws, sum := NewStream(seed, stage, drawDirections+16*uint64(l)), 0.0
				for c, v := range z.Row(i) {
					sum += math.Sqrt(1/(columns*f.BandwidthScale)) * draws.Normal(uint64(j*columns+c)) * float64(v)
				}
				want *= sum
			}
			assert.Near(t, float64(block.Row(i)[j]), want, 1e-3*(1+math.Abs(want)), "row %d, feature %d of %d factors", i, j, n)
		}
	}
	assert.True(t, factors >= 100 && block.Row(0)[65] == 1, "%d factors, the intercept is %v", factors, block.Row(0)[65])
	alone := expand(mustMap(t, f, stage, p, 0, true), x.Slice(3, 4), kernel.Dense{})
	assert.True(t, slices.Equal(alone.Data, block.Row(3)), "a row alone has other features")
}
