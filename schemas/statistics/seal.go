package statistics

import (
	"strconv"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSeal is the kind of a [Seal] record.
const KindSeal wire.Kind = "seal"

// Seal says that all residuals of one partition after a stage are published, where they are, and what they must be. Parent
// is the digest of the stage's final weights.
type Seal struct {
	wire.Identity
	Attempt  string                // of the residuals messages that count
	From, To int64                 // offsets on the residuals topic, without To
	Rows     int64                 // rows of these messages
	Scores   wire.Digest           // of the scores, in row order
	Covered  coverage.Coverage     // the examples behind them
	Sums     wire.Tensors[float64] // the final losses and quality of the stage
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
func (s *Seal) Record() *wire.Record[float64] {
	return &wire.Record[float64]{Identity: s.Identity, Tensors: s.Sums, Notes: []wire.Header{
		s.Covered.Note(),
		{Key: noteFrom, Value: strconv.FormatInt(s.From, 10)}, {Key: noteTo, Value: strconv.FormatInt(s.To, 10)},
		{Key: noteRows, Value: strconv.FormatInt(s.Rows, 10)},
		{Key: noteScores, Value: string(s.Scores)}, {Key: noteAttempt, Value: s.Attempt},
	}}
}

// SealOf is the inverse of [Seal.Record]. An error wraps [wire.ErrDamaged].
func SealOf(r *wire.Record[float64]) (*Seal, error) {
	s := &Seal{Identity: r.Identity, Attempt: r.Note(noteAttempt), Scores: wire.Digest(r.Note(noteScores)), Sums: r.Tensors}
	var err error
	if s.From, err = r.Number(noteFrom); err != nil {
		return nil, err
	}
	if s.To, err = r.Number(noteTo); err != nil {
		return nil, err
	}
	if s.Rows, err = r.Number(noteRows); err != nil {
		return nil, err
	}
	if s.Covered, err = coverage.Parse(r.Note(coverage.NoteCovered)); err != nil {
		return nil, r.Damaged(err)
	}
	return s, nil
}
