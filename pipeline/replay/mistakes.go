package replay

import (
	"context"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/counting"
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
	topic := plan.Topic
	if topic == "" {
		topic = p.Topics.Examples
	}
	s := &mistakes{model: m, labels: examples.NewLabels(m.Labels()), predictor: m.Predictor(blas), most: most}
	counting, noLabels := counting.New(plan), layout.MissingLabels(plan)
	for _, span := range plan.Spans {
		replay := counting.Replay(span)
		r := p.Log.Range(topic, span.Partition, span.From, span.To)
		for len(s.found) < most {
			message, err := r.Next(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				r.Close()
				return nil, fmt.Errorf("read examples %s[%d]: %w", topic, span.Partition, err)
			}
			if replay.AcceptAt(message.Offset, message.Message) != "" {
				continue
			}
			examples, err := p.Codec.DecodeExamples(message.Value)
			if err != nil {
				continue // the run has put the message into quarantine
			}
			s.add(examples.MissLabels(noLabels), span.Partition, message.Offset)
			examples.Release()
		}
		r.Close()
	}
	return s.found, nil
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
	forgotten := make([]bool, batch.Rows)
	s.model.Manifest.Plan.Forgotten.In(partition, offset, batch.Rows, func(first, end int) {
		for i := first; i < end; i++ {
			forgotten[i] = true
		}
	})
	read := false
	for i := range batch.Rows {
		if batch.Split(i) != examples.Test || !batch.Labelled(i) || forgotten[i] || len(s.found) == s.most {
			continue
		}
		if !read {
			if err := batch.Align(s.predictor.Model().Columns()); err != nil {
				return
			}
			s.raw.Reshape(batch.Rows, batch.Width)
			if bytes := batch.Bytes(); bytes != nil {
				kernel.FromBytes(s.raw.Data, bytes)
			} else {
				batch.Features(s.raw.Data, batch.Width)
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
