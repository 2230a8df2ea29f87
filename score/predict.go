package score

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

// predict makes the predictions of one message after the other, until ctx ends.
func (s *scorer) predict(ctx context.Context) error {
	var (
		predictor *model.Predictor
		features  kernel.Dense
	)
	for {
		select {
		case <-ctx.Done():
			return nil
		case j := <-s.work:
			if predictor == nil || predictor.Model() != j.by {
				predictor = j.by.Predictor(s.blas)
			}
			s.answer(j, predictor, &features)
			close(j.done)
		}
	}
}

// answer makes the predictions of a message.
func (s *scorer) answer(j *job, predictor *model.Predictor, features *kernel.Dense) {
	m := j.by
	whole := schemas.Prediction{
		Topic: s.From, Partition: j.partition, Offset: j.message.Offset, Checksum: checksum(j.message), Version: m.Manifest.Version, Run: m.Manifest.Run, Row: j.row, Until: j.row, Rows: j.row,
		Task: m.Task(), Labels: m.Labels(),
	}
	refuse := func(reason string) {
		whole.Reason, j.bad = reason, true
		j.parts = []*schemas.Prediction{&whole}
	}
	if j.gone {
		refuse("the message was deleted before all of its rows were predicted")
		return
	}
	if s.hasForgotten(j.partition, j.message.Offset) {
		refuse("rows of the message were forgotten")
		return
	}
	examples, err := s.client.Codec.DecodeExamples(j.message.Value)
	if err == nil {
		defer examples.Release()
		err = check(m, examples)
	}
	if err != nil {
		refuse(schemas.QuarantineReason(err))
		return
	}
	probabilities := probabilitiesOf(predictor, examples, features)
	j.rows, whole.Rows = int64(examples.Rows-j.row), examples.Rows
	most, k := schemas.MaxPredictionRows(whole.Labels), len(whole.Labels)
	if whole.Task == schemas.SeveralLabels {
		most = schemas.MaxSeveralRows(whole.Labels)
	}
	for from := j.row; from < examples.Rows || len(j.parts) == 0; from += most {
		part := whole
		part.Row, part.Until = from, min(from+most, examples.Rows)
		part.Probabilities = append([]float32(nil), probabilities.Data[part.Row*k:part.Until*k]...)
		for i := part.Row; i < part.Until; i++ {
			row := probabilities.Row(i)
			if whole.Task != schemas.Numbers {
				part.Classes = append(part.Classes, largest(row))
			}
			if whole.Task == schemas.SeveralLabels {
				for _, v := range row {
					part.Given = append(part.Given, float64(v) >= m.Threshold())
				}
			}
		}
		j.parts = append(j.parts, &part)
	}
}

// probabilitiesOf predicts the rows of examples. It reshapes features, which is memory for those of dense rows.
func probabilitiesOf(predictor *model.Predictor, examples *schemas.Examples, features *kernel.Dense) kernel.Dense {
	if examples.Sparse {
		var rows schemas.SparseRows
		examples.SparseFeatures(&rows)
		return predictor.ProbabilitiesSparse(&rows)
	}
	features.Reshape(examples.Rows, examples.Width)
	if bytes := examples.Bytes(); bytes != nil {
		kernel.FromBytes(features.Data, bytes)
	} else {
		examples.Features(features.Data, examples.Width)
	}
	return predictor.Probabilities(*features)
}

// check returns why a model can't predict for examples, or nil.
func check(m *model.Model, examples *schemas.Examples) error {
	switch {
	case examples.Sparse && !m.Sparse():
		return fmt.Errorf("%w: sparse features, the model has dense ones", schemas.ErrDamaged)
	case !examples.Sparse && examples.Rows > 0 && examples.Width != m.Width():
		return fmt.Errorf("%w: %d features, the model has %d", schemas.ErrDamaged, examples.Width, m.Width())
	case m.Manifest.Plan.Missing != ingest.MissingMean && examples.Missing():
		return fmt.Errorf("%w: a feature is missing (examples.missing: error)", schemas.ErrDamaged)
	}
	text := examples.Columns()
	if text == "" || m.Columns() == nil || text == m.Columns().Text() {
		return nil
	}
	columns, err := schemas.ParseColumns(text)
	if err != nil {
		return err
	}
	if difference := columns.Difference(m.Columns()); difference != "" {
		return fmt.Errorf("%w: %s, as the model has them", schemas.ErrDamaged, difference)
	}
	return nil
}

// largest returns the place of the largest value, the first of equal ones.
func largest(values []float32) int32 {
	best := 0
	for i, v := range values {
		if v > values[best] {
			best = i
		}
	}
	return int32(best)
}
