package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

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

func TestBoundRows(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		BoundRows(nil, nil, nil, []int32{0, 1})
		for _, columns := range []int{8, 16, 24, 32, 40} {
			const n = 70
			codes := make([]uint8, n*columns)
			for i := range codes {
				codes[i] = uint8(r.IntN(256))
			}
			for _, some := range []int{0, 1, 2, 63, 64, 65} {
				rows := someRows(r, n, some)
				low, high := make([]uint8, columns), make([]uint8, columns)
				BoundRows(low, high, codes, rows)
				for j := range columns {
					values := []uint8{}
					for _, row := range rows {
						values = append(values, codes[int(row)*columns+j])
					}
					wantLow, wantHigh := uint8(255), uint8(0)
					if some > 0 {
						wantLow, wantHigh = slices.Min(values), slices.Max(values)
					}
					if low[j] != wantLow || high[j] != wantHigh {
						t.Errorf("%d rows, column %d of %d: %d to %d, expected %d to %d", some, j, columns, low[j], high[j], wantLow, wantHigh)
					}
				}
			}
			for _, row := range []int32{-1, n} {
				if !panics(func() { BoundRows(make([]uint8, columns), make([]uint8, columns), codes, []int32{0, row, 1}) }) {
					t.Errorf("row %d of %d is read", row, n)
				}
			}
		}
	})
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
				if !slices.Equal(got, want) {
					t.Errorf("%d columns of %d values: the sums differ", columns, width)
				}
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
			if got := panics(func() { AddParts(make([]float64, 24), p, make([]uint8, 9*16), make([]float64, 9*4), 4, rows) }); got != (name != "") {
				t.Errorf("%q: panic %v", name, got)
			}
		}
	})
}
