package pipeline

import (
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// A link is fitted to the powers of predictions that its basis lists, in a run of several workers' sums as in the model that predicts.
func TestBasisOfCalibration(t *testing.T) {
	log, digests := openEmbedded(t), map[string]bool{}
	for name, basis := range map[string][]int{"absent": nil, "cubic": {1, 2, 3}, "linear": {1}, "odd": {1, 3}} {
		stages := []schemas.Stage{rffStage(link.Calibrated, 20, 3), rffStage(link.Softmax, 8, 2)}
		stages[0].Basis = basis
		report, m := train(t, log, newJob(t, rings(200, 3, 3, 1), rings(50, 3, 3, 2), stages...))
		digests[string(report.WeightsDigest)] = true
		calibration, ok := m.Tensors().Find(schemas.FileTensor(0, 0, statistics.TensorCalibration))
		if want := 3 * link.Basis(basis).Len(); !ok || calibration.Shape[0] != want {
			t.Errorf("%s: a calibration of shape %v, expected %d rows", name, calibration.Shape, want)
		}
	}
	if len(digests) != 3 {
		t.Errorf("%d different versions, expected one for each basis, as an absent one is cubic", len(digests))
	}
}
