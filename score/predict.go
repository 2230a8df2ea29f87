package score

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/prediction"
	"github.com/stagewise/stagewise/schemas/wire"
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
			j.done.Done()
		}
	}
}

// answer makes the predictions of a message.
func (s *scorer) answer(j *job, predictor *model.Predictor, features *kernel.Dense) {
	m := j.by
	whole := prediction.Message{
		Topic: s.From, Partition: j.partition, Offset: j.message.Offset, Checksum: checksum(j.message), Version: m.Manifest.Version,
		Run: m.Manifest.Run, Row: j.row, Until: j.row, Rows: j.row, Trace: j.message.Trace(),
		Task: m.Task(), Labels: m.Labels(),
	}
	refuse := func(reason string) {
		whole.Reason, j.bad = reason, true
		j.parts = []*prediction.Message{&whole}
	}
	if j.gone {
		refuse("the message was deleted before all of its rows were predicted")
		return
	}
	if s.hasForgotten(j.partition, j.message.Offset) {
		refuse("rows of the message were forgotten")
		return
	}
	batch, err := s.client.Codec.DecodeExamples(j.message.Value)
	if err == nil {
		defer batch.Release()
		if err = check(m, batch); err == nil {
			err = batch.Align(m.Columns())
		}
	}
	if err != nil {
		refuse(schemas.QuarantineReason(err))
		return
	}
	var probabilities kernel.Dense
	var numbers []float64
	if whole.Task == examples.Numbers {
		numbers = numbersOf(predictor, batch, features)
	} else {
		probabilities = probabilitiesOf(predictor, batch, features)
	}
	j.rows, whole.Rows = int64(batch.Rows-j.row), batch.Rows
	most, k := prediction.MaxRows(whole.Task, whole.Labels), len(whole.Labels)
	for from := j.row; from < batch.Rows || len(j.parts) == 0; from += most {
		part := whole
		part.Row, part.Until = from, min(from+most, batch.Rows)
		j.parts = append(j.parts, &part)
		if whole.Task == examples.Numbers {
			part.Numbers = append([]float64(nil), numbers[part.Row*k:part.Until*k]...)
			continue
		}
		part.Probabilities = append([]float32(nil), probabilities.Data[part.Row*k:part.Until*k]...)
		for i := part.Row; i < part.Until; i++ {
			row := probabilities.Row(i)
			if whole.Task == examples.SeveralLabels {
				part.Classes = append(part.Classes, link.Largest(row))
			} else {
				part.Classes = append(part.Classes, m.Decide(row))
			}
			if whole.Task == examples.SeveralLabels {
				for _, v := range row {
					part.Given = append(part.Given, float64(v) >= m.Threshold())
				}
			}
		}
	}
}

// probabilitiesOf predicts the rows of examples. It reshapes features, which is memory for those of dense rows.
func probabilitiesOf(predictor *model.Predictor, examples *examples.Batch, features *kernel.Dense) kernel.Dense {
	if examples.Sparse {
		return predictor.ProbabilitiesSparse(sparseOf(examples))
	}
	features.Reshape(examples.Rows, examples.Width)
	examples.Features(features.Data, examples.Width)
	return predictor.Probabilities(*features)
}

// numbersOf is probabilitiesOf for a model of numbers.
func numbersOf(predictor *model.Predictor, examples *examples.Batch, features *kernel.Dense) []float64 {
	if examples.Sparse {
		return predictor.NumbersSparse(sparseOf(examples))
	}
	features.Reshape(examples.Rows, examples.Width)
	examples.Features(features.Data, examples.Width)
	return predictor.Numbers(*features)
}

// sparseOf returns the features of sparse examples.
func sparseOf(batch *examples.Batch) *examples.SparseRows {
	var rows examples.SparseRows
	batch.SparseFeatures(&rows)
	return &rows
}

// check returns why a model can't predict for examples, or nil.
func check(m *model.Model, batch *examples.Batch) error {
	switch {
	case batch.Sparse && !m.Sparse():
		return fmt.Errorf("%w: sparse features, the model has dense ones", wire.ErrDamaged)
	case !batch.Sparse && batch.Rows > 0 && batch.Width != m.Width():
		return fmt.Errorf("%w: %d features, the model has %d", wire.ErrDamaged, batch.Width, m.Width())
	case m.Manifest.Plan.Missing != layout.MissingMean && batch.Missing():
		return fmt.Errorf("%w: a feature is missing (examples.missing: error)", wire.ErrDamaged)
	}
	text := batch.Columns()
	if text == "" || m.Columns() == nil || text == m.Columns().Text() {
		return nil
	}
	columns, err := examples.ParseColumns(text)
	if err != nil {
		return err
	}
	if difference := columns.Difference(m.Columns()); difference != "" {
		return fmt.Errorf("%w: %s, as the model has them", wire.ErrDamaged, difference)
	}
	return nil
}
