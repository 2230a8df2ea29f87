package statistics

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindVisit is the kind of a [Visit] and of a [SurveyVisit] record.
const KindVisit wire.Kind = "visit"

// Visit has the sums of one partition's span for one visit of a stage. The Gram matrix has its own record, a [Gram].
type Visit struct {
	wire.Identity
	Covered coverage.Coverage     // coverage of the sums; for merged partitions the record has only the digest of the spans
	Spans   wire.Digest           // of Covered.Spans, in a decoded record of merged partitions
	Sums    wire.Tensors[float64] // see the constants Field…
}

// noteSpans is the note with the digest of the covered spans, in records of merged partitions: the spans of ten thousand partitions do not
// fit into a header.
const noteSpans = "spans"

// Record makes the record of the visit.
func (v *Visit) Record() *wire.Record[float64] {
	covered, notes := v.Covered, []wire.Header(nil)
	if v.Merged > 0 {
		notes = []wire.Header{{Key: noteSpans, Value: string(cmp.Or(v.Spans, covered.Spans.Digest()))}}
		covered.Spans = nil
	}
	return &wire.Record[float64]{Identity: v.Identity, Notes: append([]wire.Header{covered.Note()}, notes...), Tensors: v.Sums}
}

// VisitOf is the inverse of [Visit.Record]. An error wraps [wire.ErrDamaged].
func VisitOf(r *wire.Record[float64]) (*Visit, error) {
	covered, err := coverage.Parse(r.Note(coverage.NoteCovered))
	if err != nil {
		return nil, r.Damaged(err)
	}
	v := &Visit{Identity: r.Identity, Covered: covered, Sums: r.Tensors}
	if r.Merged > 0 {
		v.Spans = wire.Digest(r.Note(noteSpans))
	}
	return v, nil
}

// SurveyVisit is the survey of one partition's span, or of those of merged partitions.
type SurveyVisit struct {
	Visit
	Shift       []float32 // d: origin of the moments
	TargetShift []float64 // k: origin of the moments of the targets; nil: 0
	Labels      []string  // labels of the rows, sorted; none if the plan names the classes and does not balance them
	LabelRows   []int64   // number of training rows of each of Labels; nil if the run keeps the classes of a version
	Quarantined int64     // quarantined messages
	// Parts are the coverages of merged partitions, in order; nil: a single partition.
	Parts      []coverage.Coverage
	PassedOver coverage.PassedOver
	Columns    examples.Columns // of the run's first message; nil: unknown
	Sparse     bool             // whether the rows are sparse; then there is no Shift
	ColumnRows []examples.ColumnRows
	Image      examples.Image       // of the run's first message; zero: unknown
	Unknown    []examples.LabelRows // rows whose labels are not classes
	// Untrained are the rows of labels that occur only in holdout and test rows of the span.
	Untrained []examples.LabelRows
	Bad       coverage.BadMessages // chain: messages of the newest increment
	Chained   []Chained            // chain: of each partition, in order
}

// Names of the content of a survey's visit other than its sums.
const (
	tensorShift      = "shift"
	tensorTargets    = "target_shift"
	tensorColumns    = "columns" // also in a survey result
	noteQuarantined  = "quarantined"
	noteImage        = "image"
	noteProgress     = "progress"
	noteBad          = "bad"
	tensorColumnRows = "column_rows" // [n, 2], sparse rows: a column, and the number of training rows in which it is nonzero
)

// Record makes the record of the visit.
func (v *SurveyVisit) Record() *wire.Record[float64] {
	shift := make([]float64, len(v.Shift))
	for j, x := range v.Shift {
		shift[j] = float64(x)
	}
	r := v.Visit.Record()
	r.Notes = append(r.Notes, wire.Header{Key: noteQuarantined, Value: strconv.FormatInt(v.Quarantined, 10)}, v.PassedOver.Note())
	r.Tensors = append(r.Tensors[:len(r.Tensors):len(r.Tensors)], wire.Vector(tensorShift, shift), wire.Words[float64](FieldLabels, v.Labels))
	if v.Merged > 0 {
		covered := make([]string, len(v.Parts))
		for i, c := range v.Parts {
			covered[i] = c.Text()
		}
		r.Tensors = append(r.Tensors, wire.Words[float64](TensorCovered, covered))
	}
	if v.TargetShift != nil {
		r.Tensors = append(r.Tensors, wire.Vector(tensorTargets, v.TargetShift))
	}
	if v.LabelRows != nil {
		rows := make([]float64, len(v.LabelRows))
		for i, n := range v.LabelRows {
			rows[i] = float64(n)
		}
		r.Tensors = append(r.Tensors, wire.Vector(FieldLabelRows, rows))
	}
	if v.Columns != nil {
		r.Tensors = append(r.Tensors, wire.Words[float64](tensorColumns, []string{v.Columns.Text()}))
	}
	if v.Sparse {
		r.Tensors = append(r.Tensors, columnRowsTensor(v.ColumnRows))
	}
	if v.Image != (examples.Image{}) {
		r.Notes = append(r.Notes, wire.Header{Key: noteImage, Value: v.Image.Text()})
	}
	r.Tensors = append(r.Tensors, labelRowsTensors(tensorUnknown, v.Unknown)...)
	r.Tensors = append(r.Tensors, labelRowsTensors(tensorUntrained, v.Untrained)...)
	if v.Bad.Of > 0 {
		r.Notes = append(r.Notes, wire.Header{Key: noteBad, Value: string(wire.JSON(v.Bad))})
	}
	if v.Chained != nil {
		r.Tensors = append(r.Tensors, chainedTensors(v.Chained)...)
		// Releases that had progress in this note reject the record: without the contents of chained they would lose them.
		r.Notes = append(r.Notes, wire.Header{Key: noteProgress, Value: tensorChained})
	}
	return r
}

