package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
)

func isNaN(v float32) bool { return v != v }

// withEachAcceleration runs the test with each set of vector instructions of this machine, and without any.
func withEachAcceleration(t *testing.T, test func(t *testing.T)) {
	defer restoreVector()()
	for _, choice := range []string{"", vectorAVX2, vectorNone} {
		if err := UseVector(choice); err != nil {
			t.Log(err)
			continue
		}
		t.Run("vector="+choice, test)
	}
}

// restoreVector returns a function that undoes each UseVector since.
func restoreVector() func() {
	features, accelerated := cpu.X86, vek32.Info().Acceleration
	return func() {
		cpu.X86 = features
		vek32.SetAcceleration(accelerated)
	}
}

// cosineOf applies Cosine to one row, with offsets 0.
func cosineOf(x []float32, scale float32) {
	Cosine(Dense{Rows: 1, Cols: len(x), Data: x}, make([]float32, len(x)), scale)
}

// spread returns n values over [−limit, limit].
func spread(n int, limit float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32((2*float64(i)/float64(n-1) - 1) * limit)
	}
	return x
}

func TestElementwiseAccuracy(t *testing.T) {
	functions := []struct {
		name   string
		apply  func([]float32)
		oracle func(float64) float64
		limits []float64
		bound  float64
	}{
		{"Cosine", func(x []float32) { cosineOf(x, 1) }, math.Cos, []float64{1, 10, 100, 1e4, 1e6}, 3e-7},
		{"Sigmoid", Sigmoid, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }, []float64{1, 10, 88, 1000, 1e30}, 3e-7},
	}
	withEachAcceleration(t, func(t *testing.T) {
		for _, f := range functions {
			for _, limit := range f.limits {
				x := spread(100_003, limit)
				y := slices.Clone(x)
				f.apply(y)
				worst := 0.0
				for i, v := range x {
					worst = max(worst, math.Abs(float64(y[i])-f.oracle(float64(v))))
				}
				assert.True(t, worst <= f.bound, "%s up to %v is off by %v, more than %v", f.name, limit, worst, f.bound)
			}
		}
	})
}

// A result depends on its argument alone, not on the length of the slice or its position in it.
func TestElementwiseFunctionsOfOneArgument(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for name, f := range map[string]func([]float32){
			"Cosine": func(x []float32) { cosineOf(x, 0.3) }, "Sigmoid": Sigmoid,
		} {
			x := spread(2000, 90)
			whole := slices.Clone(x)
			f(whole)
			r := rand.New(rand.NewPCG(1, 2))
			for range 500 {
				from := r.IntN(len(x))
				to := from + r.IntN(len(x)-from)
				part := slices.Clone(x)[from:to]
				f(part)
				assert.Need(t, slices.Equal(part, whole[from:to]), "%s of %d:%d has other bits than in the whole slice", name, from, to)
			}
		}
		x := random(130, 10, 5)
		whole := Dense{Rows: 130, Cols: 10, Data: slices.Clone(x.Data)}
		SoftmaxRows(whole, nil, nil)
		for i := range x.Rows {
			row := x.Slice(i, i+1)
			SoftmaxRows(row, nil, nil)
			assert.Need(t, slices.Equal(row.Data, whole.Row(i)), "the softmax of row %d alone has other bits", i)
		}
	})
}

func TestElementwiseOfWhatIsNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	withEachAcceleration(t, func(t *testing.T) {
		for length := 3; length < 20; length += 8 {
			x := make([]float32, length)
			copy(x, []float32{nan, inf, -inf})
			y := slices.Clone(x)
			cosineOf(x, 1)
			assert.True(t, isNaN(x[0]) && isNaN(x[1]) && isNaN(x[2]), "cos is %v", x[:3])
			Sigmoid(y)
			assert.True(t, isNaN(y[0]) && y[1] == 1 && y[2] <= 1e-37 && y[2] >= 0, "sigmoid is %v", y[:3])
		}
		x := Dense{Rows: 4, Cols: 3, Data: []float32{0, nan, 1, inf, 0, 0, -inf, -inf, -inf, 0, -inf, 0}}
		first := []int32{7, 7, 7, 7}
		SoftmaxRows(x, nil, first)
		assert.Equal(t, first, make([]int32, 4), "the columns of the maxima, 0 for rows that become NaN, and the first of equal ones")
		for i, v := range x.Data[:9] {
			assert.True(t, isNaN(v), "softmax %d is %v, want NaN", i, v)
		}
		assert.True(t, x.Data[9] == 0.5 && x.Data[10] <= 1e-37, "softmax of a row with −Inf is %v", x.Row(3))
	})
}

