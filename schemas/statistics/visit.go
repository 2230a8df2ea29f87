package statistics

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindVisit is the kind of a [Visit] and of a [SurveyVisit] record.
const KindVisit wire.Kind = "visit"

// Visit has the sums of a share for one visit of a stage. The Gram matrix of the stage has its own record, a [Gram].
type Visit struct {
	wire.Identity
	Covered coverage.Summary      `header:"covered"` // coverage of the sums
	Sums    wire.Tensors[float64] `tensor:"*"`       // see the constants Field…
}

// Common are the properties of all rows of a run, from its first message.
type Common struct {
	Shift       []float32        `tensor:"shift"`                 // d: origin of the moments of dense columns
	TargetShift []float64        `tensor:"target_shift,omitzero"` // k: origin of the moments of the targets; nil: 0
	Columns     examples.Columns `tensor:"columns,text,omitzero"` // nil: unknown
	Image       examples.Image   `header:"image,omitzero"`        // zero: unknown
}

// SurveyVisit is the survey of a share.
type SurveyVisit struct {
	Visit
	Common
	Findings
	Sparse bool // whether the rows are sparse
}

// surveyRecord is the record of a survey's visit.
type surveyRecord struct {
	*SurveyVisit
	Labels     []string              `tensor:"labels"` // sorted
	LabelRows  []int64               `tensor:"label_rows"`
	Unknown    []examples.LabelRows  `tensor:"unknown,texts,omitempty"`
	Untrained  []examples.LabelRows  `tensor:"untrained,texts,omitempty"`
	ColumnRows []examples.ColumnRows `tensor:"column_rows,omitzero"` // nil: the rows are dense
}

// Record makes the record of the visit.
func (v *SurveyVisit) Record() *wire.Record[float64] {
	r := surveyRecord{SurveyVisit: v, Labels: v.Labels.Text(), Unknown: v.Unknown.List(), Untrained: v.Untrained.List()}
	for _, label := range r.Labels {
		r.LabelRows = append(r.LabelRows, v.Labels[label])
	}
	if v.Sparse {
		r.ColumnRows = append([]examples.ColumnRows{}, v.ColumnRows.List()...)
	}
	return wire.RecordOf[float64](&r)
}

// SurveyVisitOf is the inverse of [SurveyVisit.Record]. An error wraps [wire.ErrDamaged].
func SurveyVisitOf(r *wire.Record[float64]) (*SurveyVisit, error) {
	of := &surveyRecord{SurveyVisit: &SurveyVisit{Findings: NewFindings()}}
	if err := r.Into(of); err != nil {
		return nil, err
	}
	return of.SurveyVisit, nil
}

// Check returns an error for impossible content, and completes the visit.
func (r *surveyRecord) Check() error {
	v := r.SurveyVisit
	err := cmp.Or(checkLabelRows(r.Unknown), checkLabelRows(r.Untrained), v.Image.Check(), v.Columns.Check(), v.Findings.check())
	if err != nil {
		return err
	}
	if len(r.LabelRows) != len(r.Labels) {
		return &wire.ShapeError{Tensor: FieldLabelRows, Got: []int{len(r.LabelRows)}, Want: []int{len(r.Labels)}}
	}
	for i, label := range r.Labels {
		v.Labels.Add(label, r.LabelRows[i])
	}
	v.Unknown.AddList(r.Unknown)
	v.Untrained.AddList(r.Untrained)
	v.Sparse = r.ColumnRows != nil
	for _, n := range r.ColumnRows {
		if n.Column < 0 || n.Column >= examples.MaxColumns {
			return fmt.Errorf("%d rows of column %d", n.Rows, n.Column)
		}
		v.ColumnRows[n.Column] += n.Rows
	}
	return nil
}

// checkLabelRows returns an error unless the numbers of rows are possible, and the labels ascend.
func checkLabelRows(list []examples.LabelRows) error {
	for i, of := range list {
		if of.Rows < 0 || i > 0 && of.Label <= list[i-1].Label {
			return fmt.Errorf("%d rows of label %s, expected ascending labels", of.Rows, stream.Quote(of.Label))
		}
	}
	return nil
}

// KindPrepare is the kind of a [SurveyResult] record.
const KindPrepare wire.Kind = "prepare"

// SurveyResult is the result of a run's survey, the first of the run's records on the weights topic. Its Stage is
// [wire.Survey] and its Parent is the digest of the plan.
type SurveyResult struct {
	wire.Identity
	Rows        SplitRows           `header:"rows"`        // labelled rows of each split
	Quarantined int64               `header:"quarantined"` // quarantined messages
	PassedOver  coverage.PassedOver `header:"passed_over"`
	// Preparation holds center, scale, basis, spread and labels, which are part of a model.
	Preparation wire.Tensors[float32] `tensor:"*"`
	Covered     []coverage.Coverage   `tensor:"covered,texts"`            // by span of the plan, in order
	Columns     examples.Columns      `tensor:"columns,text,omitzero"`    // table columns of the features; nil: unknown
	Increments  []coverage.Increment  `tensor:"increments,text,omitzero"` // full run of a chain: the increments with their accepted messages
	Skipped     coverage.Spans        `header:"skipped,omitzero"`         // chain: messages in the spans that are not included
}

// SplitRows are numbers of rows of each split. In a header, spaces separate them.
type SplitRows [examples.Splits]int64

// MarshalText implements encoding.TextMarshaler.
func (s SplitRows) MarshalText() ([]byte, error) {
	return []byte(strings.Trim(fmt.Sprint([examples.Splits]int64(s)), "[]")), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *SplitRows) UnmarshalText(text []byte) error {
	_, err := fmt.Sscan(string(text), &s[examples.Train], &s[examples.Holdout], &s[examples.Test])
	return err
}

// Check returns an error for impossible columns and spans.
func (s *SurveyResult) Check() error {
	return cmp.Or(s.Columns.Check(), coverage.Check(s.Skipped))
}

// KindSeal is the kind of a [Seal] record.
const KindSeal wire.Kind = "seal"

// Seal states that all residuals of a share after a stage are published, with their position and digest in each partition.
// Parent is the digest of the stage's final weights.
type Seal struct {
	Visit          // of the examples of these rows: its sums are final losses and quality of the stage
	Attempt string `header:"attempt"` // of the valid residuals messages
	// Parts are the residuals of each partition of the share, in order.
	Parts []SealedPart `tensor:"sealed,texts"`
}

// SealedPart is the residuals of one partition.
type SealedPart struct {
	Partition int         `json:"partition"`
	From      int64       `json:"from"`   // first offset on the residuals topic
	To        int64       `json:"to"`     // offset after the last
	Rows      int64       `json:"rows"`   // rows of these messages
	Scores    wire.Digest `json:"scores"` // of the scores, in row order
}

// Part returns the residuals of a partition; none if the share does not have it.
func (s *Seal) Part(partition int) SealedPart {
	for _, part := range s.Parts {
		if part.Partition == partition {
			return part
		}
	}
	return SealedPart{}
}
