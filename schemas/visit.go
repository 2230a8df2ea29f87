package schemas

import "strconv"

// KindVisit is the kind of a [Visit] and of a [SurveyVisit] record.
const KindVisit Kind = "visit"

// Visit holds the sums of one partition's span for one visit of a stage. The Gram matrix has a record of its own, a
// [Gram].
type Visit struct {
	Identity
	Covered Coverage         // what the sums cover
	Sums    Tensors[float64] // see the constants Field…
}

// Record makes the record of the visit.
func (v *Visit) Record() *Record[float64] {
	return &Record[float64]{Identity: v.Identity, Notes: []Header{v.Covered.note()}, Tensors: v.Sums}
}

// VisitOf is the inverse of [Visit.Record]. An error wraps [ErrDamaged].
func VisitOf(r *Record[float64]) (*Visit, error) {
	covered, err := parseCoverage(r.Note(noteCovered))
	if err != nil {
		return nil, r.damaged(err)
	}
	return &Visit{r.Identity, covered, r.Tensors}, nil
}

// SurveyVisit holds what the survey found in one partition's span.
type SurveyVisit struct {
	Visit
	Shift       []float32 // d: the point that the moments are taken about
	Labels      []string  // of its rows, sorted; none if the plan names the classes
	Quarantined int64     // messages in quarantine
	PassedOver  PassedOver
	Columns     Columns // of the run's first message; nil: it doesn't say
}

// Names of the content of a survey's visit beside its sums.
const (
	tensorShift     = "shift"
	tensorColumns   = "columns" // of a survey's result too
	noteQuarantined = "quarantined"
)

// Record makes the record of the visit.
func (v *SurveyVisit) Record() *Record[float64] {
	shift := make([]float64, len(v.Shift))
	for j, x := range v.Shift {
		shift[j] = float64(x)
	}
	r := v.Visit.Record()
	r.Notes = append(r.Notes, Header{noteQuarantined, strconv.FormatInt(v.Quarantined, 10)}, v.PassedOver.note())
	r.Tensors = append(r.Tensors[:len(r.Tensors):len(r.Tensors)], Vector(tensorShift, shift), Words[float64](FieldLabels, v.Labels))
	if v.Columns != nil {
		r.Tensors = append(r.Tensors, Words[float64](tensorColumns, []string{v.Columns.Text()}))
	}
	return r
}

// SurveyVisitOf is the inverse of [SurveyVisit.Record]. An error wraps [ErrDamaged].
func SurveyVisitOf(r *Record[float64]) (*SurveyVisit, error) {
	visit, err := VisitOf(r)
	if err != nil {
		return nil, err
	}
	v := &SurveyVisit{Visit: *visit}
	if v.Quarantined, err = r.number(noteQuarantined); err != nil {
		return nil, err
	}
	if v.PassedOver, err = parsePassedOver(r.Note(notePassedOver)); err != nil {
		return nil, r.damaged(err)
	}
	v.Sums = nil
	for _, t := range r.Tensors {
		switch t.Name {
		case tensorShift:
			v.Shift = make([]float32, len(t.Data))
			for j, x := range t.Data {
				v.Shift[j] = float32(x)
			}
		case FieldLabels:
			v.Labels = t.Text
		case tensorColumns:
			if v.Columns, err = columnsOf(t.Text); err != nil {
				return nil, r.damaged(err)
			}
		default:
			v.Sums = append(v.Sums, t)
		}
	}
	return v, nil
}