func TestSoftmaxRows(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, cols := range append([]int{2, 10, 100}, sizes...) {
			for _, scale := range []float32{0, 1, 30, 1e4, 1e37} {
				x := random(17, cols, 9)
				for i := range x.Data {
					x.Data[i] *= scale
				}
				original := slices.Clone(x.Data)
				logs, first := make([]float64, x.Rows), make([]int32, x.Rows)
				SoftmaxRows(x, logs, first)
				for i := range x.Rows {
					scores := original[i*cols : (i+1)*cols]
					want := slices.Index(scores, slices.Max(scores))
					assert.Need(t, first[i] == int32(want), "cols=%d scale=%v: the column of the maximum is %d, want %d", cols, scale, first[i], want)
					logSum := logSumExp(scores)
					assert.Need(t, math.Abs(logs[i]-logSum) <= 3e-7+1e-7*math.Abs(logSum),
						"cols=%d scale=%v: log Σ exp is %v, want %v", cols, scale, logs[i], logSum)
					var sum float64
					for j, v := range x.Row(i) {
						sum += float64(v)
						want := math.Exp(float64(scores[j]) - logSum)
						assert.Need(t, math.Abs(float64(v)-want) <= 3e-7, "cols=%d scale=%v: %v, want %v", cols, scale, v, want)
					}
					assert.Need(t, math.Abs(sum-1) <= 1e-6, "cols=%d scale=%v: the sum is %v", cols, scale, sum)
				}
			}
		}
		SoftmaxRows(NewDense(3, 0), nil, nil)
		SoftmaxRows(Dense{}, nil, nil)
	})
}

func logSumExp(row []float32) float64 {
	highest, sum := float64(slices.Max(row)), 0.0
	for _, v := range row {
		sum += math.Exp(float64(v) - highest)
	}
	return highest + math.Log(sum)
}

// The polynomial of cosine is the minimax polynomial of its degree. Lawson's algorithm computes it: weighted least squares, with
// weights that grow where the error is large.
func TestCosinePolynomial(t *testing.T) {
	const points, terms = 400, 5
	powers, target, weights := mat.NewDense(points, terms, nil), mat.NewVecDense(points, nil), make([]float64, points)
	for i := range points {
		u := math.Pi * math.Pi / 8 * (1 + math.Cos(math.Pi*(float64(i)+0.5)/points))
		for j := range terms {
			powers.Set(i, j, math.Pow(u, float64(j+1)))
		}
		target.SetVec(i, math.Cos(math.Sqrt(u))-1)
		weights[i] = 1
	}
	var found mat.VecDense
	worst := 0.0
	for range 300 {
		a, b := mat.DenseCopyOf(powers), mat.VecDenseCopyOf(target)
		for i, w := range weights {
			for j := range terms {
				a.Set(i, j, math.Sqrt(w)*a.At(i, j))
			}
			b.SetVec(i, math.Sqrt(w)*b.AtVec(i))
		}
		assert.NoError(t, found.SolveVec(a, b))
		var errors mat.VecDense
		errors.MulVec(powers, &found)
		errors.SubVec(&errors, target)
		worst = 0
		for i := range weights {
			e := math.Abs(errors.AtVec(i))
			worst = max(worst, e)
			weights[i] *= e
		}
		floats.Scale(points/floats.Sum(weights), weights)
	}
	assert.True(t, worst <= 3e-10, "the largest error is %v", worst)
	for j := range terms {
		want := found.AtVec(j)
		assert.Near(t, float64(cosine(1)[4+j]), want, 1e-6*math.Abs(want), "the coefficient of u^%d", j+1)
	}
}

func TestVectorKernelsDoNotAllocate(t *testing.T) {
	x, b := random(65, 65, 1), random(1, 65, 2).Data
	sums := make([]float64, 65*66/2)
	scratch, sum := make([]float32, 65), make([]float64, 65*65)
	allocations := testing.AllocsPerRun(20, func() {
		Cosine(x, b, 0.5)
		Sigmoid(x.Data)
		SoftmaxRows(x, nil, nil)
		SimplexRows(x, scratch)
		UnitRows(x)
		AddRow(x, b)
		addTo(sum, x.Data)
		AddLower(sums, x)
	})
	assert.Equal(t, allocations, 0, "allocations")
}

