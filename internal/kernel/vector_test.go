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

	"github.com/stagewise/stagewise/internal/arrowtest"
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
				if !(worst <= f.bound) {
					t.Errorf("%s up to %v is off by %v, more than %v", f.name, limit, worst, f.bound)
				}
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
				if !slices.Equal(part, whole[from:to]) {
					t.Fatalf("%s of %d:%d has other bits than in the whole slice", name, from, to)
				}
			}
		}
		x := random(130, 10, 5)
		whole := Dense{Rows: 130, Cols: 10, Data: slices.Clone(x.Data)}
		SoftmaxRows(whole, nil, nil)
		for i := range x.Rows {
			row := x.Slice(i, i+1)
			SoftmaxRows(row, nil, nil)
			if !slices.Equal(row.Data, whole.Row(i)) {
				t.Fatalf("the softmax of row %d alone has other bits", i)
			}
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
			if !isNaN(x[0]) || !isNaN(x[1]) || !isNaN(x[2]) {
				t.Errorf("cos is %v", x[:3])
			}
			Sigmoid(y)
			if !isNaN(y[0]) || y[1] != 1 || y[2] > 1e-37 || y[2] < 0 {
				t.Errorf("sigmoid is %v", y[:3])
			}
		}
		x := Dense{Rows: 4, Cols: 3, Data: []float32{0, nan, 1, inf, 0, 0, -inf, -inf, -inf, 0, -inf, 0}}
		first := []int32{7, 7, 7, 7}
		SoftmaxRows(x, nil, first)
		if !slices.Equal(first, make([]int32, 4)) {
			t.Errorf("the columns of the maxima are %v, want 0 for rows that become NaN, and the first of equal ones", first)
		}
		for i, v := range x.Data[:9] {
			if !isNaN(v) {
				t.Errorf("softmax %d is %v, want NaN", i, v)
			}
		}
		if x.Data[9] != 0.5 || x.Data[10] > 1e-37 {
			t.Errorf("softmax of a row with −Inf is %v", x.Row(3))
		}
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
					if want := slices.Index(scores, slices.Max(scores)); first[i] != int32(want) {
						t.Fatalf("cols=%d scale=%v: the column of the maximum is %d, want %d", cols, scale, first[i], want)
					}
					logSum := logSumExp(scores)
					if !(math.Abs(logs[i]-logSum) <= 3e-7+1e-7*math.Abs(logSum)) {
						t.Fatalf("cols=%d scale=%v: log Σ exp is %v, want %v", cols, scale, logs[i], logSum)
					}
					var sum float64
					for j, v := range x.Row(i) {
						sum += float64(v)
						if want := math.Exp(float64(scores[j]) - logSum); !(math.Abs(float64(v)-want) <= 3e-7) {
							t.Fatalf("cols=%d scale=%v: %v, want %v", cols, scale, v, want)
						}
					}
					if !(math.Abs(sum-1) <= 1e-6) {
						t.Fatalf("cols=%d scale=%v: the sum is %v", cols, scale, sum)
					}
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
		arrowtest.NoError(t, found.SolveVec(a, b))
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
	if worst > 3e-10 {
		t.Errorf("the largest error is %v", worst)
	}
	for j := range terms {
		if got, want := float64(cosine(1)[4+j]), found.AtVec(j); math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("the coefficient of u^%d is %v, want %v", j+1, got, want)
		}
	}
}

func TestVectorKernelsDoNotAllocate(t *testing.T) {
	x, b := random(65, 65, 1), random(1, 65, 2).Data
	sums := make([]float64, 65*66/2)
	scratch, sum, packed := make([]float32, 65), make([]float64, 65*65), make([]float32, 65*66/2)
	allocations := testing.AllocsPerRun(20, func() {
		Cosine(x, b, 0.5)
		Sigmoid(x.Data)
		SoftmaxRows(x, nil, nil)
		SimplexRows(x, scratch)
		UnitRows(x)
		AddRow(x, b)
		addTo(sum, x.Data)
		PackLower(packed, x)
		AddEach(sums, true, packed, packed)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestDense(t *testing.T) {
	var d Dense
	d.Reshape(3, 4)
	d.Row(2)[3] = 7
	if s := d.Slice(1, 3); s.Rows != 2 || s.Row(1)[3] != 7 {
		t.Errorf("slice is %+v", s)
	}
	before := &d.Data[0]
	d.Reshape(2, 6)
	if &d.Data[0] != before || d.Rows != 2 || d.Cols != 6 {
		t.Errorf("reshaped to %d×%d, in other memory: %v", d.Rows, d.Cols, &d.Data[0] != before)
	}
	d.Reshape(2, 2)
	if len(d.Data) != 4 || cap(d.Row(0)) != 2 {
		t.Errorf("%d values, capacity for %d in a row", len(d.Data), cap(d.Row(0)))
	}
	d.Reshape(0, 5)
	if len(d.Data) != 0 {
		t.Errorf("%d values", len(d.Data))
	}
}
