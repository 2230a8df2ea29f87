package schemas

import "strconv"

// KindSeal is the kind of a [Seal] record.
const KindSeal Kind = "seal"

// Seal says that all residuals of one partition after a stage are published, where they are, and what they must be. Parent
// is the digest of the stage's final weights.
type Seal struct {
	Identity
	Attempt  string           // of the residuals messages that count
	From, To int64            // offsets on the residuals topic, without To
	Rows     int64            // rows of these messages
	Scores   Digest           // of the scores, in row order
	Covered  Coverage         // the examples behind them
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

// Record makes the record of the seal.
func (s *Seal) Record() *Record[float64] {
	return &Record[float64]{Identity: s.Identity, Tensors: s.Sums, Notes: []Header{
		s.Covered.note(),
		{noteFrom, strconv.FormatInt(s.From, 10)}, {noteTo, strconv.FormatInt(s.To, 10)}, {noteRows, strconv.FormatInt(s.Rows, 10)},
		{noteScores, string(s.Scores)}, {noteAttempt, s.Attempt},
	}}
}

// SealOf is the inverse of [Seal.Record]. An error wraps [ErrDamaged].
func SealOf(r *Record[float64]) (*Seal, error) {
	s := &Seal{Identity: r.Identity, Attempt: r.Note(noteAttempt), Scores: Digest(r.Note(noteScores)), Sums: r.Tensors}
	var err error
	if s.From, err = r.number(noteFrom); err != nil {
		return nil, err
	}
	if s.To, err = r.number(noteTo); err != nil {
		return nil, err
	}
	if s.Rows, err = r.number(noteRows); err != nil {
		return nil, err
	}
	if s.Covered, err = parseCoverage(r.Note(noteCovered)); err != nil {
		return nil, r.damaged(err)
	}
	return s, nil
}
