package kernel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
)

// sizes straddle the blocks of gonum and the lanes of the vector functions.
var sizes = []int{1, 7, 63, 64, 65, 130}

// backends returns gonum and, if available, the system's BLAS or the one that STAGEWISE_TEST_BLAS names.
func backends(t testing.TB) []*BLAS {
	t.Helper()
	all := []*BLAS{Gonum()}
	best := assert.Must(Open(os.Getenv("STAGEWISE_TEST_BLAS")))(t)
	if !best.fast {
		t.Logf("only gonum is tested: %s", best.Hint())
		return all
	}
	return append(all, best)
}

func random(rows, cols int, seed uint64) Dense {
	r := rand.New(rand.NewPCG(seed, uint64(rows*1000+cols)))
	x := NewDense(rows, cols)
	for i := range x.Data {
		x.Data[i] = float32(r.NormFloat64())
	}
	return x
}

func fill(rows, cols int, v float32) Dense {
	x := NewDense(rows, cols)
	for i := range x.Data {
		x.Data[i] = v
	}
	return x
}

// product returns op(x)·y in float64, and the largest sum of absolute products, to which rounding errors are proportional.
func product(x, y Dense, transposed bool) (sum []float64, scale float64) {
	rows, inner := x.Rows, x.Cols
	if transposed {
		rows, inner = inner, rows
	}
	for i := range rows {
		for j := range y.Cols {
			var s, size float64
			for l := range inner {
				at := i*x.Cols + l
				if transposed {
					at = l*x.Cols + i
				}
				v := float64(x.Data[at]) * float64(y.Data[l*y.Cols+j])
				s += v
				size += math.Abs(v)
			}
			sum = append(sum, s)
			scale = max(scale, size)
		}
	}
	return sum, scale
}

func TestProductsAgainstFloat64(t *testing.T) {
	for _, b := range backends(t) {
		t.Run(b.Name(), func(t *testing.T) {
			for _, n := range sizes {
				for _, p := range sizes {
					for _, k := range []int{1, 10, 65} {
						x, w := random(n, p, 1), random(p, k, 2)
						for _, add := range []bool{false, true} {
							// Without add, the old values must not matter, not even a NaN.
							before := float32(math.NaN())
							if add {
								before = 2
							}
							check := func(operation string, got Dense, want []float64, scale float64, keepsUpper bool) {
								t.Helper()
								for i := range got.Rows {
									for j := range got.Cols {
										g := float64(got.Data[i*got.Cols+j])
										e := want[i*got.Cols+j]
										if add {
											e += 2
										}
										if keepsUpper && j > i {
											if (g == g) != add || add && g != 2 {
												t.Fatalf("%s n=%d p=%d changed (%d, %d)", operation, n, p, i, j)
											}
											continue
										}
										assert.Need(t, math.Abs(g-e) <= 1e-6*(scale+2),
											"%s n=%d p=%d k=%d add=%v: (%d, %d) is %v, want %v", operation, n, p, k, add, i, j, g, e)
									}
								}
							}
							dst := fill(n, k, before)
							b.Mul(dst, x, w, add)
							want, scale := product(x, w, false)
							check("Mul", dst, want, scale, false)

							if k > 1 {
								continue
							}
							dst = fill(p, p, before)
							b.Gram(dst, x, add)
							want, scale = product(x, x, true)
							check("Gram", dst, want, scale, true)
						}
					}
				}
			}
		})
	}
}

