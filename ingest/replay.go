package ingest

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas"
)

// Replay decides which messages of a partition count in a run: each sequence of
// the plan's sources once, and the messages of other producers if the plan wants
// them. Whether a message counts depends on the messages before it, so Replay
// must see all messages of the span, in order. NewReplay makes it.
type Replay struct {
	partition int
	foreign   bool
	sources   map[schemas.Origin]*position // by the origin of their messages, without a sequence
}

// position is how far the messages of one source have been seen.
type position struct {
	seal  schemas.SourceSeal
	next  int64 // the sequence that counts next
	count int64 // messages that counted
}

// NewReplay returns a Replay at the beginning of the partition's span.
func NewReplay(plan *schemas.Plan, partition int) *Replay {
	r := &Replay{partition: partition, foreign: plan.Foreign, sources: map[schemas.Origin]*position{}}
	for _, seal := range plan.Sources {
		r.sources[schemas.Origin{Source: seal.ID, Attempt: seal.Attempt}] = &position{seal: seal, next: int64(partition)}
	}
	return r
}

// Accept reports whether the next message of the span counts. A message does not
// count if its source is not in the plan, if it repeats an earlier message, or if
// another producer wrote it and the plan does not want those.
func (r *Replay) Accept(m schemas.Message) bool {
	origin, ingested := schemas.OriginOf(m)
	if !ingested {
		return r.foreign
	}
	p := r.sources[schemas.Origin{Source: origin.Source, Attempt: origin.Attempt}]
	if p == nil || origin.Sequence != p.next || origin.Sequence >= p.seal.Messages {
		return false
	}
	p.next += int64(p.seal.Partitions)
	p.count++
	return true
}

// IncompleteError says that a span lacks messages of a source of the plan.
type IncompleteError struct {
	Source     string // ID of the source
	Partition  int    // of the examples topic
	Have, Want int64  // messages of the source in that partition
}

// Error returns what is missing and why that may be.
func (e *IncompleteError) Error() string {
	return fmt.Sprintf("source %s has %d of %d messages in partition %d: the others were deleted, or the topic was created again",
		schemas.Digest(e.Source).Short(), e.Have, e.Want, e.Partition)
}

// Complete returns an *IncompleteError if a message of one of the plan's sources
// was not seen. Call it at the end of the span.
func (r *Replay) Complete() error {
	for _, p := range r.sources {
		if want := p.want(r.partition); p.count != want {
			return &IncompleteError{p.seal.ID, r.partition, p.count, want}
		}
	}
	return nil
}

// want is how many messages of the source the partition must have: those with
// sequence mod Partitions = partition.
func (p *position) want(partition int) int64 {
	n, parts := p.seal.Messages, int64(p.seal.Partitions)
	if int64(partition) >= parts || n <= int64(partition) {
		return 0
	}
	return (n-int64(partition)-1)/parts + 1
}