// SurveyVisitOf is the inverse of [SurveyVisit.Record]. An error wraps [wire.ErrDamaged].
func SurveyVisitOf(r *wire.Record[float64]) (*SurveyVisit, error) {
	visit, err := VisitOf(r)
	if err != nil {
		return nil, err
	}
	v := &SurveyVisit{Visit: *visit}
	if v.Quarantined, err = r.Number(noteQuarantined); err != nil {
		return nil, err
	}
	if v.PassedOver, err = coverage.ParsePassedOver(r.Note(coverage.NotePassedOver)); err != nil {
		return nil, r.Damaged(err)
	}
	if v.Image, err = examples.ParseImage(r.Note(noteImage)); err != nil {
		return nil, r.Damaged(err)
	}
	if v.Unknown, err = labelRowsOf(r.Tensors, tensorUnknown); err != nil {
		return nil, r.Damaged(err)
	}
	if v.Untrained, err = labelRowsOf(r.Tensors, tensorUntrained); err != nil {
		return nil, r.Damaged(err)
	}
	if text := r.Note(noteBad); text != "" {
		if err := json.Unmarshal([]byte(text), &v.Bad); err != nil {
			return nil, r.Damaged(fmt.Errorf("bad %s: %w", stream.Quote(text), err))
		}
	}
	if v.Chained, err = chainedOf(r.Tensors); err != nil {
		return nil, r.Damaged(err)
	}
	v.Sums = nil
	for _, t := range r.Tensors {
		switch t.Name {
		case tensorShift:
			v.Shift = make([]float32, len(t.Data))
			for j, x := range t.Data {
				v.Shift[j] = float32(x)
			}
		case tensorTargets:
			v.TargetShift = t.Data
		case TensorCovered:
			for _, text := range t.Text {
				c, err := coverage.Parse(text)
				if err != nil {
					return nil, r.Damaged(err)
				}
				v.Parts = append(v.Parts, c)
			}
		case FieldLabels:
			v.Labels = t.Text
		case FieldLabelRows:
			v.LabelRows = make([]int64, len(t.Data))
			for i, n := range t.Data {
				v.LabelRows[i] = int64(n)
			}
		case tensorChained, tensorMessages, tensorServed, tensorUnknown, tensorUnknown + suffixRows, tensorUntrained,
			tensorUntrained + suffixRows:
		case tensorColumnRows:
			v.Sparse = true
			if v.ColumnRows, err = columnRowsOf(t); err != nil {
				return nil, r.Damaged(err)
			}
		case tensorColumns:
			if v.Columns, err = columnsOf(t.Text); err != nil {
				return nil, r.Damaged(err)
			}
		default:
			v.Sums = append(v.Sums, t)
		}
	}
	if len(v.Parts) != v.Merged {
		return nil, r.Damaged(&wire.ShapeError{Tensor: TensorCovered, Got: []int{len(v.Parts)}, Want: []int{v.Merged}})
	}
	if n := max(v.Merged, 1); v.Chained != nil && len(v.Chained) != n {
		return nil, r.Damaged(&wire.ShapeError{Tensor: tensorChained, Got: []int{len(v.Chained)}, Want: []int{n}})
	}
	if v.LabelRows != nil && len(v.LabelRows) != len(v.Labels) {
		return nil, r.Damaged(&wire.ShapeError{Tensor: FieldLabelRows, Got: []int{len(v.LabelRows)}, Want: []int{len(v.Labels)}})
	}
	return v, nil
}

// columnRowsTensor makes the tensor of column counts.
func columnRowsTensor(counts []examples.ColumnRows) wire.Tensor[float64] {
	data := make([]float64, 0, 2*len(counts))
	for _, n := range counts {
		data = append(data, float64(n.Column), float64(n.Rows))
	}
	return wire.Matrix(tensorColumnRows, len(counts), 2, data)
}

func columnRowsOf(t wire.Tensor[float64]) ([]examples.ColumnRows, error) {
	if len(t.Shape) != 2 || t.Shape[1] != 2 || len(t.Text) > 0 {
		return nil, &wire.ShapeError{Tensor: t.Name, Got: t.Shape, Want: []int{-1, 2}}
	}
	counts := make([]examples.ColumnRows, t.Shape[0])
	for i := range counts {
		column, rows := t.Data[2*i], t.Data[2*i+1]
		if !(column >= 0 && column < examples.MaxColumns && rows >= 0 && rows <= math.MaxUint32) {
			return nil, fmt.Errorf("%v rows of column %v", rows, column)
		}
		counts[i] = examples.ColumnRows{Column: int32(column), Rows: uint32(rows)}
	}
	return counts, nil
}
