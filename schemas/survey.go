package schemas

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// KindPrepare is the kind of a [SurveyResult] record.
const KindPrepare Kind = "prepare"

// SurveyResult is the result of a run's survey, the first record of the run's chain on the weights topic. Its Stage is
// [Survey] and its Parent is the plan's digest.
type SurveyResult struct {
	Identity
	Rows        [Splits]int64 // labelled rows of each split
	Quarantined int64         // messages in quarantine
	PassedOver  PassedOver
	// Preparation holds center, scale, basis, spread and labels, which are part of a model.
	Preparation Tensors[float32]
	Covered     []Coverage  // of each span of the plan, in the plan's order
	Columns     Columns     // of the table that the features are of; nil: not known
	Skipped     Spans       // of a chain: messages in the spans that do not count
	Increments  []Increment // of a full run of a chain: what counts of each
}

// Record makes the record of the result.
func (s *SurveyResult) Record() *Record[float32] {
	covered := make([]string, len(s.Covered))
	for i, c := range s.Covered {
		covered[i] = c.text()
	}
	rows := strings.Trim(fmt.Sprint(s.Rows), "[]")
	r := &Record[float32]{
		Identity: s.Identity, Notes: []Header{{noteRows, rows}, {noteQuarantined, strconv.FormatInt(s.Quarantined, 10)}, s.PassedOver.note()},
		Tensors: append(s.Preparation[:len(s.Preparation):len(s.Preparation)], Words[float32](TensorCovered, covered)),
	}
	if s.Columns != nil {
		r.Tensors = append(r.Tensors, Words[float32](tensorColumns, []string{s.Columns.Text()}))
	}
	if s.Increments != nil {
		r.Tensors = append(r.Tensors, Words[float32](tensorIncrements, []string{string(mustJSON(s.Increments))}))
	}
	if s.Skipped != nil {
		r.Notes = append(r.Notes, Header{noteSkipped, string(mustJSON(s.Skipped))})
	}
	return r
}

// columnsOf reads the columns that a survey found.
func columnsOf(text []string) (Columns, error) {
	if len(text) != 1 {
		return nil, fmt.Errorf("%d texts of columns, expected one", len(text))
	}
	return ParseColumns(text[0])
}

// SurveyResultOf is the inverse of [SurveyResult.Record]. An error is a *[ShapeError] or wraps [ErrDamaged].
func SurveyResultOf(r *Record[float32]) (*SurveyResult, error) {
	s := &SurveyResult{Identity: r.Identity}
	if _, err := fmt.Sscan(r.Note(noteRows), &s.Rows[Train], &s.Rows[Holdout], &s.Rows[Test]); err != nil {
		return nil, r.damaged(err)
	}
	var err error
	if s.Quarantined, err = r.number(noteQuarantined); err != nil {
		return nil, err
	}
	if s.PassedOver, err = parsePassedOver(r.Note(notePassedOver)); err != nil {
		return nil, r.damaged(err)
	}
	if s.Skipped, err = parseSkipped(r.Note(noteSkipped)); err != nil {
		return nil, r.damaged(err)
	}
	covered, ok := r.Tensors.Find(TensorCovered)
	if !ok {
		return nil, &ShapeError{Tensor: TensorCovered, Want: []int{-1}}
	}
	for _, text := range covered.Text {
		c, err := parseCoverage(text)
		if err != nil {
			return nil, r.damaged(err)
		}
		s.Covered = append(s.Covered, c)
	}
	for _, t := range r.Tensors {
		switch t.Name {
		case TensorCovered:
		case tensorIncrements:
			if len(t.Text) != 1 {
				return nil, &ShapeError{Tensor: tensorIncrements, Got: t.Shape, Want: []int{1}}
			}
			if err := json.Unmarshal([]byte(t.Text[0]), &s.Increments); err != nil {
				return nil, r.damaged(err)
			}
		case tensorColumns:
			if s.Columns, err = columnsOf(t.Text); err != nil {
				return nil, r.damaged(err)
			}
		default:
			s.Preparation = append(s.Preparation, t)
		}
	}
	return s, nil
}
