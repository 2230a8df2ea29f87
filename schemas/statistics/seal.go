package statistics

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSeal is the kind of a [Seal] record.
const KindSeal wire.Kind = "seal"

// Seal states that all residuals of one partition, or of merged partitions, after a stage are published, with their position and digest.
// Parent is the digest of the stage's final weights.
type Seal struct {
	wire.Identity
	Attempt  string                // of the valid residuals messages
	From, To int64                 // offsets on the residuals topic, To exclusive
	Rows     int64                 // rows of these messages
	Scores   wire.Digest           // of the scores, in row order
	Covered  coverage.Coverage     // examples of these rows
	Spans    wire.Digest           // of Covered.Spans, in a decoded record of merged partitions
	Sums     wire.Tensors[float64] // final losses and quality of the stage; none in a seal after residuals whose sums were merged
	// Parts are the seals of merged partitions; nil: a single partition.
	Parts []SealedPart
}

// SealedPart is the seal of one partition in a record of merged partitions.
type SealedPart struct {
	Partition int         `json:"partition"`
	From      int64       `json:"from"`
	To        int64       `json:"to"`
	Rows      int64       `json:"rows"`
	Scores    wire.Digest `json:"scores"`
	Covered   string      `json:"covered"` // coverage as text
}

// The notes of a seal.
const (
	noteFrom    = "from"
	noteTo      = "to"
	noteRows    = "rows"
	noteScores  = "scores"
	noteAttempt = "attempt"
)

// tensorSealed has the seals of merged partitions.
const tensorSealed = "sealed" // text: JSON, one entry per partition

// MergedSeal returns the seal of merged partitions, given the seal of each in order, all of one attempt.
func MergedSeal(id wire.Identity, covered coverage.Coverage, sums wire.Tensors[float64], each []*Seal) *Seal {
	s := &Seal{Identity: id, Attempt: each[0].Attempt, Covered: covered, Sums: sums}
	scores := make([]wire.Digest, len(each))
	for i, of := range each {
		s.Parts = append(s.Parts, SealedPart{of.Partition, of.From, of.To, of.Rows, of.Scores, of.Covered.Text()})
		s.Rows, scores[i] = s.Rows+of.Rows, of.Scores
	}
	s.Scores = wire.DigestJSON(scores)
	return s
}

// Each returns the seal of each partition, without sums for merged partitions. An error wraps [wire.ErrDamaged].
func (s *Seal) Each() (all []*Seal, err error) {
	if s.Merged == 0 {
		return []*Seal{s}, nil
	}
	for _, part := range s.Parts {
		of := &Seal{Identity: s.Identity, Attempt: s.Attempt, From: part.From, To: part.To, Rows: part.Rows, Scores: part.Scores}
		of.Partition, of.Merged = part.Partition, 0
		if of.Covered, err = coverage.Parse(part.Covered); err != nil {
			return nil, fmt.Errorf("%w: %v: %w", wire.ErrDamaged, s.Identity, err)
		}
		all = append(all, of)
	}
	return all, nil
}

// Record makes the record of the seal.
func (s *Seal) Record() *wire.Record[float64] {
	r := (&Visit{Identity: s.Identity, Covered: s.Covered, Spans: s.Spans, Sums: s.Sums}).Record()
	if s.Merged > 0 {
		parts := make([]string, len(s.Parts))
		for i, part := range s.Parts {
			parts[i] = string(wire.JSON(part))
		}
		r.Tensors = append(r.Tensors[:len(r.Tensors):len(r.Tensors)], wire.Words[float64](tensorSealed, parts))
	}
	r.Notes = append(r.Notes, []wire.Header{
		{Key: noteFrom, Value: strconv.FormatInt(s.From, 10)}, {Key: noteTo, Value: strconv.FormatInt(s.To, 10)},
		{Key: noteRows, Value: strconv.FormatInt(s.Rows, 10)},
		{Key: noteScores, Value: string(s.Scores)}, {Key: noteAttempt, Value: s.Attempt},
	}...)
	return r
}

// SealOf is the inverse of [Seal.Record]. An error wraps [wire.ErrDamaged].
func SealOf(r *wire.Record[float64]) (*Seal, error) {
	v, err := VisitOf(r)
	if err != nil {
		return nil, err
	}
	s := &Seal{Identity: r.Identity, Attempt: r.Note(noteAttempt), Scores: wire.Digest(r.Note(noteScores)), Covered: v.Covered,
		Spans: v.Spans}
	if s.From, err = r.Number(noteFrom); err != nil {
		return nil, err
	}
	if s.To, err = r.Number(noteTo); err != nil {
		return nil, err
	}
	if s.Rows, err = r.Number(noteRows); err != nil {
		return nil, err
	}
	for _, t := range r.Tensors {
		if t.Name != tensorSealed {
			s.Sums = append(s.Sums, t)
			continue
		}
		for _, text := range t.Text {
			var part SealedPart
			if err := json.Unmarshal([]byte(text), &part); err != nil {
				return nil, r.Damaged(fmt.Errorf("sealed %s: %w", stream.Quote(text), err))
			}
			s.Parts = append(s.Parts, part)
		}
	}
	if len(s.Parts) != s.Merged {
		return nil, r.Damaged(&wire.ShapeError{Tensor: tensorSealed, Got: []int{len(s.Parts)}, Want: []int{s.Merged}})
	}
	return s, nil
}
