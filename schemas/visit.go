package schemas

import "strconv"

// KindVisit is the kind of a [Visit] and of a [SurveyVisit].
const KindVisit Kind = "visit"

// Visit is the sums of one partition's span for one visit of a stage, but for
// the Gram matrix, which is a [Gram].
type Visit struct {
	Identity
	Covered Coverage
	Sums    Tensors[float64]
}

// Record encodes the visit.
func (v *Visit) Record() *Record[float64] {
	return &Record[float64]{Identity: v.Identity, Notes: []Header{v.Covered.note()}, Tensors: v.Sums}
}

// VisitOf decodes a visit. Errors wrap ErrDamaged.
func VisitOf(r *Record[float64]) (*Visit, error) {
	covered, err := parseCoverage(r.Note(noteCovered))
	if err != nil {
		return nil, r.damaged(err)
	}
	return &Visit{r.Identity, covered, r.Tensors}, nil
}

// SurveyVisit is what the survey found in one partition's span.
type SurveyVisit struct {
	Visit
	Shift       []float32 // d: the point that the moments are taken about
	Labels      []string  // those that were seen, sorted; none where the plan names its classes
	Quarantined int64     // messages that can't be used
}

// Names of a survey's visit beside its sums.
const (
	tensorShift     = "shift"
	noteQuarantined = "quarantined"
)

// Record encodes the visit.
func (v *SurveyVisit) Record() *Record[float64] {
	shift := make([]float64, len(v.Shift))
	for j, x := range v.Shift {
		shift[j] = float64(x)
	}
	r := v.Visit.Record()
	r.Notes = append(r.Notes, Header{noteQuarantined, strconv.FormatInt(v.Quarantined, 10)})
	r.Tensors = append(r.Tensors[:len(r.Tensors):len(r.Tensors)], Vector(tensorShift, shift), Words[float64](FieldLabels, v.Labels))
	return r
}

// SurveyVisitOf decodes a visit of the survey. Errors wrap ErrDamaged.
func SurveyVisitOf(r *Record[float64]) (*SurveyVisit, error) {
	visit, err := VisitOf(r)
	if err != nil {
		return nil, err
	}
	v := &SurveyVisit{Visit: *visit}
	if v.Quarantined, err = strconv.ParseInt(r.Note(noteQuarantined), 10, 64); err != nil {
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
		default:
			v.Sums = append(v.Sums, t)
		}
	}
	return v, nil
}

func visitLayout() Layout {
	return Layout{
		Kind: KindVisit, Topic: "statistics", Writer: "worker", Reader: "solver",
		Tensors: []Part{
			{FieldSplits, "[3, 4]: for each split Σw, rows, Σw of wrong rows, Σw·loss"}, {FieldCross, "[p, k]: Σ w x rᵀ"},
			{FieldTrace, "[1]: Σ w \\|x\\|² of all rows over the penalised columns, where the Gram matrix is of a sample"},
			{FieldSums, "[d], survey"}, {FieldSquares, "[d], survey"}, {FieldPresent, "[d], survey"},
			{tensorShift, "[d], survey: the point that the three are taken about"}, {FieldLabels, "text, survey"},
		},
		Notes: []Part{{noteCovered, "what the sums cover"}, {noteQuarantined, "survey: messages in quarantine"}},
	}
}
