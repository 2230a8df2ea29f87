package rowsums

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

const inputs, classes = 40, 3

// segment returns messages of random rows: some are held out, some have no weight, some no label.
func segment(r *rand.Rand, partition, number int, task examples.Task) Segment {
	s := Segment{Partition: partition, Number: number}
	for range 1 + r.IntN(3) {
		n := r.IntN(6)
		b := Batch{Before: kernel.NewDense(n, classes), Fitted: make([]float32, n)}
		b.Rows = accumulate.Rows{Task: task, Weights: make([]float32, n), Splits: make([]examples.Split, n)}
		b.Rows.Classes = make([]int32, n)
		b.Block.Begin(inputs)
		b.Block.Rows, b.Block.Ones = n, true
		if task == examples.SeveralLabels {
			b.Rows.Targets = kernel.NewDense(n, classes)
		}
		for row := range n {
			for column := range int32(inputs) {
				if r.IntN(8) == 0 {
					b.Block.Columns, b.Block.Values = append(b.Block.Columns, column), append(b.Block.Values, r.Float32()+0.1)
				}
			}
			b.Block.Starts = append(b.Block.Starts, len(b.Block.Columns))
			b.Rows.Classes[row], b.Rows.Weights[row] = int32(r.IntN(classes)), r.Float32()+0.5
			switch r.IntN(6) {
			case 0:
				b.Rows.Splits[row] = examples.Holdout
			case 1:
				b.Rows.Classes[row] = examples.Unlabelled
			case 2:
				b.Rows.Weights[row] = 0
			default:
				b.Fitted[row] = b.Rows.Weights[row]
			}
			for class := range classes {
				b.Before.Row(row)[class] = r.Float32()
				if task == examples.SeveralLabels {
					b.Rows.Targets.Row(row)[class] = float32(r.IntN(2))
				}
			}
		}
		s.Batches = append(s.Batches, b)
	}
	return s
}

// silenced returns a segment without the values of rows on which nothing depends.
func silenced(s Segment) Segment {
	of := Segment{Partition: s.Partition, Number: s.Number}
	for _, b := range s.Batches {
		block := b.Block
		block.Starts, block.Columns, block.Values = []int{0}, nil, nil
		for row := range b.Block.Rows {
			if columns, values := b.Block.Row(row); b.Rows.Classes[row] >= 0 && b.Rows.Weights[row] > 0 {
				block.Columns, block.Values = append(block.Columns, columns...), append(block.Values, values...)
			}
			block.Starts = append(block.Starts, len(block.Columns))
		}
		b.Block = block
		of.Batches = append(of.Batches, b)
	}
	return of
}

