package stages

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Coder encodes raw rows for trees: one byte for each column of the table. The code of a number is its bin, and that of
// a word its index among the categories. Code 0 is a missing value, an unknown word, or a word after the first
// [tree.MaxWords]. It is immutable.
type Coder struct {
	features []int       // of each column
	edges    [][]float32 // of each column
}

// LearnBins returns the bins of columns, which trees compare, for the survey's result. sample is raw rows. If columns
// is nil, each feature is a column.
func LearnBins(columns examples.Columns, sample kernel.Dense) wire.Tensors[float32] {
	if columns == nil {
		columns = make(examples.Columns, sample.Cols)
	}
	shape, all, feature := make([]float32, 0, 2*len(columns)), []float32{}, 0
	for _, column := range columns {
		var edges []float32
		if n := len(column.Categories); n > 0 {
			edges = tree.WordEdges(n)
		} else {
			values, _ := valuesOf(sample, feature)
			edges = tree.EdgesOf(values)
		}
		shape, all = append(shape, float32(column.Features()), float32(len(edges))), append(all, edges...)
		feature += column.Features()
	}
	return wire.Tensors[float32]{wire.Matrix(statistics.TensorBins, len(columns), 2, shape), wire.Vector(statistics.TensorEdges, all)}
}

// readCoder reads the result of LearnBins for rows of the given number of features. It returns nil if there is none.
func readCoder(t wire.Tensors[float32], width int) (*Coder, error) {
	bins, err := t.Optional(statistics.TensorBins, -1, 2)
	if bins == nil {
		return nil, err
	}
	rest, err := t.Shaped(statistics.TensorEdges, -1)
	if err != nil {
		return nil, err
	}
	c, all := &Coder{}, 0
	for j := range len(bins) / 2 {
		of, numbers := bins[2*j], bins[2*j+1]
		features, n := int(of), int(numbers)
		if float32(features) != of || float32(n) != numbers || features < 1 || features > width-all || n < 0 || n > len(rest) {
			return nil, fmt.Errorf("%w: column %d has %v features and %v edges", wire.ErrDamaged, j, of, numbers)
		}
		if features > 1 && !slices.Equal(rest[:n], tree.WordEdges(features-1)) {
			return nil, fmt.Errorf("%w: column %d has edges that are not those of %d words", wire.ErrDamaged, j, features-1)
		}
		if err := tree.CheckEdges(rest[:n]); err != nil {
			return nil, fmt.Errorf("%w: column %d: %w", wire.ErrDamaged, j, err)
		}
		c.features, c.edges = append(c.features, features), append(c.edges, rest[:n])
		rest, all = rest[n:], all+features
	}
	if all != width || len(rest) > 0 {
		return nil, fmt.Errorf("%w: the bins are of %d features, not %d", wire.ErrDamaged, all, width)
	}
	return c, nil
}

// Width returns the number of columns of the table, c: the number of codes of a row.
func (c *Coder) Width() int { return len(c.features) }

// Features returns the number of features of each column. Callers must not change it.
func (c *Coder) Features() []int { return c.features }

// Divided returns the indices of the columns of numbers and of the columns of words.
func (c *Coder) Divided() (numbers, words []int) {
	for j, features := range c.features {
		if features > 1 {
			words = append(words, j)
		} else {
			numbers = append(numbers, j)
		}
	}
	return numbers, words
}

// checkOrders returns an error that wraps [wire.ErrDamaged] unless all orders with ranks are of columns of words, and
// all other orders of columns of numbers.
func (c *Coder) checkOrders(o tree.Orders) error {
	numbers := o.Numbers()
	for i, column := range o.Columns {
		if words := c.features[column] > 1; words != (i >= numbers) {
			return fmt.Errorf("%w: order %d of %d, of which the last %d have ranks, is of column %d, which has %d features", wire.ErrDamaged,
				i, len(o.Columns), len(o.Columns)-numbers, column, c.features[column])
		}
	}
	return nil
}

// AppendCodes appends the codes of raw rows (n × c, row-major) to codes, and returns them all. NaN is a missing value.
func (c *Coder) AppendCodes(codes []uint8, raw kernel.Dense) []uint8 {
	width, from := len(c.features), len(codes)
	codes = slices.Grow(codes, raw.Rows*width)[:from+raw.Rows*width]
	for i := range raw.Rows {
		row, to := raw.Row(i), codes[from+i*width:][:width]
		for j, features := range c.features {
			if features > 1 {
				to[j] = uint8(1 + firstSet(row[:features-1]))
			} else {
				to[j] = tree.CodeOf(c.edges[j], row[0])
			}
			row = row[features:]
		}
	}
	return codes
}

// firstSet returns the index of the first indicator above 0; −1 if there is none among the words with codes.
func firstSet(indicators []float32) int {
	for i, v := range indicators[:min(len(indicators), tree.MaxWords)] {
		if v > 0 {
			return i
		}
	}
	return -1
}

// Compared is the values that trees compare, in a graph: raw features, and the codes of words.
// [Preparation.AddCompared] creates it.
type Compared struct {
	Raw   onnx.Value
	Width int                // d
	First []int              // feature of each column
	Codes map[int]onnx.Value // of each column of words (n × 1)
}

// AddCompared adds the values of raw rows (n × d) that trees compare. It panics if the preparation has no bins.
func (p *Preparation) AddCompared(g *onnx.Graph, raw onnx.Value) *Compared {
	c := &Compared{Raw: raw, Codes: map[int]onnx.Value{}}
	for j, features := range p.Coder.features {
		c.First = append(c.First, c.Width)
		if features > 1 {
			c.Codes[j] = addCode(g, raw, c.Width, min(features-1, tree.MaxWords))
		}
		c.Width += features
	}
	return c
}

// addCode adds the code of a word (n × 1): the index of the first indicator above 0, counted from 1; 0 if there is none.
func addCode(g *onnx.Graph, raw onnx.Value, first, words int) onnx.Value {
	indicators := g.Node("Slice", raw, g.Integers(int64(first)), g.Integers(int64(first+words)), g.Integers(1))
	set := g.Node("Where", g.Node("Greater", indicators, g.Number(0)), g.Number(1), g.Number(0))
	// The 0.5 before them is the largest if none is set. Ties go to the first.
	return g.Along(1, "ArgMax", g.Node("Pad", set, g.Integers(0, 1, 0, 0), g.Number(0.5)))
}
