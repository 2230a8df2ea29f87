package schemas_test

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A plan is published as JSON. Its digest is the id of the run, so the same plan is the same run.
func ExampleDecodeJSON() {
	plan := &schemas.Plan{
		Name:    "digits",
		Spans:   coverage.Spans{{Partition: 0, From: 0, To: 20}},
		Stages:  []schemas.Stage{{Link: "softmax", Passes: 10, Ridge: 1e-6}},
		Seed:    1,
		Segment: 16,
	}
	messages, err := plan.Messages()
	if err != nil {
		fmt.Println(err)
		return
	}
	var documents wire.Documents // a long plan has several messages
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

// A model file holds the manifest and the tensors of a finished version.
func ExampleReadModel() {
	mem := memory.NewGoAllocator()
	manifest := &schemas.Manifest{Name: "digits", Version: 3, Plan: &schemas.Plan{Segment: 16}, Labels: []string{"a", "b"}}
	tensors := wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 2, 2, []float32{1, 0, 0, 1})}
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
	w, err := weights.Shaped(statistics.TensorW, 2, len(read.Labels))
	fmt.Println(read.Name, read.Version, read.Labels, w, err)
	// Output:
	// digits 3 [a b] [1 0 0 1] <nil>
}
