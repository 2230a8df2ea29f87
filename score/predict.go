package score

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// predict makes the predictions of one message after the other, until ctx ends.
func (s *scorer) predict(ctx context.Context) error {
	var predictor *model.Predictor
	var features []float32
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
func (s *scorer) answer(j *job, predictor *model.Predictor, features *[]float32) {
	m := j.by
	whole := schemas.Prediction{
		Topic: s.From, Partition: j.partition, Offset: j.message.Offset, Checksum: checksum(j.message), Version: m.Manifest.Version,
		Run: m.Manifest.Run, Row: j.row, Until: j.row, Rows: j.row, Trace: j.message.Trace(),
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
	rows := rowsOf(batch, features)
	contributions, longest := s.contributions(predictor, rows)
	probabilities, numbers := predictor.PredictRows(rows)
	j.rows, whole.Rows = int64(batch.Rows-j.row), batch.Rows
	most, k := schemas.MaxPredictionRows(whole.Task, whole.Labels, longest), len(whole.Labels)
	for from := j.row; from < batch.Rows || len(j.parts) == 0; from += most {
		part := whole
		part.Row, part.Until = from, min(from+most, batch.Rows)
		j.parts = append(j.parts, &part)
		if contributions != nil {
			part.Contributions = contributions[part.Row:part.Until]
		}
		if whole.Task == examples.Numbers {
			part.Numbers = slices.Clone(numbers[part.Row*k : part.Until*k])
			continue
		}
		part.Probabilities = slices.Clone(probabilities[part.Row*k : part.Until*k])
		for row := range slices.Chunk(part.Probabilities, k) {
			if whole.Task != examples.SeveralLabels {
				part.Classes = append(part.Classes, m.Decide(row))
				continue
			}
			part.Classes = append(part.Classes, link.Largest(row))
			for _, v := range row {
				part.Given = append(part.Given, float64(v) >= m.Threshold())
			}
		}
	}
}

// contributions returns the contributions to the predictions of rows, as JSON, and the number of bytes of the longest ones; nil: there are
// none.
func (s *scorer) contributions(predictor *model.Predictor, rows *examples.Rows) (all []string, longest int) {
	if s.Contributions == 0 {
		return nil, 0
	}
	err := predictor.Contributions(rows, s.Contributions, func(_ int, scores []model.Contributions) {
		text := string(wire.JSON(scores))
		all, longest = append(all, text), max(longest, len(text))
	})
	version := int64(predictor.Model().Manifest.Version)
	if err != nil && s.unexplained.Swap(version) != version {
		event.Notice(s.rec, "the predictions of version %d are written without contributions: %v", version, err)
	}
	return all, longest
}

// rowsOf returns the rows of examples. Those of dense rows are in the memory of features.
func rowsOf(batch *examples.Batch, features *[]float32) *examples.Rows {
	rows := &examples.Rows{Rows: batch.Rows}
	if batch.Sparse {
		rows.Sparse = &examples.SparseRows{}
		batch.SparseFeatures(rows.Sparse)
		return rows
	}
	*features = slices.Grow((*features)[:0], batch.Rows*batch.Width)[:batch.Rows*batch.Width]
	batch.Features(*features, batch.Width)
	rows.Cols, rows.Floats = batch.Width, *features
	return rows
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