func TestDense(t *testing.T) {
	var d Dense
	d.Reshape(3, 4)
	d.Row(2)[3] = 7
	s := d.Slice(1, 3)
	assert.True(t, s.Rows == 2 && s.Row(1)[3] == 7, "slice is %+v", s)
	before := &d.Data[0]
	d.Reshape(2, 6)
	assert.True(t, &d.Data[0] == before && d.Rows == 2 && d.Cols == 6,
		"reshaped to %d×%d, in other memory: %v", d.Rows, d.Cols, &d.Data[0] != before)
	d.Reshape(2, 2)
	assert.True(t, len(d.Data) == 4 && cap(d.Row(0)) == 2, "%d values, capacity for %d in a row", len(d.Data), cap(d.Row(0)))
	d.Reshape(0, 5)
	assert.Equal(t, len(d.Data), 0, "values")
}

// someRows draws some of n rows, ascending.
func someRows(r *rand.Rand, n, some int) []int32 {
	var rows []int32
	for _, row := range r.Perm(n)[:some] {
		rows = append(rows, int32(row))
	}
	slices.Sort(rows)
	return rows
}

// panics reports whether a function panics.
func panics(do func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	do()
	return false
}

// Sums have the bits of sequential sums over the rows, column by column.
func TestAddParts(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, width := range []int{4, 8, 12, 16, 20, 24, 68} {
			for _, columns := range []int{0, 1, 2, 7} {
				const n, stride, count = 70, 16, 5
				codes, values := make([]uint8, n*stride), make([]float64, n*width)
				for i := range codes {
					codes[i] = uint8(r.IntN(256))
				}
				for i := range values {
					values[i] = r.NormFloat64()
				}
				p := Parts{Stride: stride, Count: count, Of: make([]uint8, columns*256)}
				for range columns {
					p.Columns = append(p.Columns, int32(r.IntN(stride)))
				}
				for i := range p.Of {
					p.Of[i] = uint8(r.IntN(count))
				}
				got := make([]float64, columns*count*width)
				for i := range got {
					got[i] = r.NormFloat64()
				}
				want := slices.Clone(got)
				for _, some := range []int{0, 1, 65} {
					rows := someRows(r, n, some)
					AddParts(got, p, codes, values, width, rows)
					for j, column := range p.Columns {
						for _, row := range rows {
							part := int(p.Of[j*256+int(codes[int(row)*stride+int(column)])])
							for i := range width {
								want[(j*count+part)*width+i] += values[int(row)*width+i]
							}
						}
					}
				}
				assert.True(t, slices.Equal(got, want), "%d columns of %d values: the sums differ", columns, width)
			}
		}
	})
}

// Memory outside the matrices is neither read nor written.
func TestAddPartsChecks(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for name, change := range map[string]func(p *Parts, rows []int32){
			"row below 0":    func(_ *Parts, rows []int32) { rows[1] = -1 },
			"row too large":  func(_ *Parts, rows []int32) { rows[4] = 9 },
			"column below 0": func(p *Parts, _ []int32) { p.Columns[0] = -1 },
			"column":         func(p *Parts, _ []int32) { p.Columns[1] = 16 },
			"part":           func(p *Parts, _ []int32) { p.Of[0] = 3 },
			"large part":     func(p *Parts, _ []int32) { p.Of[0] = 255 },
			"parts":          func(p *Parts, _ []int32) { p.Of = p.Of[1:] },
			"sums":           func(p *Parts, _ []int32) { p.Count = 2 },
			"":               func(*Parts, []int32) {},
		} {
			p, rows := Parts{Stride: 16, Columns: []int32{3, 5}, Of: make([]uint8, 512), Count: 3}, []int32{0, 1, 2, 7, 8}
			change(&p, rows)
			assert.Equal(t, panics(func() { AddParts(make([]float64, 24), p, make([]uint8, 9*16), make([]float64, 9*4), 4, rows) }), name != "",
				"%q panics", name)
		}
	})
}

