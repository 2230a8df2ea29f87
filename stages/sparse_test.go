package stages

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Components that require dense rows reject sparse ones, and vice versa.
func TestSparseRowsAreRefused(t *testing.T) {
	prepared := arrowtest.Must(prepare.New(schemas.Prepare{Scale: prepare.ScaleNone}, wire.Tensors[float32]{
		wire.Vector(statistics.TensorFactors, []float32{1, 1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
	}))(t)
	for _, f := range []schemas.Features{DefaultsOf(RFF), DefaultsOf(SORF), DefaultsOf(Logits), DefaultsOf(Polynomial),
		{Kind: Columns, Size: 1}} {
		if _, err := NewMap(f, 1, 0, prepared, 0, true); !errors.As(err, new(*prepare.DenseError)) {
			t.Errorf("%+v: %v, expected a DenseError", f, err)
		}
	}
	if _, err := NewMap(DefaultsOf(Columns), 1, 0, prepared, 2, true); !errors.As(err, new(*prepare.DenseError)) {
		t.Errorf("scores: %v, expected a DenseError", err)
	}
}
