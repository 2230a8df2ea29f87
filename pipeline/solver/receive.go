package solver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// FailureError says that a worker can't make a visit, and why, and that no other worker has made it.
type FailureError struct{ schemas.Failure }

// Error returns the worker's reason.
func (e *FailureError) Error() string { return e.Reason }

// fail notes a failure. It counts if it is of the visit that is due, or of a worker that can't know which is due, as
// the weights have expired. It waits if the weights of its visit have not come: they are on another topic. Otherwise it
// is of a worker that does not know yet what is due.
func (s *Solver) fail(failure *schemas.Failure) {
	to := s.early
	switch {
	case failure.Parent == s.chain.Head(), failure.Expired:
		to = s.failures
	case s.chain.Has(failure.Parent):
		return
	}
	for _, partition := range failure.Partitions {
		to[partition] = failure
	}
}

// see notes the message of the run that has come last from a partition of the statistics.
func (s *Solver) see(partition int, m protocol.Message) {
	last := protocol.NewWritten(wire.Identity{}, s.Topics.Statistics, partition)
	last.Add(m)
	s.read[partition] = last
}

// readMissed reads the run's statistics again if they may have what has not come: a record was dropped as incomplete or
// damaged, or the message that has come last is not on its offset any more, so that others may have written to offsets
// that were read already. No worker writes again what the topic has.
func (s *Solver) readMissed(ctx context.Context) error {
	for _, last := range s.read {
		there, err := s.Holds(ctx, last)
		if err != nil {
			return err
		}
		s.missed = s.missed || !there
	}
	if !s.missed {
		return nil
	}
	s.missed = false
	clear(s.read)
	for partition, from := range s.plan.Since.Statistics {
		err := s.Remaining(ctx, s.Topics.Statistics, partition, from, math.MaxInt64, func(m protocol.Message) error {
			if m.Run() != s.run {
				return nil
			}
			s.see(partition, m)
			if err := s.collect(m.Message); errors.As(err, new(*wire.EvictedError)) { // others are told already
				s.missed = true
			}
			return nil
		})
		if err != nil && !errors.As(err, new(*kafkalog.DeletedError)) { // the subscription finds out what that means
			return err
		}
	}
	return nil
}

// take adds a message of the run's statistics, and records why if it skips it.
func (s *Solver) take(m wire.Message) {
	if err := s.collect(m); err != nil {
		s.missed = true
		event.Skip(s.rec, "statistics", err)
	}
}

// collect adds a message of the run's statistics. It drops repetitions, and records that are not needed any more.
func (s *Solver) collect(m wire.Message) error {
	if m.Kind() == schemas.KindFailure {
		failure, err := schemas.DecodeJSON[schemas.Failure](m)
		if err == nil {
			s.fail(failure)
		}
		return err
	}
	if m.Kind() == schemas.KindClaim {
		s.claims++
		return nil
	}
	id, err := wire.IdentityOf(m)
	if err != nil {
		return err
	}
	partitions := s.partitionsOf(id)
	if id.Stage < s.inbox.Solves() || id.Stage >= len(s.plan.Stages) || partitions == nil {
		return nil // of a stage that is solved, or of a stage or partitions that the plan does not have
	}
	if id.Kind != statistics.KindSeal && s.isAccepted(id.Stage) || s.isMerged(id) {
		s.inbox.NoteVisit(id, partitions)
		return nil // it is not needed any more
	}
	if digest, twice := s.inbox.Digest(id); twice {
		// Two workers may seal the same scores at different offsets.
		if digest != m.Digest() && id.Kind != statistics.KindSeal {
			return fmt.Errorf("another %v with other content", id)
		}
		return nil
	}
	return s.inbox.Collect(s.Codec, id, partitions, m)
}

// partitionsOf returns the partitions that a record is of, those whose earlier records come before it: the others are on other
// partitions of the statistics. It returns nil if the plan does not have them, or does not merge them.
func (s *Solver) partitionsOf(id wire.Identity) (numbers []int) {
	spans, topic := s.spansOf(id.Stage), max(len(s.plan.Since.Statistics), 1)
	from := slices.IndexFunc(spans, func(span coverage.Span) bool { return span.Partition == id.Partition })
	if from < 0 || id.Merged > 0 && !s.plan.Merges(len(spans)).Has(from, id.Merged) {
		return nil
	}
	at := protocol.StatisticsPartition(id.Partition, topic)
	for _, span := range spans[from : from+max(id.Merged, 1)] {
		if protocol.StatisticsPartition(span.Partition, topic) == at {
			numbers = append(numbers, span.Partition)
		}
	}
	return numbers
}

// isAccepted reports whether the final weights of a stage, or the survey's result, are accepted. Then only the stage's seals are
// still needed.
func (s *Solver) isAccepted(stage int) bool {
	if s.plan.Chain != nil {
		return false // what the next run of the chain goes on from is a fold over all statistics
	}
	if stage == wire.Survey {
		return s.chain.Survey != nil
	}
	final, _ := s.chain.Final(stage)
	return final != nil
}