func TestEmptyProducts(t *testing.T) {
	for _, b := range backends(t) {
		for _, shape := range [][3]int{{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {0, 0, 0}} {
			n, p, k := shape[0], shape[1], shape[2]
			for _, add := range []bool{false, true} {
				mul, gram, narrow := fill(n, k, 5), fill(p, p, 5), fill(n, k, 5)
				b.Mul(mul, NewDense(n, p), NewDense(p, k), add)
				b.Gram(gram, NewDense(n, p), add)
				b.MulAdd(narrow, NewDense(n, p), NewWeights(NewDense(p, k)))
				assert.Equal(t, narrow.Data, fill(n, k, 5).Data, "%s %v: MulAdd", b.Name(), shape)
				var c Cross
				c.Begin(p, k)
				c.Add(b, NewDense(n, p), NewDense(n, k), make([]float32, n))
				c.AddTo(make([]float64, p*k))
				want := float32(0)
				if add {
					want = 5
				}
				assert.True(t, !slices.ContainsFunc(mul.Data, func(v float32) bool { return v != want }),
					"%s %v add=%v: %v, want %v", b.Name(), shape, add, mul.Data, want)
				for i := range p {
					for j := range p {
						want := want
						if j > i {
							want = 5
						}
						assert.Equal(t, gram.Data[i*p+j], want, "%s %v add=%v: Gram (%d, %d)", b.Name(), shape, add, i, j)
					}
				}
			}
		}
	}
}

func TestShapesThatDoNotFitPanic(t *testing.T) {
	b := Gonum()
	short := Dense{Rows: 2, Cols: 2, Data: make([]float32, 3)}
	x, _ := sparseOf(rand.New(rand.NewPCG(1, 2)), 4, 3, false)
	for name, f := range map[string]func(){
		"inner":   func() { b.Mul(NewDense(2, 2), NewDense(2, 3), NewDense(4, 2), false) },
		"dst":     func() { b.Mul(NewDense(2, 3), NewDense(2, 2), NewDense(2, 2), false) },
		"rows":    func() { new(Cross).Add(b, NewDense(3, 0), NewDense(4, 0), make([]float32, 3)) },
		"weights": func() { new(Cross).Add(b, NewDense(3, 0), NewDense(3, 0), make([]float32, 2)) },
		"columns": func() { b.MulAdd(NewDense(2, 2), NewDense(2, 3), NewWeights(NewDense(4, 2))) },
		"square":  func() { b.Gram(NewDense(2, 3), NewDense(4, 2), false) },
		"short":   func() { b.Gram(NewDense(2, 2), short, false) },
		"row":     func() { AddRow(NewDense(2, 3), make([]float32, 2)) },
		"tile":    func() { addTo(make([]float64, 2), make([]float32, 3)) },
		"sum":     func() { Add(make([]float64, 2), make([]float64, 3)) },
		"packed":  func() { AddLower(make([]float64, 2), NewDense(2, 2)) },
		"simplex": func() { SimplexRows(short, nil) },

		"sparse rows":     func() { MulAddSparse(NewDense(5, 2), x, NewDense(3, 2)) },
		"sparse weights":  func() { MulAddSparse(NewDense(4, 2), x, NewDense(4, 2)) },
		"sparse classes":  func() { MulAddSparse(NewDense(4, 2), x, NewDense(3, 1)) },
		"sparse sums":     func() { AddCrossSparse(make([]float64, 5), x, NewDense(4, 2), make([]float32, 4)) },
		"sparse diagonal": func() { AddDiagonalSparse(make([]float64, 3), make([]float64, 2), x, make([]float32, 4)) },
		"sparse column":   func() { MulAddSparse(NewDense(1, 2), columnOf(3), NewDense(3, 2)) },
		"sparse negative": func() { MulAddSparse(NewDense(1, 2), columnOf(-1), NewDense(3, 2)) },
		"sparse cross":    func() { AddCrossSparse(make([]float64, 8), columnOf(4), NewDense(1, 2), []float32{1}) },
	} {
		withEachAcceleration(t, func(t *testing.T) { assert.Equal(t, panics(f), true, "%s: it panics", name) })
	}
}

// columnOf returns a row with a value in one of three columns.
func columnOf(column int32) Sparse {
	return Sparse{Rows: 1, Cols: 3, Starts: []int{0, 1}, Columns: []int32{column}, Values: []float32{1}}
}

// The same call gives the same bits on any goroutine, alongside any other calls, and for any alignment of the slices.
func TestProductsAreDeterministic(t *testing.T) {
	const n, p, k = 257, 130, 10
	for _, b := range backends(t) {
		x, w, r := random(n, p, 1), random(p, k, 2), random(n, k, 3)
		results := make([][]float32, 8)
		var group sync.WaitGroup
		for g := range results {
			group.Go(func() {
				shifted := func(d Dense) Dense {
					return Dense{Rows: d.Rows, Cols: d.Cols, Data: append(make([]float32, g), d.Data...)[g:]}
				}
				x, w, r := shifted(x), shifted(w), shifted(r)
				laid, ones, sum := NewWeights(w), slices.Repeat([]float32{1}, n), make([]float64, p*k)
				for range 20 {
					mul, narrow, gram := shifted(NewDense(n, k)), shifted(NewDense(n, k)), shifted(NewDense(p, p))
					b.Mul(mul, x, w, false)
					b.MulAdd(narrow, x, laid)
					b.Gram(gram, x, false)
					var cross Cross
					cross.Begin(p, k)
					cross.Add(b, x, r, ones)
					clear(sum)
					cross.AddTo(sum)
					result := slices.Concat(mul.Data, narrow.Data, gram.Data)
					for _, v := range sum {
						result = append(result, float32(v))
					}
					if results[g] == nil {
						results[g] = result
					} else if !slices.Equal(results[g], result) {
						t.Errorf("%s: goroutine %d got other bits the second time", b.Name(), g)
					}
				}
			})
		}
		group.Wait()
		for g, result := range results {
			assert.True(t, slices.Equal(result, results[0]), "%s: goroutine %d got other bits than goroutine 0", b.Name(), g)
		}
	}
}

func TestProductsDoNotAllocate(t *testing.T) {
	for _, b := range backends(t) {
		x, w, r := random(130, 65, 1), random(65, 10, 2), random(130, 10, 3)
		mul, gram := NewDense(130, 10), NewDense(65, 65)
		laid, ones := NewWeights(w), slices.Repeat([]float32{1}, 130)
		var cross Cross
		cross.Begin(65, 10)
		allocations := testing.AllocsPerRun(100, func() {
			b.Mul(mul, x, w, true)
			b.MulAdd(mul, x, laid)
			cross.Add(b, x, r, ones)
			b.Gram(gram, x, true)
		})
		// A sync.Pool may drop its values, so an occasional allocation is allowed.
		assert.True(t, allocations < 3, "%s: %v allocations", b.Name(), allocations)
	}
}

func TestOpen(t *testing.T) {
	b, err := Open("gonum")
	assert.True(t, err == nil && b.Name() == "gonum" && !b.fast && b.Hint() != "", "gonum: %+v, %v", b, err)
	b, err = Open("")
	assert.True(t, err == nil && b.Name() != "" && b.fast == (b.Hint() == ""), "best: %+v, %v", b, err)
	if b, err := Open(""); err == nil && b.Vector() == "avx2" && os.Getenv("OPENBLAS_CORETYPE") == "" && strings.Contains(b.Name(),
		"Prescott") {
		t.Errorf("%s: code without AVX on a processor with AVX2", b.Name())
	}
	var open *OpenError
	for _, choice := range []string{"libnosuchblas.so", filepath.Join(t.TempDir(), "blas.so")} {
		b, err := Open(choice)
		assert.True(t, errors.As(err, &open) && open.Choice == choice, "%s: %v, %v", choice, b, err)
	}
	if canOpen && runtime.GOOS == "linux" {
		b, err := Open("libm.so.6")
		assert.True(t, errors.As(err, &open) && errors.Is(err, errNotBLAS), "libm: %v, %v", b, err)
	}
}

// gonum's factorizations are correct on every backend, for all shapes in which they call the routines.
func TestUseForSolves(t *testing.T) {
	defer Gonum().UseForSolves()
	for _, b := range backends(t) {
		b.UseForSolves()
		for _, p := range append([]int{2, 200}, sizes...) {
			t.Run(fmt.Sprint(b.Name(), " ", p), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(p), 1))
				normal := func(rows, cols int) *mat.Dense {
					m := mat.NewDense(rows, cols, nil)
					m.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, m)
					return m
				}
				x, y := normal(2*p, p), normal(p, 5)
				var s mat.SymDense
				s.SymOuterK(1/float64(2*p), x.T())
				for i := range p {
					for j := range p {
						var want float64
						for l := range 2 * p {
							want += x.At(l, i) * x.At(l, j) / float64(2*p)
						}
						assert.Need(t, math.Abs(s.At(i, j)-want) <= 1e-12*float64(p), "xᵀx (%d, %d) is %v, want %v", i, j, s.At(i, j), want)
					}
				}
				near := func(what string, got, want mat.Matrix) {
					t.Helper()
					assert.True(t, mat.EqualApprox(got, want, 1e-8), "%s differs", what)
				}
				var cholesky mat.Cholesky
				assert.Need(t, cholesky.Factorize(&s), "not positive definite")
				var w, back mat.Dense
				assert.NoError(t, cholesky.SolveTo(&w, y))
				back.Mul(&s, &w)
				near("Cholesky", &back, y)

				var eigen mat.EigenSym
				assert.Need(t, eigen.Factorize(&s, true), "no eigenvalues")
				var v, scaled, again mat.Dense
				eigen.VectorsTo(&v)
				scaled.Mul(&v, mat.NewDiagDense(p, eigen.Values(nil)))
				again.Mul(&scaled, v.T())
				near("EigenSym", &again, &s)

				var qr mat.QR
				qr.Factorize(x)
				var fit, normalEquations, xy mat.Dense
				target := normal(2*p, 3)
				assert.NoError(t, qr.SolveTo(&fit, false, target))
				xy.Mul(x.T(), target)
				xy.Scale(1/float64(2*p), &xy)
				assert.NoError(t, cholesky.SolveTo(&normalEquations, &xy))
				near("QR", &fit, &normalEquations)

				vector := mat.NewVecDense(p, nil)
				vector.MulVec(x.T(), target.ColView(1))
				var column mat.Dense
				column.Mul(x.T(), target)
				near("MulVec", vector, column.ColView(1))
			})
		}
	}
}

