package statistics

import (
	"testing"

	"github.com/stagewise/stagewise/schemas/wire"
)

// A record whose rows are text, or whose draws are numbers, is damaged.
func TestDamagedSample(t *testing.T) {
	rows, draws := wire.Matrix(FieldSample, 2, 1, []float32{1, 2}), wire.Words[float32](FieldDraws, []string{"1", "2"})
	of := func(tensors ...wire.Tensor[float32]) error {
		_, err := SampleOf(&wire.Record[float32]{Tensors: tensors})
		return err
	}
	if err := of(rows, draws); err != nil {
		t.Error(err)
	}
	text, numbers := rows, draws
	text.Data, text.Text = nil, []string{"a", "b"}
	numbers.Data, numbers.Text = []float32{1, 2}, nil
	for name, err := range map[string]error{
		"rows of text": of(text, draws), "draws that are numbers": of(rows, numbers), "no draws": of(rows), "no rows": of(draws),
		"a draw without digits": of(rows, wire.Words[float32](FieldDraws, []string{"1", "x"})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
