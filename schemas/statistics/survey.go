package statistics

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindPrepare is the kind of a [SurveyResult] record.
const KindPrepare wire.Kind = "prepare"

// SurveyResult is the result of a run's survey, the first of the run's records on the weights topic. Its Stage is
// [wire.Survey] and its Parent is the digest of the plan.
type SurveyResult struct {
	wire.Identity
	Rows        [examples.Splits]int64 // labelled rows of each split
	Quarantined int64                  // quarantined messages
	PassedOver  coverage.PassedOver
	// Preparation holds center, scale, basis, spread and labels, which are part of a model.
	Preparation wire.Tensors[float32]
	Covered     []coverage.Coverage  // by span of the plan, in order
	Columns     examples.Columns     // table columns of the features; nil: unknown
	Skipped     coverage.Spans       // chain: messages in the spans that are not included
	Increments  []coverage.Increment // full run of a chain: the increments with their accepted messages
	SendsRows   bool                 // update: in the first visit to each stage, workers send the rows and the solver sums them
}

// Names of the content of a survey's result; those that a survey's visit has too are there.
const (
	noteSkipped      = "skipped"
	noteSends        = "sends"
	tensorIncrements = "increments" // text
)

// Record makes the record of the result.
func (s *SurveyResult) Record() *wire.Record[float32] {
	covered := make([]string, len(s.Covered))
	for i, c := range s.Covered {
		covered[i] = c.Text()
	}
	rows := strings.Trim(fmt.Sprint(s.Rows), "[]")
	r := &wire.Record[float32]{
		Identity: s.Identity, Notes: []wire.Header{{Key: noteRows, Value: rows}, {Key: noteQuarantined,
			Value: strconv.FormatInt(s.Quarantined, 10)}, s.PassedOver.Note()},
		Tensors: append(s.Preparation[:len(s.Preparation):len(s.Preparation)], wire.Words[float32](TensorCovered, covered)),
	}
	if s.Columns != nil {
		r.Tensors = append(r.Tensors, wire.Words[float32](tensorColumns, []string{s.Columns.Text()}))
	}
	if s.Increments != nil {
		r.Tensors = append(r.Tensors, wire.Words[float32](tensorIncrements, []string{string(wire.JSON(s.Increments))}))
	}
	if s.Skipped != nil {
		r.Notes = append(r.Notes, wire.Header{Key: noteSkipped, Value: string(wire.JSON(s.Skipped))})
	}
	if s.SendsRows {
		r.Notes = append(r.Notes, wire.Header{Key: noteSends, Value: string(KindRows)})
	}
	return r
}

// columnsOf reads the columns from a survey.
func columnsOf(text []string) (examples.Columns, error) {
	if len(text) != 1 {
		return nil, fmt.Errorf("%d texts of columns, expected one", len(text))
	}
	return examples.ParseColumns(text[0])
}

// SurveyResultOf is the inverse of [SurveyResult.Record]. An error is a *[wire.ShapeError] or wraps [wire.ErrDamaged].
func SurveyResultOf(r *wire.Record[float32]) (*SurveyResult, error) {
	s := &SurveyResult{Identity: r.Identity}
	if _, err := fmt.Sscan(r.Note(noteRows), &s.Rows[examples.Train], &s.Rows[examples.Holdout], &s.Rows[examples.Test]); err != nil {
		return nil, r.Damaged(err)
	}
	var err error
	if s.Quarantined, err = r.Number(noteQuarantined); err != nil {
		return nil, err
	}
	if s.PassedOver, err = coverage.ParsePassedOver(r.Note(coverage.NotePassedOver)); err != nil {
		return nil, r.Damaged(err)
	}
	if s.Skipped, err = parseSkipped(r.Note(noteSkipped)); err != nil {
		return nil, r.Damaged(err)
	}
	switch sends := r.Note(noteSends); sends {
	case "", string(KindRows):
		s.SendsRows = sends != ""
	default:
		return nil, r.Damaged(fmt.Errorf("workers send %q", sends))
	}
	covered, ok := r.Tensors.Find(TensorCovered)
	if !ok {
		return nil, &wire.ShapeError{Tensor: TensorCovered, Want: []int{-1}}
	}
	for _, text := range covered.Text {
		c, err := coverage.Parse(text)
		if err != nil {
			return nil, r.Damaged(err)
		}
		s.Covered = append(s.Covered, c)
	}
	for _, t := range r.Tensors {
		switch t.Name {
		case TensorCovered:
		case tensorIncrements:
			if len(t.Text) != 1 {
				return nil, &wire.ShapeError{Tensor: tensorIncrements, Got: t.Shape, Want: []int{1}}
			}
			if err := json.Unmarshal([]byte(t.Text[0]), &s.Increments); err != nil {
				return nil, r.Damaged(err)
			}
		case tensorColumns:
			if s.Columns, err = columnsOf(t.Text); err != nil {
				return nil, r.Damaged(err)
			}
		default:
			s.Preparation = append(s.Preparation, t)
		}
	}
	return s, nil
}

// parseSkipped reads the spans of messages that are not included.
func parseSkipped(text string) (skipped coverage.Spans, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &skipped); err != nil {
		return nil, fmt.Errorf("skipped %s: %w", stream.Quote(text), err)
	}
	return skipped, coverage.Check(skipped)
}