// Factors, condition numbers, solutions and traces of inverses equal those of gonum/mat, have the same bits on any number of cores, and
// values above the diagonal are ignored.
func TestCholesky(t *testing.T) {
	defer Gonum().UseForSolves()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, b := range backends(t) {
		b.UseForSolves()
		for _, n := range []int{1, 2, 64, factorBlock, factorBlock + 1, 3*factorBlock - 1, 3*factorBlock + 1} {
			t.Run(fmt.Sprint(b.Name(), " ", n), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(n), 1))
				x := mat.NewDense(2*n, n, nil)
				x.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, x)
				var s mat.SymDense
				s.SymOuterK(1/float64(2*n), x.T())
				a := make([]float64, n*n)
				for i := range n {
					for j := range n {
						if a[i*n+j] = s.At(i, j); j > i {
							a[i*n+j] = math.NaN()
						}
					}
				}
				var oracle mat.Cholesky
				assert.Need(t, oracle.Factorize(&s), "not positive definite for gonum")
				var inverse mat.SymDense
				assert.NoError(t, oracle.InverseTo(&inverse))
				var first []float64
				for _, cores := range []int{1, 3} {
					runtime.GOMAXPROCS(cores)
					c, ok := Factor(slices.Clone(a), n)
					assert.Need(t, ok, "not positive definite")
					most := oracle.Cond()
					assert.True(t, c.Cond() >= 1 && c.Cond() <= most, "a condition number of at least %g, expected up to %g", c.Cond(), most)
					bits := slices.Clone(c.factor.Data)
					for _, k := range []int{1, 10, 65} {
						r, y := rand.New(rand.NewPCG(uint64(k), 2)), mat.NewDense(n, k, nil)
						y.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, y)
						var want mat.Dense
						assert.NoError(t, oracle.SolveTo(&want, y))
						c.Solve(y.RawMatrix().Data, k)
						bits = append(bits, y.RawMatrix().Data...)
						if y.Sub(y, &want); mat.Max(y) > 1e-8*mat.Norm(&want, math.Inf(1)) || mat.Min(y) < -1e-8*mat.Norm(&want, math.Inf(1)) {
							t.Errorf("%d columns are off by %g", k, mat.Max(y))
						}
					}
					trace := c.InverseTrace()
					want := mat.Trace(&inverse)
					assert.Near(t, trace, want, 1e-8*want, "the trace of the inverse")
					same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) } // of NaN too
					if bits = append(bits, trace); first == nil {
						first = bits
					} else if !slices.EqualFunc(first, bits, same) {
						t.Errorf("other bits on %d cores", cores)
					}
				}
				a[n*n-1] = -1
				_, ok := Factor(a, n)
				assert.True(t, !ok, "an indefinite matrix has a factor")
				if c, ok := Factor([]float64{1, 0, 1, 1 + 1e-14}, 2); ok && !(c.Cond() > 1e13) {
					t.Errorf("a nearly singular matrix has the condition number %g", c.Cond())
				}
			})
		}
	}
}
