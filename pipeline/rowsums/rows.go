package rowsums

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// Batch is the rows of a message in the visits of an update.
type Batch struct {
	Block  kernel.Sparse   // n × p
	Before kernel.Dense    // n × k: the scores before the stage
	Rows   accumulate.Rows // n
	Fitted []float32       // n: training weights, 0 for other rows
}

// Segment is the batches of a segment of a partition.
type Segment struct {
	Partition, Number int
	Batches           []Batch
}

// facts is the number of values per row in the field of that name.
const facts = 5

// silent reports whether a row has no effect: its label is unknown, or it has no weight.
func (b *Batch) silent(row int) bool {
	return b.Rows.Classes[row] < 0 || b.Rows.Weights[row] == 0 && b.Fitted[row] == 0
}

// Write adds the rows of a segment to a sum, as fields that are not sums. It clears the values of silent rows. scored
// means that they have scores before the stage.
func Write(sum *accumulate.Sum, s Segment, scored bool) {
	n, values, k := 0, 0, 0
	for i := range s.Batches {
		b := &s.Batches[i]
		n, k = n+b.Block.Rows, b.Before.Cols
		for row := range b.Block.Rows {
			if !b.silent(row) {
				values += b.Block.Starts[row+1] - b.Block.Starts[row]
			}
		}
	}
	if len(s.Batches) == 0 {
		return
	}
	of := sum.Field(statistics.FieldRowBatches, len(s.Batches), 3)[:0]
	list := sum.Field(statistics.FieldRowFacts, n, facts)[:0]
	pairs := sum.Field(statistics.FieldRowValues, values, 2)[:0]
	for i := range s.Batches {
		b := &s.Batches[i]
		of = append(of, float64(s.Partition), float64(s.Number), float64(b.Block.Rows))
		for row := range b.Block.Rows {
			columns, values := b.Block.Row(row)
			if b.silent(row) {
				columns, values = nil, nil
			}
			list = append(list, float64(len(columns)), float64(b.Rows.Classes[row]), float64(b.Rows.Weights[row]), float64(b.Fitted[row]),
				float64(b.Rows.Splits[row]))
			for at, column := range columns {
				pairs = append(pairs, float64(column), float64(values[at]))
			}
		}
	}
	if scored {
		writeDense(sum, statistics.FieldRowScores, n, k, s.Batches, func(b *Batch) kernel.Dense { return b.Before })
	}
	if s.Batches[0].Rows.Task == examples.SeveralLabels {
		writeDense(sum, statistics.FieldRowTargets, n, k, s.Batches, func(b *Batch) kernel.Dense { return b.Rows.Targets })
	}
}

// writeDense writes a field with k values per row; those of silent rows are 0.
func writeDense(sum *accumulate.Sum, name string, n, k int, batches []Batch, of func(*Batch) kernel.Dense) {
	to := sum.Field(name, n, k)
	for i := range batches {
		values := of(&batches[i])
		for row := range values.Rows {
			if !batches[i].silent(row) {
				for class, v := range values.Row(row) {
					to[class] = float64(v)
				}
			}
			to = to[k:]
		}
	}
}

// readRows is the inverse of [Write], for all consecutive segments, given the shape and the task of the stage. The error means
// that the fields are invalid.
func readRows(t wire.Tensors[float64], shape solve.Shape, task examples.Task) (segments []Segment, err error) {
	batches, err := matrix(t, statistics.FieldRowBatches, 3)
	if err != nil {
		return nil, err
	}
	r := reader{shape: shape, task: task}
	if r.facts, err = matrix(t, statistics.FieldRowFacts, facts); err != nil {
		return nil, err
	}
	if r.values, err = matrix(t, statistics.FieldRowValues, 2); err != nil {
		return nil, err
	}
	n := len(r.facts) / facts
	if _, scored := t.Find(statistics.FieldRowScores); scored {
		if r.scores, err = t.Shaped(statistics.FieldRowScores, n, shape.Classes); err != nil {
			return nil, err
		}
	}
	if task == examples.SeveralLabels && n > 0 {
		if r.targets, err = t.Shaped(statistics.FieldRowTargets, n, shape.Classes); err != nil {
			return nil, err
		}
	}
	for ; len(batches) > 0; batches = batches[3:] {
		partition, number, rows := int(batches[0]), int(batches[1]), batches[2]
		if !(rows >= 0 && rows <= float64(len(r.facts)/facts)) {
			return nil, fmt.Errorf("%w: a message of %v rows", wire.ErrDamaged, rows)
		}
		b, err := r.batch(int(rows))
		if err != nil {
			return nil, err
		}
		if last := len(segments) - 1; last >= 0 && segments[last].Partition == partition && segments[last].Number == number {
			segments[last].Batches = append(segments[last].Batches, b)
		} else {
			segments = append(segments, Segment{partition, number, []Batch{b}})
		}
	}
	if len(r.facts) > 0 || len(r.values) > 0 {
		return nil, fmt.Errorf("%w: rows of no message, or values of no row", wire.ErrDamaged)
	}
	return segments, nil
}

