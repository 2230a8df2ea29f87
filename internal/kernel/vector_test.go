package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/viterin/vek"
	"github.com/viterin/vek/vek32"
)

func isNaN(v float32) bool { return v != v }

// withEachAcceleration runs the test on the vector kernels of this machine and on those in Go.
func withEachAcceleration(t *testing.T, test func(t *testing.T)) {
	if !vek.Info().Acceleration {
		t.Log("only the vector kernels in Go are tested: this machine has no others")
		t.Run("go", test)
		return
	}
	t.Run("avx2", test)
	vek32.SetAcceleration(false)
	defer vek32.SetAcceleration(true)
	t.Run("go", test)
}

// spread has n values over [−limit, limit].
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
		{"CosScale", func(x []float32) { CosScale(x, 1) }, math.Cos, []float64{1, 10, 100, 1e4, 1e6}, 3e-7},
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

// A value depends on its argument alone: not on the length of the slice, nor on where it stands in it.
func TestElementwiseFunctionsOfOneArgument(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for name, f := range map[string]func([]float32){
			"CosScale": func(x []float32) { CosScale(x, 0.3) }, "Sigmoid": Sigmoid,
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
					t.Fatalf("%s of %d:%d has other bits than within the whole", name, from, to)
				}
			}
		}
		x := random(130, 10, 5)
		whole := Dense{Rows: 130, Cols: 10, Data: slices.Clone(x.Data)}
		SoftmaxRows(whole)
		for i := range x.Rows {
			row := x.Slice(i, i+1)
			SoftmaxRows(row)
			if !slices.Equal(row.Data, whole.Row(i)) {
				t.Fatalf("softmax of row %d has other bits alone", i)
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
			CosScale(x, 1)
			if !isNaN(x[0]) || !isNaN(x[1]) || !isNaN(x[2]) {
				t.Errorf("cos is %v", x[:3])
			}
			Sigmoid(y)
			if !isNaN(y[0]) || y[1] != 1 || y[2] > 1e-37 || y[2] < 0 {
				t.Errorf("sigmoid is %v", y[:3])
			}
		}
		x := Dense{Rows: 4, Cols: 3, Data: []float32{0, nan, 1, inf, 0, 0, -inf, -inf, -inf, 0, -inf, 0}}
		SoftmaxRows(x)
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
				SoftmaxRows(x)
				for i := range x.Rows {
					scores := original[i*cols : (i+1)*cols]
					logSum := LogSumExp(scores)
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
		SoftmaxRows(NewDense(3, 0))
		SoftmaxRows(Dense{})
	})
}

func TestLogSumExp(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		row  []float32
		want float64
	}{
		{nil, math.Inf(-1)},
		{[]float32{3}, 3},
		{[]float32{0, 0}, math.Ln2},
		{[]float32{1e30, 0}, float64(float32(1e30))},
		{[]float32{-1e4, -1e4}, -1e4 + math.Ln2},
		{[]float32{-inf, 2}, 2},
		{[]float32{-inf, -inf}, math.Inf(-1)},
		{[]float32{inf, 2}, math.Inf(1)},
	} {
		if got := LogSumExp(c.row); math.Abs(got-c.want) > 1e-12 && got != c.want {
			t.Errorf("LogSumExp(%v) = %v, want %v", c.row, got, c.want)
		}
	}
	if !math.IsNaN(LogSumExp([]float32{0, float32(math.NaN())})) {
		t.Error("a NaN went unseen")
	}
}

func TestSums(t *testing.T) {
	for _, p := range sizes {
		x, b := random(p, p, 1), random(1, p, 2).Data
		packed := make([]float64, p*(p+1)/2)
		for i := range packed {
			packed[i] = math.NaN()
		}
		PackLower(packed, x, false)
		PackLower(packed, x, true)
		for i := range p {
			for j := range i + 1 {
				if got, want := packed[i*(i+1)/2+j], 2*float64(x.Row(i)[j]); got != want {
					t.Fatalf("p=%d: packed (%d, %d) is %v, want %v", p, i, j, got, want)
				}
			}
		}
		sum := make([]float64, p*p)
		AddTo(sum, x.Data)
		original := slices.Clone(x.Data)
		AddRow(x, b)
		for i, v := range original {
			if sum[i] != float64(v) || x.Data[i] != v+b[i%p] {
				t.Fatalf("p=%d: %v became %v and %v", p, v, sum[i], x.Data[i])
			}
		}
	}
	AddRow(NewDense(3, 0), nil)
}

func TestVectorKernelsDoNotAllocate(t *testing.T) {
	x, b := random(65, 65, 1), random(1, 65, 2).Data
	scratch, sum, packed := make([]float32, 65), make([]float64, 65*65), make([]float64, 65*66/2)
	allocations := testing.AllocsPerRun(20, func() {
		CosScale(x.Data, 0.5)
		Sigmoid(x.Data)
		SoftmaxRows(x)
		SimplexRows(x, scratch)
		AddRow(x, b)
		AddTo(sum, x.Data)
		PackLower(packed, x, true)
		LogSumExp(x.Row(0))
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
		t.Errorf("%d values, room for %d in a row", len(d.Data), cap(d.Row(0)))
	}
	d.Reshape(0, 5)
	if len(d.Data) != 0 {
		t.Errorf("%d values", len(d.Data))
	}
}

func BenchmarkVector(b *testing.B) {
	const rows, cols = 1024, 10
	x := random(rows, cols, 1)
	scratch := make([]float32, cols)
	for _, f := range []struct {
		name  string
		apply func()
	}{
		{"CosScale", func() { CosScale(x.Data, 1) }},
		{"Sigmoid", func() { Sigmoid(x.Data) }},
		{"SoftmaxRows", func() { SoftmaxRows(x) }},
		{"SimplexRows", func() { SimplexRows(x, scratch) }},
		{"math.Cos", func() {
			for i, v := range x.Data {
				x.Data[i] = float32(math.Cos(float64(v)))
			}
		}},
	} {
		b.Run(f.name, func(b *testing.B) {
			for b.Loop() {
				f.apply()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(rows*cols), "ns/value")
		})
	}
}
