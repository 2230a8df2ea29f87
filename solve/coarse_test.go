package solve

import (
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
)

// A feature is coarse only if float32 hardly resolves neighbouring values: not small whole numbers, however little they
// differ, and not values that differ much relative to their size.
func TestFindCoarse(t *testing.T) {
	columns := []struct {
		name   string
		value  func(i int) float64
		coarse bool
	}{
		{"milliseconds", func(i int) float64 { return 1764000000000 + 1000*float64(i) }, true},
		{"one value of them", func(int) float64 { return 1764000000000 }, true},
		{"pressure", func(i int) float64 { return 101325 + 0.003*float64(i%7) }, true},
		{"years", func(i int) float64 { return 2020 + float64(i%50/49) }, false},
		{"a constant", func(int) float64 { return 0.1 }, false},
		{"identifiers", func(i int) float64 { return float64(i) * 123456789123 }, false},
		{"pixels", func(i int) float64 { return float64(i % 256) }, false},
		{"zeros", func(int) float64 { return 0 }, false},
	}
	rows := kernel.NewDense(300, len(columns))
	for i := range rows.Rows {
		for j, c := range columns {
			rows.Row(i)[j] = float32(c.value(i))
		}
	}
	found := map[int]bool{}
	for _, c := range FindCoarse(rows) {
		found[c.Feature] = true
	}
	for j, c := range columns {
		if found[j] != c.coarse {
			t.Errorf("%s: coarse is %v, expected %v", c.name, found[j], c.coarse)
		}
	}
}
