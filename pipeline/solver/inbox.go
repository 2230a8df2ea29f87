package solver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// inbox is the statistics that have come and are not reduced yet: of each identity the first complete record. newInbox makes
// inboxes.
type inbox struct {
	stage   int // the stage that is solved: records of earlier stages are not needed
	doubles map[schemas.Identity]*schemas.Record[float64]
	singles map[schemas.Identity]*schemas.Record[float32] // see isSingle
	digests map[schemas.Identity]schemas.Digest           // of all records that have come, reduced or not
	latest  map[int]schemas.Identity                      // for each partition, the latest visit that has come, or the seal of a later stage

	doubleChunks schemas.Collector[float64]
	singleChunks schemas.Collector[float32]
}

func newInbox() inbox {
	return inbox{
		doubles: map[schemas.Identity]*schemas.Record[float64]{}, singles: map[schemas.Identity]*schemas.Record[float32]{},
		digests: map[schemas.Identity]schemas.Digest{}, latest: map[int]schemas.Identity{},
	}
}

// begin says that a stage is solved now, and drops what belongs to earlier stages.
func (b *inbox) begin(stage int) {
	b.stage = stage
	maps.DeleteFunc(b.doubles, func(id schemas.Identity, _ *schemas.Record[float64]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.singles, func(id schemas.Identity, _ *schemas.Record[float32]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.digests, func(id schemas.Identity, _ schemas.Digest) bool { return id.Stage < stage })
}

// has reports whether a record has come and is not reduced yet.
func (b *inbox) has(id schemas.Identity) bool { return b.doubles[id] != nil || b.singles[id] != nil }

// double and single return a record that has come, and remove it from the inbox.
func (b *inbox) double(id schemas.Identity) *schemas.Record[float64] {
	r := b.doubles[id]
	delete(b.doubles, id)
	return r
}

func (b *inbox) single(id schemas.Identity) *schemas.Record[float32] {
	r := b.singles[id]
	delete(b.singles, id)
	return r
}

// collect adds a message to those of its record. A complete record has come. A record in the wrong precision never comes, as
// gathering asks for each identity in one precision only.
func (b *inbox) collect(codec run.Codec, id schemas.Identity, m schemas.Message) error {
	if single := isSingle(id); schemas.IsSingle(m) != single {
		return fmt.Errorf("%w: the %v has the wrong precision", schemas.ErrDamaged, id)
	} else if single {
		r, err := codec.CollectSingle(&b.singleChunks, m)
		if err != nil || r == nil {
			return err
		}
		b.singles[id] = r
	} else {
		r, err := codec.CollectDouble(&b.doubleChunks, m)
		if err != nil || r == nil {
			return err
		}
		b.doubles[id] = r
	}
	b.digests[id] = m.Digest()
	b.noteVisit(id)
	return nil
}

// isSingle reports whether a record of the statistics is in single precision: samples, and the Gram matrices of blocks, which
// workers sum in a stage's first visit. The Gram matrices of the survey and of calibrations are in double precision.
func isSingle(id schemas.Identity) bool {
	return id.Kind == schemas.KindSample || id.Kind == schemas.KindGram && id.Stage != schemas.Survey && id.Visit == 0
}

// noteVisit notes the latest visit of a partition, or the seal of a later stage, as the visits may be gone. Records that belong before it and have not come never will.
func (b *inbox) noteVisit(id schemas.Identity) {
	last, any := b.latest[id.Partition]
	if id.Kind == schemas.KindVisit && (!any || last.Before(id)) || id.Kind == schemas.KindSeal && (!any || last.Stage < id.Stage) {
		b.latest[id.Partition] = id
	}
}

// FailureError says that a worker can't make a visit, and why, and that no other worker has made it.
type FailureError struct{ schemas.Failure }

// Error returns the worker's reason.
func (e *FailureError) Error() string { return e.Reason }

// fail notes a failure. It counts if it is of the visit that is due, or of a worker that can't know which is due, as the weights have expired. It waits
// if the weights of its visit have not come: they are on another topic. Otherwise it is of a worker that does not know yet what is due.
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
func (s *Solver) see(partition int, m run.Message) {
	last := run.NewWritten(schemas.Identity{}, s.Topics.Statistics, partition)
	last.Add(m)
	s.read[partition] = last
}

// readMissed reads the run's statistics again if they may have what has not come: a record was dropped as incomplete or damaged, or the message
// that has come last is not on its offset any more, so that others may have written to offsets that were read already. No worker writes again what
// the topic has.
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
		err := s.Remaining(ctx, s.Topics.Statistics, partition, from, math.MaxInt64, func(m run.Message) error {
			if m.Run() != s.run {
				return nil
			}
			s.see(partition, m)
			if err := s.collect(m.Message); errors.As(err, new(*schemas.EvictedError)) { // others are told already
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
func (s *Solver) take(m schemas.Message) {
	if err := s.collect(m); err != nil {
		s.missed = true
		event.Skip(s.rec, "statistics", err)
	}
}

// collect adds a message of the run's statistics. It drops repetitions, and records that are not needed any more.
func (s *Solver) collect(m schemas.Message) error {
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
	id, err := schemas.IdentityOf(m)
	if err != nil {
		return err
	}
	if id.Stage < s.inbox.stage || id.Stage >= len(s.plan.Stages) || !slices.ContainsFunc(s.visited, func(span schemas.Span) bool { return span.Partition == id.Partition }) {
		return nil // of a stage that is solved, or of a stage or partition that the plan does not have
	}
	if id.Kind != schemas.KindSeal && s.isAccepted(id.Stage) {
		s.inbox.noteVisit(id)
		return nil // it is not needed any more
	}
	if digest, twice := s.inbox.digests[id]; twice {
		// Two workers may seal the same scores at different offsets.
		if digest != m.Digest() && id.Kind != schemas.KindSeal {
			return fmt.Errorf("another %v with other content", id)
		}
		return nil
	}
	return s.inbox.collect(s.Codec, id, m)
}

// isAccepted reports whether the final weights of a stage, or the survey's result, are accepted. Then only the stage's seals are
// still needed.
func (s *Solver) isAccepted(stage int) bool {
	if s.plan.Chain != nil {
		return false // what the next run of the chain goes on from is a fold over all statistics
	}
	if stage == schemas.Survey {
		return s.chain.Survey != nil
	}
	final, _ := s.chain.Final(stage)
	return final != nil
}
