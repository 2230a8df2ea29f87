package solver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// failureError means that a worker can't make a visit, and no other worker has made it.
type failureError struct{ schemas.Failure }

// Error returns the worker's reason.
func (e *failureError) Error() string { return e.Reason }

// fail records a failure. It is effective while its visit is due. A failure because of expired weights concerns the due visit, which its
// worker can't determine. A failure of a later visit is kept, since the weights before that visit, on another topic, may arrive later. A
// failure of an earlier visit is ignored: its worker is out of date.
func (s *Solver) fail(failure *schemas.Failure) {
	head := s.chain.Head()
	if failure.Expired {
		failure.Parent = head
	}
	if failure.Parent != head && s.chain.Has(failure.Parent) {
		return
	}
	for _, share := range failure.Partitions {
		s.failures[share] = failure
	}
}

// see records the last message of the run from a partition of the statistics topic.
func (s *Solver) see(partition int, m protocol.Message) {
	s.read[partition] = protocol.MarkOf(partition, m)
}

// readMissed rereads the run's statistics if they may have missing records: a record was dropped as incomplete or damaged,
// or the last message is no longer at its offset, so that offsets already read may have other messages. Workers do not
// repeat records that are on the topic.
func (s *Solver) readMissed(ctx context.Context) error {
	topic := s.Topics.Statistics
	for partition, last := range s.read {
		first, end, err := s.Log.Bounds(ctx, topic, partition)
		if err != nil {
			return err
		}
		found, err := protocol.Still(ctx, s.Log, topic, coverage.Span{Partition: partition, From: first, To: end}, last)
		if err != nil {
			return err
		}
		s.missed = s.missed || found != protocol.FoundSame
	}
	if !s.missed {
		return nil
	}
	s.missed = false
	clear(s.read)
	for partition, from := range s.plan.Since.Statistics {
		for m, err := range s.Remaining(ctx, topic, partition, from, math.MaxInt64) {
			if errors.As(err, new(*kafkalog.DeletedError)) {
				break // the subscription handles deletions
			}
			if err != nil {
				return err
			}
			if m.Run() != s.run {
				continue
			}
			s.see(partition, m)
			if err := s.collect(m.Message); errors.As(err, new(*wire.EvictedError)) { // the others are already recorded
				s.missed = true
			}
		}
	}
	return nil
}

// collectOrSkip adds a message of the run's statistics, or records why it is skipped.
func (s *Solver) collectOrSkip(m wire.Message) {
	if err := s.collect(m); err != nil {
		s.missed = true
		event.Skip(s.rec, "statistics", err)
	}
}

// collect adds a message of the run's statistics. It drops duplicates, and records that are no longer needed.
func (s *Solver) collect(m wire.Message) error {
	if m.Kind() == schemas.KindFailure {
		failure, err := schemas.DecodeJSON[schemas.Failure](m)
		if err == nil {
			s.fail(failure)
		}
		return err
	}
	if m.Kind() == schemas.KindClaim {
		s.claimed = true
		return nil
	}
	id, err := wire.IdentityOf(m)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(s.sharesOf(id.Stage), func(share schemas.Share) bool { return share.First == id.Partition })
	if id.Stage < s.inbox.stage || id.Stage >= len(s.plan.Stages) || !known {
		return nil // of a solved stage, or of a stage or share outside the plan
	}
	if id.Kind != statistics.KindSeal && s.isAccepted(id.Stage) {
		return nil // no longer needed
	}
	if digest, twice := s.inbox.digests[id]; twice {
		// Two workers may seal the same scores at different offsets.
		if digest != m.Digest() && id.Kind != statistics.KindSeal {
			return fmt.Errorf("another %v with other content", id)
		}
		return nil
	}
	return s.inbox.collect(id, m, s.Memory)
}

// isAccepted reports whether the final weights of a stage, or the survey's result, are accepted. From then on, only the
// stage's seals are needed.
func (s *Solver) isAccepted(stage int) bool {
	if s.plan.Chain != nil {
		return false // the state for the next run of the chain is a fold over all statistics
	}
	if stage == wire.Survey {
		return s.chain.Survey != nil
	}
	final, _ := s.chain.Final(stage)
	return final != nil
}

// inbox buffers statistics until they are reduced: the first complete record of each identity. Create inboxes with [newInbox].
type inbox struct {
	stage   int // current stage: records of earlier stages are not needed
	records map[wire.Identity]*wire.Record[float64]
	digests map[wire.Identity]wire.Digest // of all records that have arrived, reduced or not
	chunks  statistics.Collector
}

// newInbox returns an empty inbox.
func newInbox() inbox {
	return inbox{records: map[wire.Identity]*wire.Record[float64]{}, digests: map[wire.Identity]wire.Digest{}}
}

// Begin sets the current stage, and drops records of earlier stages.
func (b *inbox) Begin(stage int) {
	b.stage = stage
	maps.DeleteFunc(b.records, func(id wire.Identity, _ *wire.Record[float64]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.digests, func(id wire.Identity, _ wire.Digest) bool { return id.Stage < stage })
}

// has reports whether a record has arrived, reduced or not.
func (b *inbox) has(id wire.Identity) bool {
	_, come := b.digests[id]
	return come
}

// holds reports whether a record is buffered.
func (b *inbox) holds(id wire.Identity) bool { return b.records[id] != nil }

// take removes and returns a buffered record; nil if there is none.
func (b *inbox) take(id wire.Identity) *wire.Record[float64] {
	r := b.records[id]
	delete(b.records, id)
	return r
}

// collect adds a message to its record. A record has arrived when it is complete.
func (b *inbox) collect(id wire.Identity, m wire.Message, mem memory.Allocator) error {
	r, err := b.chunks.Add(m, mem)
	if err != nil || r == nil {
		return err
	}
	b.records[id], b.digests[id] = r, m.Digest()
	return nil
}
