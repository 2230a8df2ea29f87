package solver

import (
	"fmt"
	"maps"
	"slices"

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
	latest  map[int]schemas.Identity                      // for each partition, the latest visit that has come

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

// noteVisit notes the latest visit of a partition. Records that belong before it and have not come never will.
func (b *inbox) noteVisit(id schemas.Identity) {
	if last, any := b.latest[id.Partition]; id.Kind == schemas.KindVisit && (!any || last.Before(id)) {
		b.latest[id.Partition] = id
	}
}

// FailureError says that a worker can't make a visit, and why, and that no other worker has made it.
type FailureError struct{ schemas.Failure }

// Error returns the worker's reason.
func (e *FailureError) Error() string { return e.Reason }

// take adds a message of the run's statistics. It drops repetitions, and records that are not needed any more.
func (s *Solver) take(m schemas.Message) {
	if m.Kind() == schemas.KindFailure {
		failure, err := schemas.DecodeJSON[schemas.Failure](m)
		if err != nil {
			s.skip(err)
			return
		}
		if failure.Parent == s.chain.Head() { // otherwise it is of a worker that does not know what is due
			for _, partition := range failure.Partitions {
				s.failures[partition] = failure
			}
		}
		return
	}
	if m.Kind() == schemas.KindClaim {
		s.claims++
		return
	}
	id, err := schemas.IdentityOf(m)
	if err != nil {
		s.skip(err)
		return
	}
	if id.Stage < s.inbox.stage || id.Stage >= len(s.plan.Stages) || !slices.ContainsFunc(s.visited, func(span schemas.Span) bool { return span.Partition == id.Partition }) {
		return // of a stage that is solved, or of a stage or partition that the plan does not have
	}
	if id.Kind != schemas.KindSeal && s.isAccepted(id.Stage) {
		s.inbox.noteVisit(id)
		return // it is not needed any more
	}
	if digest, twice := s.inbox.digests[id]; twice {
		// Two workers may seal the same scores at different offsets.
		if digest != m.Digest() && id.Kind != schemas.KindSeal {
			s.skip(fmt.Errorf("another %v with other content", id))
		}
		return
	}
	if err := s.inbox.collect(s.Codec, id, m); err != nil {
		s.skip(err)
	}
}

// skip records that a message of the statistics topic is skipped, and why.
func (s *Solver) skip(err error) { event.Skip(s.rec, "statistics", err) }

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
