package schemas

import "strconv"

// KindSeal is the kind of a [Seal].
const KindSeal Kind = "seal"

// Seal says where the residuals of one partition after a stage are, and what they
// must be. Parent is the digest of the stage's final weights.
type Seal struct {
	Identity
	Attempt  string // of the residuals messages that the seal is about
	From, To int64  // offsets on the residuals topic, To not included
	Rows     int64
	Scores   Digest // of the scores, in row order
	Covered  Coverage
	Sums     Tensors[float64] // the final losses and quality of the stage
}

// The notes of a seal.
const (
	noteFrom    = "from"
	noteTo      = "to"
	noteRows    = "rows"
	noteScores  = "scores"
	noteAttempt = "attempt"
)

// Record encodes the seal.
func (s *Seal) Record() *Record[float64] {
	return &Record[float64]{Identity: s.Identity, Tensors: s.Sums, Notes: []Header{
		s.Covered.note(),
		{noteFrom, strconv.FormatInt(s.From, 10)}, {noteTo, strconv.FormatInt(s.To, 10)}, {noteRows, strconv.FormatInt(s.Rows, 10)},
		{noteScores, string(s.Scores)}, {noteAttempt, s.Attempt},
	}}
}

// SealOf decodes a seal. Errors wrap ErrDamaged.
func SealOf(r *Record[float64]) (*Seal, error) {
	s := &Seal{Identity: r.Identity, Attempt: r.Note(noteAttempt), Scores: Digest(r.Note(noteScores)), Sums: r.Tensors}
	for _, number := range []struct {
		note string
		to   *int64
	}{{noteFrom, &s.From}, {noteTo, &s.To}, {noteRows, &s.Rows}} {
		n, err := strconv.ParseInt(r.Note(number.note), 10, 64)
		if err != nil {
			return nil, r.damaged(err)
		}
		*number.to = n
	}
	var err error
	if s.Covered, err = parseCoverage(r.Note(noteCovered)); err != nil {
		return nil, r.damaged(err)
	}
	return s, nil
}

func sealLayout() Layout {
	return Layout{
		Kind: KindSeal, Topic: "statistics", Writer: "worker", Reader: "worker, solver",
		Tensors: []Part{
			{FieldSplits, "[3, 4]: as in `visit`, of the stage's final predictions"}, {FieldQuality, "[3, 2]"},
			{FieldBins, "[3, 15, 3]"}, {FieldConfusion, "[3, k, k], unless there are very many classes"},
		},
		Notes: []Part{
			{noteCovered, "what the sums cover"}, {noteFrom, "and"}, {noteTo, "offsets on the residuals topic"}, {noteRows, "how many"},
			{noteScores, "digest of the scores"}, {noteAttempt, "of the residuals that count"},
		},
	}
}
