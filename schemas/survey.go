package schemas

import (
	"fmt"
	"strconv"
	"strings"
)

// KindPrepare is the kind of a [SurveyResult].
const KindPrepare Kind = "prepare"

// SurveyResult is what the survey of a run came to: the first record of its chain
// on the weights topic. Stage is [Survey], Parent the plan's digest.
type SurveyResult struct {
	Identity
	Rows        [Splits]int64 // labelled rows of each split
	Quarantined int64         // messages that can't be used
	// Preparation is centre, scale, basis, spread and labels, as a model needs them.
	Preparation Tensors[float32]
	Covered     []Coverage // of each span of the plan, in its order
}

// Record encodes the result.
func (s *SurveyResult) Record() *Record[float32] {
	covered := make([]string, len(s.Covered))
	for i, c := range s.Covered {
		covered[i] = c.text()
	}
	rows := strings.Trim(fmt.Sprint(s.Rows), "[]")
	return &Record[float32]{
		Identity: s.Identity, Notes: []Header{{noteRows, rows}, {noteQuarantined, strconv.FormatInt(s.Quarantined, 10)}},
		Tensors: append(s.Preparation[:len(s.Preparation):len(s.Preparation)], Words[float32](TensorCovered, covered)),
	}
}

// SurveyResultOf decodes a survey's result. Errors are a *[ShapeError] or wrap
// ErrDamaged.
func SurveyResultOf(r *Record[float32]) (*SurveyResult, error) {
	s := &SurveyResult{Identity: r.Identity}
	if _, err := fmt.Sscan(r.Note(noteRows), &s.Rows[Train], &s.Rows[Holdout], &s.Rows[Test]); err != nil {
		return nil, r.damaged(err)
	}
	var err error
	if s.Quarantined, err = strconv.ParseInt(r.Note(noteQuarantined), 10, 64); err != nil {
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
		if t.Name != TensorCovered {
			s.Preparation = append(s.Preparation, t)
		}
	}
	return s, nil
}

func surveyResultLayout() Layout {
	return Layout{
		Kind: KindPrepare, Topic: "weights", Writer: "solver", Reader: "worker, subscribers",
		Tensors: []Part{
			{TensorCenter, "[d]: the mean of each scaled feature"}, {TensorScale, "[d]: a centred feature is multiplied by it; 0 for a constant one"},
			{TensorBasis, "[d, m]: principal directions, or none"}, {TensorSpread, "[1]: the median squared distance between inputs"},
			{TensorLabels, "text: the classes"}, {TensorCovered, "text: what the survey covered of each span of the plan"},
		},
		Notes: []Part{{noteRows, "labelled rows of train, holdout and test"}, {noteQuarantined, "messages in quarantine"}},
	}
}
