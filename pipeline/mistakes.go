package pipeline

import (
	"context"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

// Mistake is a test row whose label a version does not predict.
type Mistake struct {
	Features         []float32 // d, as they are in the message; a missing one is NaN
	Label, Predicted string
}

// Mistakes returns the test rows of a version's run whose label it does not predict, in the order of the topic, and at most so many. Rows that were
// forgotten, or have several labels or numbers, are none. The error may be a *[run.NoVersionError], or a *[kafkalog.DeletedError] if retention has
// deleted examples of the run.
func Mistakes(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, m *model.Model, most int) ([]Mistake, error) {
	plan := m.Manifest.Plan
	if plan.Task() != schemas.OneLabel || m.Sparse() {
		return nil, nil
	}
	topic := plan.Topic
	p := open(log, plan.Name, nil)
	if topic == "" {
		topic = p.Topics.Examples
	}
	s := &mistakes{model: m, predictor: m.Predictor(blas), most: most}
	counting := ingest.NewCounting(plan)
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
			s.add(examples, span.Partition, message.Offset)
			examples.Release()
		}
		r.Close()
	}
	return s.found, nil
}

// mistakes are those that were found so far.
type mistakes struct {
	model     *model.Model
	predictor *model.Predictor
	most      int
	found     []Mistake
	raw, row  kernel.Dense
}

// add predicts the test rows of a message.
func (s *mistakes) add(examples *schemas.Examples, partition int, offset int64) {
	if examples.Sparse || examples.Width != s.model.Width() {
		return // the run has put the message into quarantine
	}
	forgotten := make([]bool, examples.Rows)
	s.model.Manifest.Plan.Forgotten.In(partition, offset, examples.Rows, func(first, end int) {
		for i := first; i < end; i++ {
			forgotten[i] = true
		}
	})
	read := false
	for i := range examples.Rows {
		if examples.Split(i) != schemas.Test || !examples.Labelled(i) || forgotten[i] || len(s.found) == s.most {
			continue
		}
		if !read {
			s.raw.Reshape(examples.Rows, examples.Width)
			if bytes := examples.Bytes(); bytes != nil {
				kernel.FromBytes(s.raw.Data, bytes)
			} else {
				examples.Features(s.raw.Data, examples.Width)
			}
			read = true
		}
		s.row.Reshape(1, examples.Width)
		copy(s.row.Data, s.raw.Row(i))
		if predicted, _ := s.predictor.Predict(s.row.Data); predicted != examples.Label(i) {
			s.found = append(s.found, Mistake{append([]float32(nil), s.raw.Row(i)...), examples.Label(i), predicted})
		}
	}
}
