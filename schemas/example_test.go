package schemas_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas"
)

// A producer encodes rows as an examples message, and a worker decodes it.
func ExampleDecodeExamples() {
	mem := memory.NewGoAllocator()
	rows := schemas.ExampleRows{
		Rows: 2, Cols: 3,
		Floats: []float32{0.5, float32(math.NaN()), 3, 1, 2, 4},
		Words:  []string{"seven", "two"},
		Splits: []schemas.Split{schemas.Train, schemas.Test},
	}
	record := rows.Record(mem)
	defer record.Release()
	value, err := schemas.EncodeExamples(record, mem)
	if err != nil {
		fmt.Println(err)
		return
	}

	examples, err := schemas.DecodeExamples(value, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer examples.Release()
	features := make([]float32, examples.Rows*examples.Width)
	examples.Features(features, examples.Width)
	for row := range examples.Rows {
		fmt.Println(features[row*examples.Width:][:examples.Width], examples.Label(row), examples.Weight(row), examples.Split(row))
	}
	// Output:
	// [0.5 NaN 3] seven 1 train
	// [1 2 4] two 1 test
}

// A message with a bad value names the row and the feature.
func ExampleDecodeExamples_badValue() {
	mem := memory.NewGoAllocator()
	rows := schemas.ExampleRows{Rows: 1, Cols: 2, Floats: []float32{1, float32(math.Inf(1))}}
	record := rows.Record(mem)
	defer record.Release()
	value, err := schemas.EncodeExamples(record, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = schemas.DecodeExamples(value, mem)
	fmt.Println(err)
	fmt.Println("damaged:", errors.Is(err, schemas.ErrDamaged))
	// Output:
	// row 0, feature 1: +Inf is not a finite number
	// damaged: true
}

// A large record takes several messages. They may arrive in any order.
func ExampleCollector() {
	mem := memory.NewGoAllocator()
	weights := &schemas.Weights{
		Identity: schemas.Identity{Kind: schemas.KindWeights, Run: "2297280bb4a3", Stage: 0, Visit: 1},
		Tensors:  schemas.Tensors[float32]{schemas.Matrix(schemas.TensorW, 30_000, 10, make([]float32, 300_000))},
	}
	messages, err := weights.Record().Encode(mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	var collector schemas.Collector[float32]
	for i := len(messages) - 1; i >= 0; i-- {
		record, err := collector.Add(messages[i], mem)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(messages[i].Key, "completes the record:", record != nil)
		if record != nil {
			fmt.Println(record.Identity, record.Tensors[0].Name, record.Tensors[0].Shape)
		}
	}
	// Output:
	// 2297280bb4a3/weights/0/1/0/1 completes the record: false
	// 2297280bb4a3/weights/0/1/0/0 completes the record: true
	// weights of run 2297280bb4a3, stage 0, visit 1, partition 0 W [30000 10]
}

// Adjacent spans become one. Spans that overlap are an error, as their sums would count examples twice.
func ExampleSpans_Union() {
	a := schemas.Spans{{Partition: 0, From: 0, To: 16}, {Partition: 1, From: 0, To: 4}}
	union, err := a.Union(schemas.Spans{{Partition: 0, From: 16, To: 20}})
	fmt.Println(union, err)
	_, err = a.Union(schemas.Spans{{Partition: 1, From: 3, To: 5}})
	fmt.Println(err)
	// Output:
	// [[0]@0–20 [1]@0–4] <nil>
	// spans [1]@0–4 and [1]@3–5 overlap
}

// Segments end at multiples of their length, wherever the span begins.
func ExampleSpan_Segments() {
	span := schemas.Span{Partition: 2, From: 10, To: 40}
	fmt.Println(span.Segments(16))
	// Output:
	// [[2]@10–16 [2]@16–32 [2]@32–40]
}

// A plan is published as JSON. Its digest is the id of the run, so the same plan is the same run.
func ExampleDecodeJSON() {
	plan := &schemas.Plan{
		Name:    "digits",
		Spans:   schemas.Spans{{Partition: 0, From: 0, To: 20}},
		Stages:  []schemas.Stage{{Link: "softmax", Passes: 10, Ridge: 1e-6}},
		Seed:    1,
		Segment: 16,
	}
	messages, err := plan.Messages()
	if err != nil {
		fmt.Println(err)
		return
	}
	var documents schemas.Documents // a long plan has several messages
	message, complete, _ := documents.Add(messages[0])
	read, err := schemas.DecodeJSON[schemas.Plan](message)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(read.Name, read.Spans, read.Stages[0].Link, complete)
	fmt.Println("same run:", read.Run() == plan.Run())

	message.Value = []byte(`{"name":"digits","segment":0}`)
	message.Key = "plan/x"
	_, err = schemas.DecodeJSON[schemas.Plan](message)
	fmt.Println(err)
	// Output:
	// digits [[0]@0–20] softmax true
	// same run: true
	// damaged or foreign bytes: decode plan "plan/x": segment is 0, expected at least 1
}

// Every draw is a hash of numbers that name it, so a draw needs none of those before it.
func ExampleHash() {
	const seed, partition, offset = 1, 0, 12
	for row := range uint64(3) {
		hash := schemas.Hash(seed, partition, offset, row)
		fmt.Printf("row %d: %016x, %.4f\n", row, hash, float64(hash>>11)/(1<<53)) // 53 bits are a uniform number below 1
	}
	// Output:
	// row 0: 4d36d2087658fd1d, 0.3016
	// row 1: bb90cf67172ba3b1, 0.7327
	// row 2: 75f36f545ee788f0, 0.4607
}

// Labels compare as text, so a number and its text are one class.
func ExampleExamples_Classes() {
	mem := memory.NewGoAllocator()
	found := []string{"10", "9", "2"}
	schemas.SortLabels(found)
	labels := schemas.NewLabels(found)
	rows := schemas.ExampleRows{Rows: 3, Cols: 1, Bytes: []uint8{0, 0, 0}, Numbers: []int64{9, 2, 10}}
	record := rows.Record(mem)
	defer record.Release()
	value, err := schemas.EncodeExamples(record, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	examples, err := schemas.DecodeExamples(value, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer examples.Release()
	classes := make([]int32, examples.Rows)
	fmt.Println(labels.Text(), examples.Classes(classes, labels), classes)
	// Output:
	// [2 9 10] <nil> [1 0 2]
}

// A model file holds the manifest and the tensors of a finished version.
func ExampleReadModel() {
	mem := memory.NewGoAllocator()
	manifest := &schemas.Manifest{Name: "digits", Version: 3, Plan: &schemas.Plan{Segment: 16}, Labels: []string{"a", "b"}}
	tensors := schemas.Tensors[float32]{schemas.Matrix(schemas.TensorW, 2, 2, []float32{1, 0, 0, 1})}
	var file bytes.Buffer
	if _, err := schemas.WriteModel(&file, manifest, tensors, mem); err != nil {
		fmt.Println(err)
		return
	}
	read, weights, err := schemas.ReadModel(&file, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := weights.Shaped(schemas.TensorW, 2, len(read.Labels))
	fmt.Println(read.Name, read.Version, read.Labels, w, err)
	// Output:
	// digits 3 [a b] [1 0 0 1] <nil>
}
