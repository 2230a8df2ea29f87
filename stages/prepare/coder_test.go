package prepare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The codes of rows match their definition, for any number of rows.
func TestEncode(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, features := range [][]int{{1}, {2}, {1, 1, 1}, {1, 5, 1, 300, 2}, {256, 255}} {
		table := oracle.NewTable(random, features...)
		bins, edges := table.Bins()
		c := arrowtest.Must(readCoder(wire.Tensors[float32]{
			wire.Matrix(statistics.TensorBins, len(features), 2, bins), wire.Vector(statistics.TensorEdges, edges),
		}, table.Width()))(t)
		for _, n := range []int{0, 1, 64, 65, 200} {
			x := table.Rows(random, n)
			before := slices.Clone(x.Data)
			got := c.Encode(x)
			var want []uint8
			for i := range n {
				want = append(want, table.Codes(x.Row(i))...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("columns of %v features: %d rows have the codes %v, expected %v", features, n, got, want)
			}
			if got = c.AppendCodes([]uint8{1, 2}, x); !slices.Equal(got, append([]uint8{1, 2}, want...)) {
				t.Errorf("columns of %v features: the codes of %d rows after others are %v, expected %v", features, n, got, want)
			}
			if !slices.EqualFunc(x.Data, before, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
				t.Errorf("columns of %v features: %d rows are others after they were encoded", features, n)
			}
		}
	}
}

// A word after the 254th of its column shares the code of unknown and missing words.
func TestWordsWithoutACode(t *testing.T) {
	columns := examples.Columns{{Name: "n"}, {Name: "w"}}
	for i := range 300 {
		columns[1].Categories = append(columns[1].Categories, fmt.Sprint(i))
	}
	c := arrowtest.Must(readCoder(LearnBins(columns, kernel.NewDense(3, 302)), 302))(t)
	x := kernel.NewDense(303, 302)
	for i := range 301 {
		x.Row(i)[1+i] = 1
	}
	for j := range x.Row(302) {
		x.Row(302)[j] = float32(math.NaN())
	}
	codes := c.Encode(x)
	for i := range x.Rows {
		want := 0
		if i < tree.MaxWords {
			want = i + 1
		}
		if got := codes[2*i+1]; int(got) != want {
			t.Errorf("word %d of 300 has the code %d, expected %d", i, got, want)
		}
	}
	if codes[0] != 1 || codes[2*302] != 0 {
		t.Errorf("the only number of a column has the code %d, a missing one %d", codes[0], codes[2*302])
	}
}

// The result of LearnBins tells columns of numbers from columns of words, with and without known columns.
func TestLearnBins(t *testing.T) {
	sample := kernel.Dense{Rows: 4, Cols: 5, Data: []float32{1, 1, 0, 0, 7, 2, 0, 1, 0, 7, 3, 0, 0, 1, 7, float32(math.NaN()), 0, 0, 1, 7}}
	columns := examples.Columns{{Name: "a"}, {Name: "b", Categories: []string{"x", "y"}}, {Name: "c"}}
	for _, test := range []struct {
		columns        examples.Columns
		numbers, words []int
		codes          []uint8
	}{
		{columns, []int{0, 2}, []int{1}, []uint8{1, 1, 1, 2, 2, 1, 3, 0, 1, 0, 0, 1}},
		{nil, []int{0, 1, 2, 3, 4}, nil, []uint8{1, 2, 1, 1, 1, 2, 1, 2, 1, 1, 3, 1, 1, 2, 1, 0, 1, 1, 2, 1}},
	} {
		c := arrowtest.Must(readCoder(LearnBins(test.columns, sample), 5))(t)
		if !slices.Equal(c.Numbers(), test.numbers) || !slices.Equal(c.Words(), test.words) || c.Width() != len(test.numbers)+len(test.words) {
			t.Errorf("columns of numbers %v and of words %v, expected %v and %v", c.Numbers(), c.Words(), test.numbers, test.words)
		}
		if got := c.Encode(sample); !slices.Equal(got, test.codes) {
			t.Errorf("codes %v, expected %v", got, test.codes)
		}
	}
}

// Bins that no survey could have learnt are damage; without bins there is no coder.
func TestBinsThatCantBe(t *testing.T) {
	if c, err := readCoder(nil, 3); c != nil || err != nil {
		t.Errorf("a coder %v without bins, %v", c, err)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, test := range map[string]struct{ bins, edges []float32 }{
		"no features":            {[]float32{0, 2, 3, 1}, []float32{1, 2, 0}},
		"features below 0":       {[]float32{-1, 2, 4, 2}, []float32{1, 2, 0, 1}},
		"half a feature":         {[]float32{1.5, 2, 2, 0}, []float32{1, 2}},
		"no number of features":  {[]float32{nan, 2, 2, 0}, []float32{1, 2}},
		"too many features":      {[]float32{1, 2, 3, 1}, []float32{1, 2, 0}},
		"too few features":       {[]float32{1, 2, 1, 1}, []float32{1, 2, 0}},
		"very many features":     {[]float32{inf, 2, 2, 0}, []float32{1, 2}},
		"edges below 0":          {[]float32{1, -1, 2, 0}, nil},
		"half an edge":           {[]float32{1, 0.5, 2, 0}, []float32{1}},
		"no number of edges":     {[]float32{1, nan, 2, 0}, nil},
		"very many edges":        {[]float32{1, 1e30, 2, 0}, []float32{1}},
		"too few edges":          {[]float32{1, 2, 2, 0}, []float32{1}},
		"too many edges":         {[]float32{1, 0, 2, 0}, []float32{1}},
		"edges that descend":     {[]float32{1, 2, 2, 0}, []float32{2, 1}},
		"equal edges":            {[]float32{1, 2, 2, 0}, []float32{1, 1}},
		"an edge that is none":   {[]float32{1, 2, 2, 0}, []float32{1, nan}},
		"edges of one more word": {[]float32{1, 0, 2, 1}, []float32{0}},
		"other edges of words":   {[]float32{3, 1}, []float32{0.5}},
	} {
		c, err := readCoder(wire.Tensors[float32]{wire.Matrix(statistics.TensorBins, len(test.bins)/2, 2, test.bins),
			wire.Vector(statistics.TensorEdges, test.edges)}, 3)
		if !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: a coder %v, %v", name, c, err)
		}
	}
	good := wire.Tensors[float32]{wire.Matrix(statistics.TensorBins, 1, 2, []float32{1, 0}), wire.Vector(statistics.TensorEdges, []float32{})}
	if _, err := readCoder(good, 1); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]wire.Tensors[float32]{
		"no edges":          good[:1],
		"bins of one value": {wire.Matrix(statistics.TensorBins, 2, 1, []float32{1, 0}), good[1]},
		"a vector of bins":  {wire.Vector(statistics.TensorBins, []float32{1, 0}), good[1]},
		"a matrix of edges": {good[0], wire.Matrix(statistics.TensorEdges, 1, 0, []float32{})},
	} {
		if c, err := readCoder(bad, 1); !errors.As(err, new(*wire.ShapeError)) {
			t.Errorf("%s: a coder %v, %v", name, c, err)
		}
	}
}
