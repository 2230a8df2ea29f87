package statistics

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSeal is the kind of a [Seal] record.
const KindSeal wire.Kind = "seal"

// Seal states that all residuals of one partition, or of merged partitions, after a stage are published, with their position and digest.
// Parent is the digest of the stage's final weights.
type Seal struct {
	wire.Identity
	Covered coverage.Coverage `header:"covered"`         // examples of these rows
	Spans   wire.Digest       `header:"spans,omitempty"` // of Covered.Spans, in a decoded record of merged partitions
	From    int64             `header:"from"`            // first offset on the residuals topic
	To      int64             `header:"to"`              // offset after the last
	Rows    int64             `header:"rows"`            // rows of these messages
	Scores  wire.Digest       `header:"scores"`          // of the scores, in row order
	Attempt string            `header:"attempt"`         // of the valid residuals messages
	// Sums are final losses and quality of the stage.
	Sums wire.Tensors[float64] `tensor:"*"`
	// Parts are the seals of merged partitions; nil: a single partition.
	Parts []SealedPart `tensor:"sealed,texts,omitempty"`
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
	short := *s
	short.Covered, short.Spans = shortened(s.Merged, s.Covered, s.Spans)
	return wire.RecordOf[float64](&short)
}

// SealOf is the inverse of [Seal.Record]. An error wraps [wire.ErrDamaged].
func SealOf(r *wire.Record[float64]) (*Seal, error) { return read(r, &Seal{}) }

// Check returns an error unless there is a part for each merged partition.
func (s *Seal) Check() error {
	if len(s.Parts) != s.Merged {
		return &wire.ShapeError{Tensor: "sealed", Got: []int{len(s.Parts)}, Want: []int{s.Merged}}
	}
	return nil
}
