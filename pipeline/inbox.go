package pipeline

import (
	"context"
	"fmt"
	"sync"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
)

// FailureError is a failure that a worker put on the statistics topic.
type FailureError struct{ schemas.Failure }

func (e *FailureError) Error() string { return e.Reason }

// follow starts a goroutine for each partition of statistics, from where the
// run's own begin.
func (s *solver) follow(ctx context.Context, followers *sync.WaitGroup) error {
	partitions, err := s.log.Partitions(ctx, s.statistics)
	if err != nil {
		return err
	}
	for p := range partitions {
		// If retention has deleted any of the run's own, it ends: what is missing
		// might be waited for for ever.
		from := int64(0)
		if p < len(s.plan.Since.Statistics) {
			from = s.plan.Since.Statistics[p]
		}
		follower := s.log.Follow(s.statistics, p, from)
		followers.Go(func() {
			defer follower.Close()
			for {
				m, err := follower.Next(ctx)
				out := message(m)
				if err != nil {
					reason := fmt.Sprintf("follow %s[%d]: %v", s.statistics, p, err)
					out = (&schemas.Failure{Run: s.run, Reason: reason}).Message()
				}
				if out.Get("run") != s.run {
					continue
				}
				select {
				case s.inbox <- out:
				case <-ctx.Done():
				}
				if err != nil || ctx.Err() != nil {
					return
				}
			}
		})
	}
	return nil
}

// receive takes one message of the run's statistics. Records that come twice,
// and parts of records that nobody asked for any more, are dropped.
func (s *solver) receive(ctx context.Context) error {
	var m schemas.Message
	select {
	case m = <-s.inbox:
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.Kind() == schemas.KindFailure {
		failure, err := schemas.DecodeJSON[schemas.Failure](m)
		if err != nil {
			return err
		}
		return &FailureError{*failure}
	}
	id, err := schemas.IdentityOf(m)
	if err != nil {
		s.drop(err)
		return nil
	}
	if id.Stage < s.current && id.Kind != schemas.KindSeal {
		return nil // of a stage that is solved
	}
	if digest, twice := s.digests[id]; twice {
		// seals of the same scores may be of other offsets
		if digest != schemas.Digest(m.Get("digest")) && id.Kind != schemas.KindSeal {
			s.drop(fmt.Errorf("another %v with other content", id))
		}
		return nil
	}
	if m.Kind() == schemas.KindSample {
		r, err := s.samples.Add(m, s.mem)
		if err != nil {
			s.drop(err)
		} else if r != nil {
			s.sampled[id], s.digests[id] = r, schemas.Digest(m.Get("digest"))
		}
		return nil
	}
	r, err := s.sum(m)
	if err != nil {
		s.drop(err)
	} else if r != nil {
		s.records[id], s.digests[id] = r, schemas.Digest(m.Get("digest"))
		if last, any := s.latest[id.Partition]; id.Kind == schemas.KindVisit && (!any || last.Before(id)) {
			s.latest[id.Partition] = id
		}
	}
	return nil
}

// sum adds a message to those of its record of sums, and answers with the
// record when it is complete.
func (s *solver) sum(m schemas.Message) (*schemas.Statistics, error) {
	if m.Kind() != schemas.KindGram || !schemas.IsSingle(m) {
		return s.sums.Add(m, s.mem)
	}
	r, err := s.grams.Add(m, s.mem)
	if err != nil || r == nil {
		return nil, err
	}
	return &schemas.Statistics{Identity: r.Identity, Notes: r.Notes, Tensors: schemas.Widen(r.Tensors)}, nil
}

// GoneError says that statistics that were there are not any more: those of a
// later visit, which follow them on the log, are.
type GoneError struct{ schemas.Identity }

func (e *GoneError) Error() string {
	return fmt.Sprintf("the %v is gone: it was deleted under the run", e.Identity)
}

func (s *solver) drop(err error) {
	s.rec.Record(Noticed{fmt.Sprintf("a message of the statistics topic is passed over: %v", err)})
}

// identity of a partition's record for a visit.
func (s *solver) identity(kind schemas.Kind, v visit, partition int) schemas.Identity {
	return schemas.Identity{Kind: kind, Run: s.run, Stage: v.stage, Visit: v.number, Partition: partition, Parent: v.parent}
}

// gather waits until every span of the plan is covered by records of these
// kinds, and reduces them in the order of partitions.
func (s *solver) gather(ctx context.Context, v visit, kinds ...schemas.Kind) (*accumulate.Sum, error) {
	var parts []*accumulate.Sum
	for _, span := range s.plan.Spans {
		var part *accumulate.Sum
		for _, kind := range kinds {
			r, err := s.wait(ctx, s.identity(kind, v, span.Partition))
			if err != nil {
				return nil, err
			}
			if part != nil {
				part = accumulate.NewSum(part.Coverage, append(part.Tensors(), r.Tensors...))
				continue
			}
			covered, err := coverageOf(r.Note(noteCovered))
			if err != nil {
				return nil, err
			}
			if len(covered.Spans) != 1 || covered.Spans[0] != span {
				return nil, fmt.Errorf("%v covers %v, expected %v", r.Identity, covered.Spans, span)
			}
			part = accumulate.NewSum(covered, r.Tensors)
		}
		parts = append(parts, part)
	}
	sum, err := accumulate.Reduce(parts)
	if err != nil {
		return nil, fmt.Errorf("reduce visit %d: %w", v.number, err)
	}
	return sum, nil
}

// wait for a record, which is handed over: the solver keeps nothing.
func (s *solver) wait(ctx context.Context, id schemas.Identity) (*schemas.Statistics, error) {
	for s.records[id] == nil {
		if last, any := s.latest[id.Partition]; any && id.Kind != schemas.KindSeal && id.Before(last) {
			return nil, &GoneError{id}
		}
		if err := s.receive(ctx); err != nil {
			return nil, err
		}
	}
	r := s.records[id]
	delete(s.records, id)
	return r, nil
}

func (s *solver) waitSample(ctx context.Context, id schemas.Identity) (*accumulate.Sample, error) {
	for s.sampled[id] == nil {
		if err := s.receive(ctx); err != nil {
			return nil, err
		}
	}
	r := s.sampled[id]
	delete(s.sampled, id)
	return accumulate.SampleOf(r.Tensors)
}
