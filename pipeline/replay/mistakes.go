package replay

import (
	"context"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Mistake is a test row whose label a version does not predict.
type Mistake struct {
	Features         []float32 // d, as they are in the message; a missing one is NaN
	Label, Predicted string
}

// Mistakes returns the test rows of a version's run whose label it does not predict, in the order of the topic, and at
// most so many. Rows that were forgotten, or have several labels or numbers, are none. The error may be a
// *[protocol.NoVersionError], or a *[kafkalog.DeletedError] if retention has deleted examples of the run.
func Mistakes(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, m *model.Model, most int) ([]Mistake, error) {
	plan := m.Manifest.Plan
	if plan.Task() != examples.OneLabel || m.Sparse() {
		return nil, nil
	}
	s := &mistakes{model: m, labels: examples.NewLabels(m.Labels()), predictor: m.Predictor(blas), most: most}
	err := eachMessage(ctx, p, plan, func(partition int, offset int64, batch *examples.Batch) bool {
		s.add(batch, partition, offset)
		return len(s.found) < most
	})
	return s.found, err
}

// mistakes are those that were found so far.
type mistakes struct {
	model     *model.Model
	labels    *examples.Labels // of the model
	predictor *model.Predictor
	most      int
	found     []Mistake
	raw, row  kernel.Dense
}

// add predicts the test rows of a message.
func (s *mistakes) add(batch *examples.Batch, partition int, offset int64) {
	if batch.Sparse || batch.Width != s.model.Width() {
		return // the run has put the message into quarantine
	}
	forgotten, read := forgottenIn(s.model.Manifest.Plan, partition, offset, batch.Rows), false
	for i := range batch.Rows {
		if batch.Split(i) != examples.Test || !batch.Labelled(i) || forgotten[i] || len(s.found) == s.most {
			continue
		}
		if !read {
			if !readRows(&s.raw, batch, s.model) {
				return
			}
			read = true
		}
		s.row.Reshape(1, batch.Width)
		copy(s.row.Data, s.raw.Row(i))
		label := s.labels.Spelt(batch.Label(i))
		if predicted, _ := s.predictor.Predict(s.row.Data); predicted != label {
			s.found = append(s.found, Mistake{append([]float32(nil), s.raw.Row(i)...), label, predicted})
		}
	}
}
