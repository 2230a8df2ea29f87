package replay

import (
	"context"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Mistake is a test row that a version classifies incorrectly.
type Mistake struct {
	Features         []float32 // d, as in the message; missing values are NaN
	Label, Predicted string
}

// Mistakes returns up to most test rows of a version's run that it classifies incorrectly, in topic order. It skips
// forgotten rows, and multi-label and regression rows. The error may be a *[protocol.NoVersionError], or a
// *[kafkalog.DeletedError] if retention has deleted examples of the run.
func Mistakes(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, m *model.Model, most int) ([]Mistake, error) {
	plan := m.Manifest.Plan
	if plan.Task() != examples.OneLabel || m.Sparse() {
		return nil, nil
	}
	s := &mistakes{model: m, labels: examples.NewLabels(m.Labels()), predictor: m.Predictor(blas), most: most}
	err := planning.EachCounted(ctx, p, plan, false, func(_ int, _ int64, batch *examples.Batch) bool {
		s.add(batch)
		return len(s.found) < most
	})
	if err != nil {
		return nil, err
	}
	return s.found, nil
}

// mistakes collects the mistakes found so far.
type mistakes struct {
	model     *model.Model
	labels    *examples.Labels // of the model
	predictor *model.Predictor
	most      int
	found     []Mistake
	raw, row  kernel.Dense
}

// add predicts the test rows of a message.
func (s *mistakes) add(batch *examples.Batch) {
	if batch.Sparse || batch.Width != s.model.Width() {
		return // quarantined by the run
	}
	read := false
	for i := range batch.Rows {
		if batch.Split(i) != examples.Test || !batch.Labelled(i) || len(s.found) == s.most {
			continue
		}
		if !read {
			if err := batch.Align(s.predictor.Model().Columns()); err != nil {
				return
			}
			s.raw.Reshape(batch.Rows, batch.Width)
			batch.Features(s.raw.Data, batch.Width)
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
