package pipeline

import (
	"math"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// If no feature differs between rows, a model predicts the shares of the classes, with any ridge. A chain that begins
// with such rows learns from later ones that differ.
func TestConstantFeatures(t *testing.T) {
	long(t)
	for name, ridge := range map[string]schemas.Ridge{"default": kindStage(stages.Columns, link.Softmax).Ridge, "large": 1e6,
		"auto": schemas.RidgeAuto} {
		for _, l := range []schemas.Link{link.Softmax, link.Identity, link.Calibrated} {
			t.Run(name+" "+string(l), func(t *testing.T) {
				job, _ := newForeignJob(t, rings(1, 4, 3, 1))
				stage := kindStage(stages.Columns, l)
				stage.Ridge, stage.Passes = ridge, 20
				job.Stages, job.Prepare.Scale = []schemas.Stage{stage, stage}, prepare.ScaleStandard
				constant := rings(200, 4, 3, 1)
				for _, row := range constant.rows {
					copy(row, []float32{60, 0, -1, 1e6})
				}
				log := openEmbedded(t)
				produce(t, log, job, 0, exampleMessage(t, constant.exampleRows()))
				_, m := train(t, log, job)
				for c, label := range m.Labels() {
					share := 0.0
					for _, other := range constant.labels {
						if other == label {
							share += 1. / 200
						}
					}
					if p := probabilities(t, m, constant).Row(0)[c]; math.Abs(float64(p)-share) > 0.01 {
						t.Errorf("the probability of %s is %v, its share %v", label, p, share)
					}
				}
				job.Retrain = topics.DefaultRetrain()
				job.Retrain.Rows = 200
				for i := range 3 {
					produce(t, log, job, 0, exampleMessage(t, rings(200, 4, 3, uint64(2+i)).exampleRows()))
				}
				report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
				if err != nil || report.Updates[len(report.Updates)-1].WindowRows != 800 {
					t.Errorf("report %+v, error %v", report, err)
				}
			})
		}
	}
}
