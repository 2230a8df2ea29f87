package solver

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// inbox is the statistics that have come and are not reduced yet: of each identity the first complete record. It is made by
// newInbox.
type inbox struct {
	stage   int // that is solved: nobody asks for records of stages before it
	doubles map[schemas.Identity]*schemas.Record[float64]
	singles map[schemas.Identity]*schemas.Record[float32] // Gram matrices of blocks, and samples
	digests map[schemas.Identity]schemas.Digest           // of all that have come, reduced or not
	latest  map[int]schemas.Identity                      // by partition, of the last visit that came

	doubleChunks schemas.Collector[float64]
	singleChunks schemas.Collector[float32]
}

func newInbox() inbox {
	return inbox{
		doubles: map[schemas.Identity]*schemas.Record[float64]{}, singles: map[schemas.Identity]*schemas.Record[float32]{},
		digests: map[schemas.Identity]schemas.Digest{}, latest: map[int]schemas.Identity{},
	}
}

// begin drops what is kept of stages before one.
func (b *inbox) begin(stage int) {
	b.stage = stage
	maps.DeleteFunc(b.doubles, func(id schemas.Identity, _ *schemas.Record[float64]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.singles, func(id schemas.Identity, _ *schemas.Record[float32]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.digests, func(id schemas.Identity, _ schemas.Digest) bool { return id.Stage < stage })
}

// has reports whether a record has come that is not reduced yet.
func (b *inbox) has(id schemas.Identity) bool { return b.doubles[id] != nil || b.singles[id] != nil }

// double and single hand over a record that has come: the inbox does not keep it.
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
	b.digests[id] = schemas.Digest(m.Get("digest"))
	b.noteVisit(id)
	return nil
}

// isSingle reports whether a record of the statistics is in single precision: samples, and the Gram matrices of blocks, which
// workers sum in a stage's first visit. The Gram matrices of the survey and of calibrations are in double precision.
func isSingle(id schemas.Identity) bool {
	return id.Kind == schemas.KindSample || id.Kind == schemas.KindGram && id.Stage != schemas.Survey && id.Visit == 0
}

// noteVisit notes how far a partition's worker has come: a record that should have come before, and has not, never will.
func (b *inbox) noteVisit(id schemas.Identity) {
	if last, any := b.latest[id.Partition]; id.Kind == schemas.KindVisit && (!any || last.Before(id)) {
		b.latest[id.Partition] = id
	}
}

// FailureError is a failure that a worker has reported.
type FailureError struct{ schemas.Failure }

func (e *FailureError) Error() string { return e.Reason }

// take adds a message of the run's statistics. It drops records that come twice, and those that nobody asks for any more. The
// error is a *FailureError.
func (s *Solver) take(m schemas.Message) error {
	if m.Kind() == schemas.KindFailure {
		failure, err := schemas.DecodeJSON[schemas.Failure](m)
		if err != nil {
			s.passOver(err)
			return nil
		}
		return &FailureError{*failure}
	}
	id, err := schemas.IdentityOf(m)
	if err != nil {
		s.passOver(err)
		return nil
	}
	if id.Stage < s.inbox.stage || id.Stage >= len(s.plan.Stages) || !slices.ContainsFunc(s.plan.Spans, func(span schemas.Span) bool { return span.Partition == id.Partition }) {
		return nil // of a stage that is solved, or of none that the plan has
	}
	if id.Kind != schemas.KindSeal && s.isAccepted(id.Stage) {
		s.inbox.noteVisit(id)
		return nil // nobody will ask for it
	}
	if digest, twice := s.inbox.digests[id]; twice {
		// Seals of the same scores may have other offsets.
		if digest != schemas.Digest(m.Get("digest")) && id.Kind != schemas.KindSeal {
			s.passOver(fmt.Errorf("another %v with other content", id))
		}
		return nil
	}
	if err := s.inbox.collect(s.Codec, id, m); err != nil {
		s.passOver(err)
	}
	return nil
}

func (s *Solver) passOver(err error) { event.PassOver(s.rec, "statistics", err) }

// isAccepted reports whether the final weights of a stage, or the survey's result, are accepted: then only its seals matter.
func (s *Solver) isAccepted(stage int) bool {
	if stage == schemas.Survey {
		return s.chain.Survey != nil
	}
	final, _ := s.chain.Final(stage)
	return final != nil
}