func TestUseVector(t *testing.T) {
	defer restoreVector()()
	blas := Gonum()
	best := blas.Vector()
	err := UseVector("")
	assert.True(t, err == nil && blas.Vector() == best, "no choice: %v, and the instructions are %s instead of %s", err, blas.Vector(), best)
	var wrong *VectorError
	for _, choice := range []string{"AVX2", "sse", "go", "avx512"} {
		assert.Fails(t, UseVector(choice), &wrong, "not known, expected ")
		assert.Equal(t, blas.Vector(), best, "the instructions after %q", choice)
	}
	if hasAVX2() {
		err := UseVector(vectorAVX2)
		assert.True(t, err == nil && blas.Vector() == vectorAVX2, "avx2: %v, and the instructions are %s", err, blas.Vector())
	}
	err = UseVector(vectorNone)
	assert.True(t, err == nil && blas.Vector() == "go", "none: %v, and the instructions are %s", err, blas.Vector())
	const want = `vector instructions "avx2": this machine does not have them, expected none`
	err = UseVector(vectorAVX2)
	assert.True(t, err != nil && err.Error() == want, "avx2 without it: %v, expected %s", err, want)
}

func TestSums(t *testing.T) {
	for _, p := range sizes {
		x, b := random(p, p, 1), random(1, p, 2).Data
		packed := make([]float64, p*(p+1)/2)
		for range 3 {
			AddLower(packed, x)
		}
		for i := range p {
			for j := range i + 1 {
				v := float64(x.Row(i)[j])
				got, want := packed[i*(i+1)/2+j], v+v+v
				assert.Need(t, got == want, "p=%d: packed (%d, %d) is %v, want %v", p, i, j, got, want)
			}
		}
		original := slices.Clone(x.Data)
		AddRow(x, b)
		for i, v := range original {
			assert.Need(t, x.Data[i] == v+b[i%p], "p=%d: %v became %v", p, v, x.Data[i])
		}
	}
	AddRow(NewDense(3, 0), nil)
}

func TestCopyWindows(t *testing.T) {
	src := make([]float32, 60)
	for i := range src {
		src[i] = float32(i)
	}
	const n, height, width, step, stride = 4, 3, 2, 3, 20
	dst := NewDense(n, height*width)
	CopyWindows(dst, src, height, step, stride)
	for i, got := range dst.Data {
		window, y, x := i/(height*width), i/width%height, i%width
		want := float32(window*step + y*stride + x)
		assert.Need(t, got == want, "value (%d, %d) of window %d is %v, expected %v", y, x, window, got, want)
	}
}

func TestScaleRows(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, cols := range []int{1, 7, 8, 63, 81} {
			x, factors, offset := NewDense(5, cols), []float32{1, 2, 0.5, -1, 0}, make([]float32, cols)
			for i := range x.Data {
				x.Data[i] = float32(math.Sin(float64(i)))
			}
			for j := range offset {
				offset[j] = float32(math.Cos(float64(j)))
			}
			copy(x.Row(0), offset) // minus the offset it is shorter than any length
			want := make([]float64, len(x.Data))
			for i, factor := range factors {
				squares := 0.0
				for j, v := range x.Row(i) {
					d := float64(v)*float64(factor) - float64(offset[j])
					want[i*cols+j] = d
					squares += d * d
				}
				for j := range cols {
					want[i*cols+j] *= 3 / max(math.Sqrt(squares), 1e-6)
				}
			}
			ScaleRows(x, factors, offset, 3)
			for i, v := range x.Data {
				assert.Need(t, math.Abs(float64(v)-want[i]) <= 2e-6, "%d columns: value %d is %v, expected %v", cols, i, v, want[i])
			}
		}
	})
}

// The sums match the definition, for patches and their mirror images, for all row counts and filter counts around those
// of the loops, and with shared or separate sums.
func TestAddResponses(t *testing.T) {
	const threshold = 0.25
	withEachAcceleration(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 17} {
			for _, f := range []int{1, 15, 16, 17, 65, filtersPerPart + 1} {
				for _, shape := range [][2]int{{1, 0}, {7, 0}, {5, 3}, {9, 1}, {28, 21}} { // even rows, and others
					even, q := shape[0], shape[0]+shape[1]
					x, w := random(n, q, 1), random(q, f, 2)
					for _, same := range []bool{false, true} {
						sums, mirrored := random(2, f, 3), random(2, f, 4)
						if same {
							mirrored = sums
						}
						want := [2][]float64{make([]float64, 2*f), make([]float64, 2*f)}
						for j := range 2 * f {
							want[0][j], want[1][j] = float64(sums.Data[j]), float64(mirrored.Data[j])
						}
						if same {
							want[1] = want[0]
						}
						for i := range n {
							for j := range f {
								for side := range 2 {
									z := 0.0
									for l := range q {
										sign := 1.0
										if side == 1 && l >= even {
											sign = -1
										}
										z += sign * float64(x.Row(i)[l]) * float64(w.Row(l)[j])
									}
									if side == 0 || even < q {
										want[side][j] += max(z, threshold)
										want[side][f+j] += max(-z, threshold)
									}
								}
							}
						}
						filters := NewFilters(w, even)
						Gonum().AddResponses(sums, mirrored, x, filters, threshold, make([]float32, filters.Scratch(n)))
						for side, got := range []Dense{sums, mirrored} {
							for j, v := range got.Data {
								assert.Need(t, math.Abs(float64(v)-want[side][j]) <= 1e-4,
									"%d×%d (%d even) by %d filters: side %d, sum %d is %v, expected %v", n, q, even, f, side, j, v, want[side][j])
							}
						}
					}
				}
			}
		}
	})
}

