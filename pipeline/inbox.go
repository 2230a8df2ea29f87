package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
)

// FailureError is a failure that a worker put on the statistics topic.
type FailureError struct{ schemas.Failure }

func (e *FailureError) Error() string { return e.Reason }

// addresses are what a solver follows: the statistics from where the run's own
// begin, the weights from where the chain has been read to, and the plans, for
// somebody may end the run.
func (s *solver) addresses(weights int64) []address {
	list := []address{{s.weights, 0, weights, true}, {s.plans, 0, s.watch, true}}
	for p, from := range s.plan.Since.Statistics {
		// If retention has deleted any of the run's own, it ends: what is missing
		// might be waited for for ever.
		list = append(list, address{s.statistics, p, from, false})
	}
	return list
}

// receive takes one letter, whatever it is about, or is late.
func (s *solver) receive(ctx context.Context, within time.Duration) (late bool, err error) {
	l, late, err := s.mail.Next(ctx, within)
	switch {
	case err != nil || late:
		return late, err
	case l == nil:
		mine, err := owns(s.owner, 0)
		if err == nil && !mine {
			err = errNotOwner
		}
		return false, err
	}
	m := l.Message
	switch {
	case m.Get("run") != s.run:
		return false, nil
	case l.topic == s.statistics:
		return false, s.take(m)
	case l.topic == s.weights:
		_, err := s.chain.add(m)
		return false, err
	case isEndOf(m, s.run):
		return false, errEnded
	}
	return false, nil
}

// take adds a message of the run's statistics. Records that come twice, and
// parts of records that nobody asked for any more, are dropped.
func (s *solver) take(m schemas.Message) error {
	if m.Kind() == schemas.KindFailure {
		failure, err := schemas.DecodeJSON[schemas.Failure](m)
		if err != nil {
			s.drop(err)
			return nil
		}
		return &FailureError{*failure}
	}
	id, err := schemas.IdentityOf(m)
	if err != nil {
		s.drop(err)
		return nil
	}
	if id.Stage < s.current || id.Stage >= len(s.plan.Stages) || !slices.ContainsFunc(s.plan.Spans, func(span schemas.Span) bool { return span.Partition == id.Partition }) {
		return nil // of a stage that is solved, or of nothing that is
	}
	if id.Kind != schemas.KindSeal && s.accepted(id.Stage) {
		s.passes(id)
		return nil // nobody will ask for it
	}
	if digest, twice := s.digests[id]; twice {
		// seals of the same scores may be of other offsets
		if digest != schemas.Digest(m.Get("digest")) && id.Kind != schemas.KindSeal {
			s.drop(fmt.Errorf("another %v with other content", id))
		}
		return nil
	}
	if m.Kind() == schemas.KindSample {
		r, err := s.codec.collectSingle(&s.samples, m)
		if err != nil {
			s.drop(err)
		} else if r != nil {
			s.sampled[id], s.digests[id] = r, schemas.Digest(m.Get("digest"))
		}
		return nil
	}
	r, err := s.complete(m)
	if err != nil {
		s.drop(err)
	} else if r != nil {
		s.records[id], s.digests[id] = r, schemas.Digest(m.Get("digest"))
		s.passes(id)
	}
	return nil
}

// passes notes how far a partition's worker has come: what was to come before
// that, and has not, never will.
func (s *solver) passes(id schemas.Identity) {
	if last, any := s.latest[id.Partition]; id.Kind == schemas.KindVisit && (!any || last.Before(id)) {
		s.latest[id.Partition] = id
	}
}

// accepted tells whether the weights that a stage is to have are: then only its
// seals are of interest.
func (s *solver) accepted(stage int) bool {
	if stage == schemas.Survey {
		return len(s.chain.accepted) > 0
	}
	final, _ := s.chain.final(stage)
	return final != nil
}

// errAccepted says that another solver was faster.
var errAccepted = errors.New("the weights are accepted")

// complete adds a message to those of its record of sums, and answers with the
// record when it is.
func (s *solver) complete(m schemas.Message) (*schemas.Statistics, error) {
	if m.Kind() != schemas.KindGram || !schemas.IsSingle(m) {
		return s.codec.collectDouble(&s.doubles, m)
	}
	r, err := s.codec.collectSingle(&s.singles, m)
	if err != nil || r == nil {
		return nil, err
	}
	return &schemas.Statistics{Identity: r.Identity, Notes: r.Notes, Tensors: schemas.Widen(r.Tensors, s.buffers.Get)}, nil
}

// GoneError says that statistics that were there are not any more: those of a
// later visit, which follow them on the log, are.
type GoneError struct{ schemas.Identity }

func (e *GoneError) Error() string {
	return fmt.Sprintf("the %v is gone: it was deleted under the run", e.Identity)
}