// sums returns the sums of segments of one partition, in order.
func sums(t *testing.T, segments []Segment, of Stage, w *Weights) *accumulate.Sum {
	t.Helper()
	all := &accumulate.Sum{}
	for _, s := range segments {
		var summer Summer
		sum := &accumulate.Sum{}
		summer.Begin(s.Batches)
		summer.SetWeights(w)
		summer.Sum(t.Context(), sum, of)
		if err := all.Merge(sum); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// The sums of rows that have crossed a topic have the bits of those of the rows themselves, whichever partitions were merged.
func TestSumsOfSentRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	several := []string{link.Logistic, link.Softmax}
	for trial := range 40 {
		of := Stage{Link: link.Named(several[trial%2]), Counted: trial%4 == 3, Curved: true, Reaching: true}
		task := examples.OneLabel
		if of.Link.Name == link.Logistic {
			task = examples.SeveralLabels
		}
		w := &Weights{Initial: kernel.NewDense(inputs+1, classes), Columns: []int32{2, 7, inputs}, Rows: kernel.NewDense(3, classes)}
		for i := range w.Initial.Data {
			w.Initial.Data[i] = r.Float32() - 0.5
		}
		for i := range w.Rows.Data {
			w.Rows.Data[i] = r.Float32() - 0.5
		}
		sent, kept := &accumulate.Sum{}, map[int][]Segment{}
		for partition := range 3 {
			of := &accumulate.Sum{}
			for number := range r.IntN(3) {
				s := segment(r, 2*partition, number, task)
				one := &accumulate.Sum{}
				Write(one, s, true)
				if err := of.Merge(one); err != nil {
					t.Fatal(err)
				}
				kept[s.Partition] = append(kept[s.Partition], silenced(s))
			}
			if err := sent.Merge(of); err != nil {
				t.Fatal(err)
			}
		}
		segments, err := readRows(sent.Tensors(), solve.Shape{Columns: inputs + 1, Penalised: inputs, Classes: classes}, task)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(segments, func(a, b Segment) int { return 10*(a.Partition-b.Partition) + a.Number - b.Number }) {
			t.Fatalf("trial %d: segments are not in order: %v", trial, segments)
		}
		for partition := range 6 {
			var come []Segment
			for _, s := range segments {
				if s.Partition == partition {
					come = append(come, s)
				}
			}
			got, want := sums(t, come, of, w), sums(t, kept[partition], of, w)
			if !reflect.DeepEqual(got.Tensors(), want.Tensors()) {
				t.Errorf("trial %d, partition %d: got %v, want %v", trial, partition, got.Tensors(), want.Tensors())
			}
		}
	}
}

// Nothing of a row without a label or without a weight is sent.
func TestSilentRowsAreNotSent(t *testing.T) {
	s := Segment{Batches: []Batch{{Before: kernel.NewDense(2, classes), Fitted: []float32{0, 0}, Rows: accumulate.Rows{
		Weights: []float32{0, 1}, Splits: make([]examples.Split, 2), Truth: link.Truth{Classes: []int32{1, examples.Unlabelled}}}}}}
	s.Batches[0].Block = kernel.Sparse{Rows: 2, Cols: inputs, Starts: []int{0, 2, 3}, Columns: []int32{3, 5, 6}, Values: []float32{1, 2, 3}}
	for i := range s.Batches[0].Before.Data {
		s.Batches[0].Before.Data[i] = 9
	}
	sum := &accumulate.Sum{}
	Write(sum, s, true)
	for _, name := range []string{statistics.FieldRowValues, statistics.FieldRowScores} {
		if f, _ := sum.Tensors().Find(name); slices.ContainsFunc(f.Data, func(v float64) bool { return v != 0 }) {
			t.Errorf("%s has %v", name, f.Data)
		}
	}
}

// Damaged fields are errors, not other rows.
func TestDamagedRows(t *testing.T) {
	shape := solve.Shape{Columns: inputs + 1, Penalised: inputs, Classes: classes}
	good := func() wire.Tensors[float64] {
		return wire.Tensors[float64]{wire.Matrix(statistics.FieldRowBatches, 1, 3, []float64{0, 0, 1}),
			wire.Matrix(statistics.FieldRowFacts, 1, facts, []float64{2, 1, 1, 1, 0}),
			wire.Matrix(statistics.FieldRowValues, 2, 2, []float64{3, 1, 4, 1})}
	}
	if _, err := readRows(good(), shape, examples.OneLabel); err != nil {
		t.Fatal(err)
	}
	for _, damage := range []struct{ field, at int }{{0, 2}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 0}, {2, 2}} {
		for _, v := range []float64{-2, 3.5, 1e12} {
			fields := good()
			if damage.field == 1 && (damage.at == 2 || damage.at == 3) && v > 0 {
				continue // any weight from 0 on
			}
			fields[damage.field].Data[damage.at] = v
			if _, err := readRows(fields, shape, examples.OneLabel); !errors.Is(err, wire.ErrDamaged) {
				t.Errorf("%v in field %d at %d: %v", v, damage.field, damage.at, err)
			}
		}
	}
	for field := range 3 {
		fields := good()
		fields[field] = wire.Matrix(fields[field].Name, 1, 7, make([]float64, 7))
		if _, err := readRows(fields, shape, examples.OneLabel); err == nil {
			t.Errorf("field %d of another shape is read", field)
		}
	}
}