// matrix returns the values of a field with the given number of columns; nil without the field.
func matrix(t wire.Tensors[float64], name string, columns int) ([]float64, error) {
	f, any := t.Find(name)
	if !any {
		return nil, nil
	}
	return t.Shaped(name, len(f.Data)/columns, columns)
}

// reader has the remaining part of the fields.
type reader struct {
	shape                          solve.Shape
	task                           examples.Task
	facts, values, scores, targets []float64
}

// batch reads the next n rows.
func (r *reader) batch(n int) (b Batch, err error) {
	k := r.shape.Classes
	b.Block = kernel.Sparse{Cols: r.shape.Penalised, Ones: r.shape.Columns > r.shape.Penalised, Rows: n, Starts: make([]int, 1, n+1)}
	b.Before, b.Fitted = kernel.NewDense(n, k), make([]float32, n)
	b.Rows = accumulate.Rows{Task: r.task, Weights: make([]float32, n), Splits: make([]examples.Split, n)}
	b.Rows.Classes = make([]int32, n)
	values := 0.0
	for row := range n {
		values += r.facts[row*facts]
	}
	if values >= 0 && values <= float64(len(r.values)/2) {
		b.Block.Columns, b.Block.Values = make([]int32, 0, int(values)), make([]float32, 0, int(values))
	}
	for row := range n {
		f := r.facts[:facts]
		r.facts = r.facts[facts:]
		class, weight, fitted, split := f[1], f[2], f[3], f[4]
		ok := class == math.Trunc(class) && class >= examples.Unlabelled && class < float64(k) && split == math.Trunc(split) && split >= 0 &&
			split < examples.Splits && weight >= 0 && fitted >= 0 && f[0] >= 0 && f[0] <= float64(len(r.values)/2)
		if !ok {
			return b, fmt.Errorf("%w: a row with %v", wire.ErrDamaged, f)
		}
		b.Rows.Classes[row], b.Rows.Weights[row], b.Fitted[row] = int32(class), float32(weight), float32(fitted)
		b.Rows.Splits[row] = examples.Split(split)
		last := -1.0
		for range int(f[0]) {
			column, value := r.values[0], r.values[1]
			if r.values = r.values[2:]; !(column > last && column < float64(r.shape.Penalised)) || column != math.Trunc(column) {
				return b, fmt.Errorf("%w: column %v of a row, after %v of %d", wire.ErrDamaged, column, last, r.shape.Penalised)
			}
			last = column
			b.Block.Columns, b.Block.Values = append(b.Block.Columns, int32(column)), append(b.Block.Values, float32(value))
		}
		b.Block.Starts = append(b.Block.Starts, len(b.Block.Columns))
	}
	if r.scores != nil {
		r.scores = fill(b.Before, r.scores)
	}
	if r.targets != nil {
		b.Rows.Targets = kernel.NewDense(n, k)
		r.targets = fill(b.Rows.Targets, r.targets)
	}
	return b, nil
}

// fill fills dst, and returns the rest.
func fill(dst kernel.Dense, from []float64) []float64 {
	for i := range dst.Data {
		dst.Data[i] = float32(from[i])
	}
	return from[len(dst.Data):]
}
