package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
)

// sparseOf returns a random sparse matrix, and its dense form.
func sparseOf(r *rand.Rand, rows, cols int, ones bool) (s Sparse, full *mat.Dense) {
	s.Begin(cols)
	s.Ones = ones
	full = mat.NewDense(rows, s.Width(), nil)
	for i := range rows {
		for j := range cols {
			if r.IntN(3) > 0 {
				continue
			}
			v := float32(r.NormFloat64())
			s.Columns, s.Values = append(s.Columns, int32(j)), append(s.Values, v)
			full.Set(i, j, float64(v))
		}
		if ones {
			full.Set(i, cols, 1)
		}
		s.End()
	}
	return s, full
}

func matrixOf(d Dense) *mat.Dense {
	m := mat.NewDense(d.Rows, d.Cols, nil)
	for i, v := range d.Data {
		m.RawMatrix().Data[i] = float64(v)
	}
	return m
}

// rowsOf returns the rows [from, to) of a matrix, whose first offset is not 0.
func rowsOf(s Sparse, from, to int) Sparse {
	s.Rows, s.Starts = to-from, s.Starts[from:to+1:to+1]
	return s
}

// Products with a sparse matrix equal those with its dense form.
func TestSparseProducts(t *testing.T) { withEachAcceleration(t, testSparseProducts) }

func testSparseProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range []int{1, 2, 3, 4, 7, 20} {
		for _, ones := range []bool{false, true} {
			x, full := sparseOf(r, 23, 11, ones)
			x, full = rowsOf(x, 3, 20), full.Slice(3, 20, 0, x.Width()).(*mat.Dense)
			w, before := random(x.Width(), k, 3), random(x.Rows, k, 4)
			scores := Dense{before.Rows, before.Cols, append([]float32(nil), before.Data...)}
			MulAddSparse(scores, x, w)
			var want mat.Dense
			want.Mul(full, matrixOf(w))
			want.Add(&want, matrixOf(before))
			assert.True(t, mat.EqualApprox(matrixOf(scores), &want, 1e-4), "k = %d, ones %v: the scores differ", k, ones)

			weights := make([]float32, x.Rows)
			diagonal := mat.NewDiagDense(x.Rows, nil)
			for i := range weights {
				if weights[i] = float32(i % 3); weights[i] == 0 {
					before.Row(i)[0] = float32(math.Inf(1)) // rows of weight 0 may hold any value
				}
				diagonal.SetDiag(i, float64(weights[i]))
			}
			sum := make([]float64, x.Width()*k)
			AddCrossSparse(sum, x, before, weights)
			for i, w := range weights {
				if w == 0 {
					before.Row(i)[0] = 0
				}
			}
			want.Reset()
			want.Product(full.T(), diagonal, matrixOf(before))
			assert.True(t, mat.EqualApprox(mat.NewDense(x.Width(), k, sum), &want, 1e-4), "k = %d, ones %v: the cross moments differ", k, ones)

			squares, bounds := make([]float64, x.Width()), make([]float64, x.Width())
			AddDiagonalSparse(squares, bounds, x, weights)
			var gram mat.Dense
			gram.Product(full.T(), diagonal, full)
			rest := mat.NewSymDense(x.Width(), nil)
			for i := range squares {
				assert.Near(t, squares[i], gram.At(i, i), 1e-6, "the square of column %d", i)
				for j := range i + 1 {
					rest.SetSym(i, j, -gram.At(i, j))
				}
				rest.SetSym(i, i, bounds[i]-gram.At(i, i))
			}
			var eigen mat.EigenSym
			assert.True(t, eigen.Factorize(rest, false) && eigen.Values(nil)[0] >= -1e-6,
				"the bounds do not bound the Gram matrix: eigenvalues of the difference are %v", eigen.Values(nil))
		}
	}
}

// The assembly loops round as the Go code does, and write only their own values.
func TestSparseProductsHaveTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, k := range []int{1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 31, 32, 33} {
		x, _ := sparseOf(r, 20, 30, true)
		w, residuals, weights := random(x.Width(), k, 3), random(x.Rows, k, 4), random(1, x.Rows, 5).Data
		var first []float64
		withEachAcceleration(t, func(t *testing.T) {
			scores, sum := random(x.Rows+1, k, 6), make([]float64, (x.Width()+1)*k)
			MulAddSparse(scores.Slice(0, x.Rows), x, w)
			AddCrossSparse(sum[:x.Width()*k], x, residuals, weights)
			for _, v := range scores.Data {
				sum = append(sum, float64(v))
			}
			if first == nil {
				first = sum
			}
			for i, v := range sum {
				assert.Need(t, v == first[i], "%d classes: value %d is %v, expected %v", k, i, v, first[i])
			}
		})
	}
}

