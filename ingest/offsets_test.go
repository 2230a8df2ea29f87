package ingest

import (
	"math"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
)

// Only columns that float32 does not resolve get an offset.
func TestOffsets(t *testing.T) {
	for name, test := range map[string]struct {
		value func(i int) float64
		needs bool
	}{
		"milliseconds":       {func(i int) float64 { return 1764000000000 + 1000*float64(i) }, true},
		"negative":           {func(i int) float64 { return -1764000000000 + 1000*float64(i) }, true},
		"one of them":        {func(int) float64 { return 1764000000001 }, true},
		"a decade":           {func(i int) float64 { return 1764000000 + 86400*float64(i) }, false},
		"years":              {func(i int) float64 { return 2020 + float64(i%50/49) }, false},
		"a constant":         {func(int) float64 { return 0.1 }, false},
		"numbers around 0":   {func(i int) float64 { return math.Sin(float64(i)) }, false},
		"large whole ones":   {func(i int) float64 { return 1<<23 + float64(i%2) }, false},
		"above float32":      {func(i int) float64 { return math.Ldexp(math.Sin(float64(i)), 1023) }, false},
		"squares above all":  {func(i int) float64 { return 1e200 * float64(i) }, false},
		"missing values all": {func(int) float64 { return math.NaN() }, false},
	} {
		s := layout.Spreads{}
		for i := range 4000 {
			s.Add("x", test.value(i))
		}
		at := s["x"]
		if at == nil {
			if test.needs {
				t.Errorf("%s: no numbers", name)
			}
			continue
		}
		offset := at.Offset()
		if (offset != 0) != test.needs {
			t.Errorf("%s: offset %v, needs one: %v", name, offset, test.needs)
		}
		different := map[float32]bool{}
		exact := map[float64]bool{}
		for i := range 4000 {
			different[float32(test.value(i)-offset)], exact[test.value(i)] = true, true
		}
		if test.needs && len(different) != len(exact) {
			t.Errorf("%s: %d values became %d", name, len(exact), len(different))
		}
	}
}
