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
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// failureError means that a worker can't make a visit, and no other worker has made it.
type failureError struct{ schemas.Failure }

// Error returns the worker's reason.
func (e *failureError) Error() string { return e.Reason }

// fail records a failure. It is effective if it concerns the due visit, or comes from a worker that can't know the due
// visit because the weights have expired. It is deferred if the weights of its visit, which are on another topic, have not
// arrived. Otherwise the worker is out of date, and the failure is ignored.
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

// see records the last message of the run from a partition of the statistics topic.
func (s *Solver) see(partition int, m protocol.Message) {
	last := protocol.NewWritten(wire.Identity{}, s.Topics.Statistics, partition)
	last.Add(m)
	s.read[partition] = last
}

// readMissed rereads the run's statistics if they may have missing records: a record was dropped as incomplete or damaged,
// or the last message is no longer at its offset, so that offsets already read may have other messages. Workers do not
// write again what is on the topic.
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
			if err := s.collect(m.Message); errors.As(err, new(*wire.EvictedError)) { // the others are already recorded
				s.missed = true
			}
			return nil
		})
		if err != nil && !errors.As(err, new(*kafkalog.DeletedError)) { // the subscription handles deletions
			return err
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
		s.claims++
		return nil
	}
	id, err := wire.IdentityOf(m)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(s.sharesOf(id.Stage), func(share schemas.Share) bool { return share.First == id.Partition })
	if id.Stage < s.inbox.solves() || id.Stage >= len(s.plan.Stages) || !known {
		return nil // of a solved stage, or of a stage or share outside the plan
	}
	if id.Kind != statistics.KindSeal && s.isAccepted(id.Stage) {
		s.inbox.noteVisit(id)
		return nil // no longer needed
	}
	if digest, twice := s.inbox.digest(id); twice {
		// Two workers may seal the same scores at different offsets.
		if digest != m.Digest() && id.Kind != statistics.KindSeal {
			return fmt.Errorf("another %v with other content", id)
		}
		return nil
	}
	return s.inbox.collect(s.Codec, id, m)
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
