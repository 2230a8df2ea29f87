package statistics

import (
	"cmp"
	"fmt"

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
