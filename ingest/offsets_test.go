package ingest

import (
	"math"
	"testing"

	"github.com/stagewise/stagewise/ingest/format/tabular"
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
		l := layout.New(Defaults().Options, "", []tabular.Field{{Name: "x"}}, true, func(_ int, err error) error { return err })
		var b tabular.Block
		b.Reset(1)
		for i := range 4000 {
			b.Columns[0].Numbers, b.Rows = append(b.Columns[0].Numbers, test.value(i)), b.Rows+1
		}
		found := layout.Spreads{}
		found.Add(&l, &b)
		offset := found.Offsets(1)["x"]
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

// A decimal number is rounded to float64 and then to float32 in every format, as numpy and Arrow do: this one is just below
// the middle of two float32, and its float64 is the middle.
func TestDecimalsHaveOneRounding(t *testing.T) {
	const decimal = "1.00000017881393432617187499"
	for name, text := range map[string]string{
		"rows.csv": "a," + decimal + "\nb,5\n", "rows.libsvm": "0 1:" + decimal + "\n1 1:1\n",
		"rows.jsonl": `{"label":"a","x":"` + decimal + `"}` + "\n" + `{"label":"b","x":5}`,
	} {
		o := Defaults()
		o.Train = []string{newFolder(t).write(t, name, []byte(text))}
		rows, err := readSources(o)
		if err != nil {
			t.Fatal(name, err)
		}
		first := rows[0].Floats
		if rows[0].Sparse != nil {
			first = rows[0].Sparse.Values
		}
		if first[0] != float32(1.000000238418579) {
			t.Errorf("%s: %v", name, first[0])
		}
	}
}
