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
	Covered coverage.Coverage     `header:"covered"` // coverage of the sums; without spans in a record
	Spans   wire.Digest           `header:"spans"`   // of Covered.Spans
	Sums    wire.Tensors[float64] `tensor:"*"`       // see the constants Field…
}

// shortened returns the coverage in a record, and the digest of its spans in their place: the spans of ten thousand partitions do
// not fit into a header. spans is the digest if the coverage is that of a record.
func shortened(c coverage.Coverage, spans wire.Digest) (coverage.Coverage, wire.Digest) {
	spans, c.Spans = cmp.Or(spans, c.Spans.Digest()), nil
	return c, spans
}

// Record makes the record of the visit.
func (v *Visit) Record() *wire.Record[float64] {
	short := *v
	short.Covered, short.Spans = shortened(v.Covered, v.Spans)
	return wire.RecordOf[float64](&short)
}

// VisitOf is the inverse of [Visit.Record], apart from the spans. An error wraps [wire.ErrDamaged].
func VisitOf(r *wire.Record[float64]) (*Visit, error) { return read(r, &Visit{}) }

// SurveyVisit is the survey of a share.
type SurveyVisit struct {
	Visit
	Shift []float32 `tensor:"shift"` // d: origin of the moments
	// Labels are the labels of the rows, sorted; none if the plan names the classes and does not balance them.
	Labels      []string            `tensor:"labels"`
	Quarantined int64               `header:"quarantined"` // quarantined messages
	PassedOver  coverage.PassedOver `header:"passed_over"`
	// Parts are the coverages of the partitions, in order.
	Parts       []coverage.Coverage `tensor:"covered,texts"`
	TargetShift []float64           `tensor:"target_shift,omitzero"` // k: origin of the moments of the targets; nil: 0
	// LabelRows are the numbers of training rows of Labels; nil if the run keeps the classes of a version.
	LabelRows  []int64               `tensor:"label_rows,omitzero"`
	Columns    examples.Columns      `tensor:"columns,text,omitzero"` // of the run's first message; nil: unknown
	ColumnRows []examples.ColumnRows `tensor:"column_rows,omitzero"`
	Sparse     bool                  // whether the rows are sparse; then there is no Shift
	Image      examples.Image        `header:"image,omitzero"`          // of the run's first message; zero: unknown
	Unknown    []examples.LabelRows  `tensor:"unknown,texts,omitempty"` // rows whose labels are not classes, by label
	// Untrained are the rows of labels that occur only in holdout and test rows of the span, by label.
	Untrained []examples.LabelRows `tensor:"untrained,texts,omitempty"`
	Bad       coverage.BadMessages `header:"bad,omitzero"` // chain: messages of the newest increment
	Chained   []Chained            // chain: of each partition, in order
}

// surveyRecord is the record of a survey's visit.
type surveyRecord struct {
	*SurveyVisit
	chainedRecord
}

// Record makes the record of the visit.
func (v *SurveyVisit) Record() *wire.Record[float64] {
	short := *v
	short.Covered, short.Spans = shortened(v.Covered, v.Spans)
	if short.ColumnRows = nil; v.Sparse {
		short.ColumnRows = append([]examples.ColumnRows{}, v.ColumnRows...)
	}
	return wire.RecordOf[float64](&surveyRecord{&short, chainedRecordOf(v.Chained)})
}

// SurveyVisitOf is the inverse of [SurveyVisit.Record], apart from the spans. An error wraps [wire.ErrDamaged].
func SurveyVisitOf(r *wire.Record[float64]) (*SurveyVisit, error) {
	of, err := read(r, &surveyRecord{SurveyVisit: &SurveyVisit{}})
	if err != nil {
		return nil, err
	}
	return of.SurveyVisit, nil
}

// Check returns an error for impossible content, and divides the messages and served answers by partition.
func (r *surveyRecord) Check() (err error) {
	v := r.SurveyVisit
	v.Sparse = v.ColumnRows != nil
	if v.Chained, err = r.partitions(); err != nil {
		return err
	}
	err = cmp.Or(checkLabelRows(v.Unknown), checkLabelRows(v.Untrained), v.Image.Check(), v.Columns.Check())
	if err != nil {
		return err
	}
	for _, n := range v.ColumnRows {
		if n.Column < 0 || n.Column >= examples.MaxColumns {
			return fmt.Errorf("%d rows of column %d", n.Rows, n.Column)
		}
	}
	if n := len(v.Parts); v.Chained != nil && len(v.Chained) != n {
		return &wire.ShapeError{Tensor: tensorChained, Got: []int{len(v.Chained)}, Want: []int{n}}
	}
	if v.LabelRows != nil && len(v.LabelRows) != len(v.Labels) {
		return &wire.ShapeError{Tensor: FieldLabelRows, Got: []int{len(v.LabelRows)}, Want: []int{len(v.Labels)}}
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