// A NaN pixel makes all sums NaN, with and without vector instructions.
func TestAddResponsesOfNaN(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		x := random(7, 6, 1)
		x.Data[3] = float32(math.NaN())
		sums, mirrored := NewDense(2, 17), NewDense(2, 17)
		filters := NewFilters(random(6, 17, 2), 4)
		Gonum().AddResponses(sums, mirrored, x, filters, 0.5, make([]float32, filters.Scratch(7)))
		for _, got := range []Dense{sums, mirrored} {
			for j, v := range got.Data {
				assert.Need(t, v != v, "sum %d is %v, expected a NaN", j, v)
			}
		}
	})
}

// project computes the projection by trying every support S, the entries that stay positive: v = x − (Σ_S x − 1)/|S| on S.
func project(x []float32) []float64 {
	var best []float64
	distance := math.Inf(1)
	for set := 1; set < 1<<len(x); set++ {
		var sum, size float64
		for i, v := range x {
			if set>>i&1 == 1 {
				sum += float64(v)
				size++
			}
		}
		candidate := make([]float64, len(x))
		d, feasible := 0.0, true
		for i, v := range x {
			if set>>i&1 == 1 {
				candidate[i] = float64(v) - (sum-1)/size
				feasible = feasible && candidate[i] >= 0
			}
			d += (candidate[i] - float64(v)) * (candidate[i] - float64(v))
		}
		if feasible && d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

func TestSimplexIsTheNearestPoint(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for trial := range 400 {
		x := random(1, 1+trial%9, uint64(trial))
		scale := float32(math.Exp(3 * r.NormFloat64()))
		for i := range x.Data {
			x.Data[i] *= scale
			if r.IntN(4) == 0 {
				x.Data[i] = x.Data[0] // ties
			}
		}
		want := project(x.Data)
		SimplexRows(x, nil)
		for i, v := range x.Data {
			assert.Need(t, math.Abs(float64(v)-want[i]) <= 2e-7, "trial %d: %v, want %v", trial, x.Data, want)
		}
	}
}

func TestSimplexLaws(t *testing.T) {
	for _, cols := range append([]int{2, 1000}, sizes...) {
		for _, scale := range []float32{1e-3, 1, 100, 1e6} {
			x := random(20, cols, 3)
			for i := range x.Data {
				x.Data[i] *= scale
			}
			original := slices.Clone(x.Data)
			SimplexRows(x, make([]float32, cols))
			again := Dense{Rows: 20, Cols: cols, Data: slices.Clone(x.Data)}
			SimplexRows(again, nil)
			for i := range x.Rows {
				row := x.Row(i)
				var sum float64
				for j, v := range row {
					sum += float64(v)
					assert.Need(t, v >= 0, "cols=%d: %v is negative", cols, v)
					d := v - again.Row(i)[j]
					assert.Need(t, d <= 3e-7 && d >= -3e-7, "cols=%d: a second projection moves %v by %v", cols, v, d)
					for l := range j {
						assert.Need(t, (original[i*cols+j]-original[i*cols+l])*(v-row[l]) >= 0, "cols=%d: the order of %d and %d is reversed", cols, j, l)
					}
				}
				assert.Need(t, math.Abs(sum-1) <= 1e-6, "cols=%d scale=%v: the sum is %v", cols, scale, sum)
			}
		}
	}
}

func TestSimplexOfWhatIsNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := Dense{Rows: 3, Cols: 3, Data: []float32{0, nan, 1, inf, 0, 0, 2, -inf, 0}}
	SimplexRows(x, nil)
	assert.True(t, isNaN(x.Data[1]) && isNaN(x.Data[3]), "a row with a NaN or infinity is not NaN: %v", x.Data)
	assert.Equal(t, x.Row(2), []float32{1, 0, 0}, "row with −Inf")
}
