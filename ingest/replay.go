package ingest

import (
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
)

// Replay tells which messages of one partition's span count in a run: each
// sequence of a sealed source once, and the messages of other producers if the
// plan wants them. It sees the span's messages in order.
type Replay struct {
	partition int
	foreign   bool
	sources   map[string]*position
}

// position in a source's messages in this partition.
type position struct {
	seal  schemas.SourceSeal
	next  int64 // least sequence not seen
	count int64
}

// NewReplay starts at the beginning of a plan's span.
func NewReplay(plan *schemas.Plan, partition int) *Replay {
	r := &Replay{partition: partition, foreign: plan.Foreign, sources: map[string]*position{}}
	for _, seal := range plan.Sources {
		r.sources[seal.Header()] = &position{seal: seal, next: int64(partition)}
	}
	return r
}

// Accept tells whether the message counts. What is not sealed, repeated, or
// not asked for does not.
func (r *Replay) Accept(m schemas.Message) bool {
	source := m.Get("source")
	if source == "" {
		return r.foreign
	}
	p := r.sources[source]
	if p == nil {
		return false
	}
	sequence, err := strconv.ParseInt(m.Get("sequence"), 10, 64)
	if err != nil || sequence != p.next || sequence >= p.seal.Messages {
		return false
	}
	p.next += int64(p.seal.Partitions)
	p.count++
	return true
}

// IncompleteError says that the span lacks messages of a sealed source.
type IncompleteError struct {
	Source     string
	Partition  int
	Have, Want int64
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("source %s has %d of %d messages in partition %d: they were deleted, or the topic was made anew",
		schemas.Digest(e.Source).Short(), e.Have, e.Want, e.Partition)
}

// Complete checks, at the end of the span, that every message of the sealed
// sources was there.
func (r *Replay) Complete() error {
	for _, p := range r.sources {
		if want := p.want(r.partition); p.count != want {
			return &IncompleteError{p.seal.ID, r.partition, p.count, want}
		}
	}
	return nil
}

// want is how many sequences below Messages are partition modulo Partitions.
func (p *position) want(partition int) int64 {
	n, parts := p.seal.Messages, int64(p.seal.Partitions)
	if int64(partition) >= parts || n <= int64(partition) {
		return 0
	}
	return (n-int64(partition)-1)/parts + 1
}
