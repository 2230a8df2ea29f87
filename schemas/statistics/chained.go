package statistics

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// Chained is what a run of a chain needs from the survey of each partition. It does not add up: the record of a share
// has that of each of its partitions.
type Chained struct {
	Skipped  coverage.Spans      // messages in the span that are not included
	Progress []PartitionProgress // of the sources of the plan, after the span
	// Increments are the coverages of the increments of a full run, in order; without spans if the partition has nothing of an increment.
	Increments []coverage.Coverage
	// Messages are the losses of the previous version on each message with training rows, in order; nil unless the run is an update.
	Messages []MessageLosses
	// Served are the errors of the answers that were served for the training rows of an update; nil: none of its rows was served.
	Served []ServedLosses
}

// PartitionProgress is the progress of a source in one partition.
type PartitionProgress struct {
	Source  string `json:"source"`  // source ID
	Attempt string `json:"attempt"` // attempt of the ingest
	Next    int64  `json:"next"`    // first sequence that is not counted
}

// MessageLosses are the prequential losses of the training rows of one message.
type MessageLosses struct {
	Offset int64
	Losses // of the training rows
}

// tensorChained is the name of a tensor of [chainedRecord].
const tensorChained = "chained"

// chainedRecord has the tensors of the [Chained] of a survey's partitions.
type chainedRecord struct {
	Text     []chainedText   `tensor:"chained,texts,omitempty"`
	Messages []MessageLosses `tensor:"messages,omitempty"`
	Served   []ServedLosses  `tensor:"served,omitempty"`
}

// chainedText is the text of a partition.
type chainedText struct {
	Skipped    coverage.Spans      `json:"skipped,omitempty"`
	Progress   []PartitionProgress `json:"progress,omitempty"`
	Increments []coverage.Coverage `json:"increments,omitempty"`
	Messages   int                 `json:"messages,omitempty"` // number of its messages
	Served     int                 `json:"served,omitempty"`   // number of its served answers
}

// chainedRecordOf returns the tensors of the partitions.
func chainedRecordOf(partitions []Chained) (r chainedRecord) {
	for _, c := range partitions {
		r.Text = append(r.Text, chainedText{c.Skipped, c.Progress, c.Increments, len(c.Messages), len(c.Served)})
		r.Messages, r.Served = append(r.Messages, c.Messages...), append(r.Served, c.Served...)
	}
	return r
}

// partitions is the inverse of chainedRecordOf.
func (r *chainedRecord) partitions() (partitions []Chained, err error) {
	messages, served := r.Messages, r.Served
	for _, of := range r.Text {
		c := Chained{Skipped: of.Skipped, Progress: of.Progress, Increments: of.Increments}
		if err := coverage.Check(of.Skipped); err != nil {
			return nil, err
		}
		if of.Messages < 0 || of.Messages > len(messages) || of.Served < 0 || of.Served > len(served) {
			return nil, fmt.Errorf("a partition with %d messages and %d served, %d and %d are left", of.Messages, of.Served, len(messages),
				len(served))
		}
		c.Messages, messages = cut(messages, of.Messages)
		c.Served, served = cut(served, of.Served)
		for i := range c.Messages {
			if err := c.Messages[i].check(); err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
		}
		if err := checkServed(c.Served); err != nil {
			return nil, err
		}
		partitions = append(partitions, c)
	}
	if len(messages) > 0 || len(served) > 0 {
		return nil, fmt.Errorf("%d messages and %d served belong to no partition", len(messages), len(served))
	}
	return partitions, nil
}

// cut returns the first n elements of a list, nil if n is 0, and the others.
func cut[E any](list []E, n int) (first, rest []E) {
	if n > 0 {
		first = list[:n:n]
	}
	return first, list[n:]
}