// holes replaces every fifth value of the first rows by a NaN.
func holes(x Dense) Dense {
	for i := range x.Slice(0, 3).Data {
		if i%5 == 2 {
			x.Data[i] = float32(math.NaN())
		}
	}
	return x
}

func TestStandardize(t *testing.T) {
	for _, cols := range sizes {
		x, center, scale := holes(random(6, cols, 1)), random(1, cols, 2).Data, random(1, cols, 3).Data
		before := slices.Clone(x.Data)
		Standardize(x, center, scale)
		for i, v := range before {
			want := float32(0)
			if v == v {
				want = (v - center[i%cols]) * scale[i%cols]
			}
			assert.Need(t, x.Data[i] == want, "%d columns: value %d is %v, want %v", cols, i, x.Data[i], want)
		}
	}
}

func TestUnitRows(t *testing.T) {
	for _, cols := range append([]int{chunk + 40}, sizes...) {
		x := holes(random(8, cols, 1))
		clear(x.Row(6))
		for j := range x.Row(7) {
			x.Row(7)[j] *= 1e-44
		}
		before := Dense{Rows: 8, Cols: cols, Data: slices.Clone(x.Data)}
		UnitRows(x)
		for i := range x.Rows {
			length := 0.0
			for _, v := range before.Row(i) {
				if v == v {
					length += float64(v) * float64(v)
				}
			}
			for j, v := range before.Row(i) {
				want, got := float64(v), float64(x.Row(i)[j])
				if length > 0 {
					want /= math.Sqrt(length)
				}
				assert.Need(t, math.Abs(got-want) <= 1e-7 || (v != v && got != got), "%d columns: (%d, %d) is %v, want %v", cols, i, j, got, want)
			}
		}
	}
}

func TestAddColumns(t *testing.T) {
	for _, cols := range append([]int{chunk + 40}, sizes...) {
		x, center, weights := holes(random(6, cols, 1)), random(1, cols, 2).Data, []float32{1, 0, 2.5, 0.5, 3, 1}
		x.Row(1)[0] = float32(math.Inf(1)) // of weight 0
		before := Dense{Rows: 6, Cols: cols, Data: slices.Clone(x.Data)}
		sums, squares, present := make([]float64, cols), make([]float64, cols), make([]float64, cols)
		AddColumns(sums, squares, present, x, center, weights)
		for j := range cols {
			var want [3]float64
			for i, w := range weights {
				v, z := before.Row(i)[j], float32(0)
				if v == v {
					z = v - center[j]
				}
				got := x.Row(i)[j]
				assert.Need(t, got == z, "%d columns: (%d, %d) is %v, want %v", cols, i, j, got, z)
				if v == v && w > 0 {
					want[0] += float64(w) * float64(z)
					want[1] += float64(w) * float64(z) * float64(z)
					want[2] += float64(w)
				}
			}
			got := [3]float64{sums[j], squares[j], present[j]}
			assert.Need(t, got == want, "%d columns: the sums of column %d are %v, want %v", cols, j, got, want)
		}
	}
}

// Chosen columns equal those of the matrix, in row order, for any columns and any earlier choice.
func TestChooseColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var got Sparse
	for _, cols := range []int{1, 63, 64, 65} {
		for _, rows := range []int{0, 1, 40} {
			x, _ := sparseOf(r, rows+2, cols, true)
			x = rowsOf(x, 1, 1+rows)
			for _, step := range []int{1, 2, 70} {
				var chosen []int32
				for j := 0; j < cols; j += step {
					chosen = append(chosen, int32(j))
				}
				x.Choose(&got, chosen)
				assert.Need(t, got.Rows == rows && got.Width() == len(chosen),
					"%d of %d columns: %d×%d, expected %d rows", len(chosen), cols, got.Rows, got.Width(), rows)
				for i := range rows {
					var places []int32
					var values []float32
					all, of := x.Row(i)
					for at, j := range all {
						if place, has := slices.BinarySearch(chosen, j); has {
							places, values = append(places, int32(place)), append(values, of[at])
						}
					}
					if columns, of := got.Row(i); !slices.Equal(columns, places) || !slices.Equal(of, values) {
						t.Errorf("%d of %d columns: row %d has %v in %v, expected %v in %v", len(chosen), cols, i, of, columns, values, places)
					}
				}
			}
		}
	}
	far := int32(1 << 20)
	Sparse{Rows: 1, Cols: int(far) + 1, Starts: []int{0, 2}, Columns: []int32{0, far}, Values: []float32{1, 2}}.Choose(&got, []int32{far})
	assert.Equal(t, got.Columns, []int32{0}, "the places of the chosen columns of a row")
	assert.Equal(t, got.Values, []float32{2}, "their values")
}
