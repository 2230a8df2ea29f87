package kernel

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stagewise/stagewise/internal/assert"
)

// guarded returns a copy of values that ends at memory that can't be accessed.
func guarded[T any](t *testing.T, values []T) []T {
	t.Helper()
	var zero T
	bytes, page := len(values)*int(unsafe.Sizeof(zero)), syscall.Getpagesize()
	size := (bytes + page - 1) / page * page
	memory := assert.Must(syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	t.Cleanup(func() { syscall.Munmap(memory) })
	assert.NoError(t, syscall.Mprotect(memory[size:], syscall.PROT_NONE))
	if bytes == 0 {
		return nil
	}
	end := unsafe.Slice((*T)(unsafe.Pointer(&memory[size-bytes])), len(values))
	copy(end, values)
	return end
}

// The loops neither read nor write past the end of their arguments: such an access ends the process, with the name of the loop.
func TestLoopsStayInTheirMemory(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		floats := func(rows, cols int) Dense {
			d := random(rows, cols, 1)
			d.Data = guarded(t, d.Data)
			return d
		}
		b := Gonum()
		for _, n := range []int{1, 6, 11} {
			for _, k := range []int{1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65} {
				x, wide := floats(n, 9), floats(n, k)
				columns, codes := guarded(t, make([]int32, n)), guarded(t, make([]uint8, n))
				starts := make([]int, n+1)
				for i := range n {
					columns[i], codes[i], starts[i+1] = int32(i), uint8(i), i+1
				}
				sparse := Sparse{Rows: n, Cols: n, Starts: starts, Columns: columns, Values: floats(1, n).Data}
				for _, do := range map[string]func(){
					"MulAdd": func() {
						w := NewWeights(floats(9, k))
						w.padded = guarded(t, w.padded)
						b.MulAdd(wide, x, w)
					},
					"Cross": func() {
						var c Cross
						c.Begin(9, k)
						c.sum = guarded(t, c.sum)
						c.Add(b, x, wide, fill(1, n, 1).Data)
						c.AddTo(guarded(t, make([]float64, 9*k)))
					},
					"AddResponses": func() {
						f := NewFilters(floats(9, k), 5)
						f.panels = guarded(t, f.panels)
						b.AddResponses(floats(2, k), floats(2, k), x, f, 0.5, floats(1, f.Scratch(n)).Data)
					},
					"Cosine":           func() { Cosine(floats(n, k), floats(1, k).Data, 1) },
					"SoftmaxRows":      func() { SoftmaxRows(floats(n, k), nil, nil) },
					"ScaleRows":        func() { ScaleRows(floats(n, k), floats(1, n).Data, floats(1, k).Data, 1) },
					"MulAddSparse":     func() { MulAddSparse(wide, sparse, floats(n, k)) },
					"AddCrossSparse":   func() { AddCrossSparse(guarded(t, make([]float64, n*k)), sparse, wide, fill(1, n, 1).Data) },
					"AddLeafRows":      func() { AddLeafRows(wide.Data, codes, floats(n, k).Data, n, n, k) },
					"AddLeafResiduals": func() { AddLeafResiduals(guarded(t, make([]float64, n*k)), codes, wide.Data, n, n, k) },
					"ShapleyTree": func() {
						s := newShapleySample(rand.New(rand.NewPCG(1, 7)), n, k, 2)
						s.Nodes, s.Leaves, s.Points = guarded(t, s.Nodes), guarded(t, s.Leaves), guarded(t, s.Points)
						scratch := guarded(t, make([]float32, ((2*k+1)*n+2*(n+1))*ShapleyRows))
						sums, codes := guarded(t, make([]float64, 2*s.places*ShapleyRows)), guarded(t, make([]uint8, s.columns*ShapleyRows))
						s.Add(sums, codes, 1, 2, &scratch)
					},
					"AddParts": func() {
						p := Parts{Stride: 1, Columns: guarded(t, []int32{0}), Of: guarded(t, make([]uint8, codesOfColumn)), Count: 2}
						AddParts(guarded(t, make([]float64, 8*k)), p, codes, guarded(t, make([]float64, 4*k*n)), 4*k, columns)
					},
				} {
					do()
				}
			}
		}
	})
}
