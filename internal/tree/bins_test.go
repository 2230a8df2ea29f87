package tree

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// A code is one more than the number of edges below the value.
func TestEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	inf := float32(math.Inf(1))
	for _, edges := range [][]float32{nil, {0}, {-inf, -1, 0, 1e-40, 2, inf}, WordEdges(MaxWords), edgesOf(r, 250), edgesOf(r, 3)} {
		b := Bins{Edges: [][]float32{edges, {5}}}
		arrowtest.NoError(t, b.Check())
		values := []float32{float32(math.NaN()), -float32(math.NaN()), 0, float32(math.Copysign(0, -1)), inf, -inf}
		values = append(values, math.MaxFloat32, -math.MaxFloat32, 1e-45, -1e-45)
		for _, edge := range edges {
			values = append(values, edge, math.Nextafter32(edge, inf), math.Nextafter32(edge, -inf))
		}
		rows := make([]float32, 2*len(values))
		for i, x := range values {
			rows[2*i], rows[2*i+1] = x, 7
		}
		codes := make([]uint8, len(rows))
		NewEncoder(b).Encode(codes, rows)
		for i, x := range values {
			want := uint8(1)
			for _, edge := range edges {
				if edge < x {
					want++
				}
			}
			if x != x {
				want = 0
			}
			if codes[2*i] != want || codes[2*i+1] != 2 {
				t.Errorf("%v has the code %d, and 7 has %d, want %d and 2, of edges %v", x, codes[2*i], codes[2*i+1], want, edges)
			}
		}
	}
}

func edgesOf(r *rand.Rand, n int) []float32 {
	values := make([]float32, 40*n)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	return NewBins(values, 1).Edges[0]
}

// A sample has at most 250 codes per column. Up to 250 distinct values each get their own. A value that occurs in 1/250
// of the rows ends a bin, and other bins have about equally many rows.
func TestBinsOfASample(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 249, 250, 251, 1000, 20000} {
		for _, frequent := range []int{-1, 0, 1, 20, 200} {
			values := make([]float32, n)
			for i := range values {
				if values[i] = float32(r.ExpFloat64()); frequent > 0 && i%2 == 0 {
					values[i] = float32(i/2%frequent) / 3
				} else if frequent < 0 { // few values, many of them rare
					values[i] = float32(math.Floor(20 * float64(values[i])))
				}
			}
			b := NewBins(values, 1)
			arrowtest.NoError(t, b.Check())
			codes := make([]uint8, n)
			NewEncoder(b).Encode(codes, values)
			rows, largest, count := map[uint8]int{}, map[uint8]float32{}, map[float32]int{}
			for i, code := range codes {
				rows[code]++
				largest[code] = max(largest[code], values[i])
				count[values[i]]++
			}
			if len(rows) > MaxEdges+1 || len(b.Edges[0]) > MaxEdges || len(rows) != len(b.Edges[0])+1 {
				t.Errorf("%d values have %d codes of %d edges", n, len(rows), len(b.Edges[0]))
			}
			if len(count) <= MaxEdges+1 && len(rows) != len(count) {
				t.Errorf("%d values, of which %d are different, have %d codes", n, len(count), len(rows))
			}
			for i, code := range codes {
				if x := values[i]; count[x]*(MaxEdges+1) >= n && x != largest[code] {
					t.Errorf("%v, which %d of %d rows have, does not end a bin, but %v", x, count[x], n, largest[code])
				}
			}
			for code, n := range rows {
				if n-count[largest[code]] > len(values)/(MaxEdges+1)+1 {
					t.Errorf("%d of %d rows share the code %d", n, len(values), code)
				}
			}
		}
	}
}

func TestBinsOfMissingValues(t *testing.T) {
	nan := float32(math.NaN())
	b := NewBins([]float32{nan, 1, nan, 2, nan, 1}, 2)
	if len(b.Edges[0]) != 0 || !slices.Equal(b.Edges[1], []float32{1.5}) {
		t.Errorf("edges are %v", b.Edges)
	}
	if between(1, math.Nextafter32(1, 2)) != 1 || between(float32(math.Inf(-1)), 3) != float32(math.Inf(-1)) {
		t.Error("an edge is not between its values")
	}
}

func TestBinsFromOutside(t *testing.T) {
	for _, edges := range [][]float32{{1, 1}, {2, 1}, {float32(math.NaN())}, {1, float32(math.NaN())}, make([]float32, 255)} {
		if err := (Bins{Edges: [][]float32{{1}, edges}}).Check(); !errors.As(err, new(*EdgeError)) {
			t.Errorf("%v: error %v", edges, err)
		}
	}
}