func (s *solver) drop(err error) {
	passOver(s.rec, "statistics", err)
}

// identity of a partition's record for a visit.
func (s *solver) identity(kind schemas.Kind, v visit, partition int) schemas.Identity {
	return schemas.Identity{Kind: kind, Run: s.run, Stage: v.stage, Visit: v.number, Partition: partition, Parent: v.parent}
}

// gathering reduces a visit's records of some kinds, in the order of partitions
// and each partition as soon as it can be: of a thousand partitions' those are
// there at once that have come before the first of their group.
type gathering struct {
	visit
	kinds []schemas.Kind
	take  func(schemas.Span) (*accumulate.Sum, error) // makes a sum of a span's records
	all   *accumulate.Reduction
}

func (s *solver) gathering(v visit, take func(schemas.Span) (*accumulate.Sum, error), kinds ...schemas.Kind) *gathering {
	all := accumulate.NewReduction(len(s.plan.Spans))
	all.Buffers = &s.buffers
	return &gathering{v, kinds, take, all}
}

// sums is the gathering of a visit's sums, which the first of the kinds has with
// what they cover.
func (s *solver) sums(v visit, kinds ...schemas.Kind) *gathering {
	return s.gathering(v, func(span schemas.Span) (*accumulate.Sum, error) {
		var part *accumulate.Sum
		for _, kind := range kinds {
			r := s.record(s.identity(kind, v, span.Partition))
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
		return part, nil
	}, kinds...)
}

// gather waits until every span of the plan is covered by a gathering's records.
// Others take what comes meanwhile, so that no record waits for another kind's.
func (s *solver) gather(ctx context.Context, of *gathering, others ...*gathering) (*accumulate.Sum, error) {
	wait := patience
	for deadline := time.Now().Add(wait); ; {
		for _, other := range others {
			if _, err := s.addTo(other); err != nil {
				return nil, fmt.Errorf("reduce visit %d: %w", other.number, err)
			}
		}
		missing, err := s.addTo(of)
		if err != nil {
			return nil, fmt.Errorf("reduce visit %d: %w", of.number, err)
		}
		if missing == nil {
			return of.all.Sum()
		}
		if missing.Kind != schemas.KindSeal && s.accepted(of.stage) {
			return nil, errAccepted
		}
		known := len(s.digests)
		late, err := s.receive(ctx, time.Until(deadline))
		if err != nil {
			return nil, err
		}
		switch {
		case late:
			notice(s.rec, "no worker has sent the %v yet: waiting", *missing)
			wait = min(2*wait, mostPatience)
		case len(s.digests) > known:
			wait = patience
		default:
			continue
		}
		deadline = time.Now().Add(wait)
	}
}

// addTo adds what has come, and answers with the first record that has not.
func (s *solver) addTo(g *gathering) (missing *schemas.Identity, err error) {
	for group := range g.all.Groups() {
		for ordinal, more := g.all.Next(group); more; ordinal, more = g.all.Next(group) {
			span := s.plan.Spans[ordinal]
			lacking, err := s.lacking(g.visit, span.Partition, g.kinds)
			if err != nil {
				return nil, err
			}
			if lacking != nil {
				missing = cmp.Or(missing, lacking)
				break
			}
			part, err := g.take(span)
			if err != nil {
				return nil, err
			}
			if err := g.all.Add(group, part); err != nil {
				return nil, err
			}
		}
	}
	return missing, nil
}

// lacking is the first of these records that has not come, nil if all have; an
// error if it never will.
func (s *solver) lacking(v visit, partition int, kinds []schemas.Kind) (*schemas.Identity, error) {
	for _, kind := range kinds {
		id := s.identity(kind, v, partition)
		if s.records[id] != nil || s.sampled[id] != nil {
			continue
		}
		// A partition is visited for a stage when the one before it is sealed there.
		last, any := s.latest[partition]
		if any && (last.Stage > id.Stage || kind != schemas.KindSeal && id.Before(last)) {
			return nil, &GoneError{id}
		}
		return &id, nil
	}
	return nil, nil
}

// record hands over one that has come: the solver keeps nothing.
func (s *solver) record(id schemas.Identity) *schemas.Statistics {
	r := s.records[id]
	delete(s.records, id)
	return r
}

// forget drops what is kept of stages before one.
func (s *solver) forget(before int) {
	maps.DeleteFunc(s.records, func(id schemas.Identity, _ *schemas.Statistics) bool { return id.Stage < before })
	maps.DeleteFunc(s.sampled, func(id schemas.Identity, _ *schemas.Sample) bool { return id.Stage < before })
	maps.DeleteFunc(s.digests, func(id schemas.Identity, _ schemas.Digest) bool { return id.Stage < before })
}
