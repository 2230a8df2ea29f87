package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
)

// sealStage publishes and seals the residuals after a final stage, for the shares whose residuals are not sealed yet.
func (w *Worker) sealStage(ctx context.Context, stage int) error {
	_, parent := w.chain.Final(stage)
	var open []*visit.Share
	for _, p := range w.shares {
		if seal := w.seals.of(w.first(p), stage); seal == nil || seal.Parent != parent {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return nil
	}
	began := w.Clock.Now()
	if err := w.withScores(ctx, stage, open, func() error { return w.publishStage(ctx, stage, open) }); err != nil {
		return err
	}
	w.rec.Record(event.Sealed{Run: w.ID, Stage: stage, Partitions: visit.Numbers(open), Rows: rows(open), Elapsed: w.Clock.Since(began)})
	if stage == len(w.Plan.Stages)-1 {
		w.commit(open)
	}
	return nil
}

// commit commits the offsets that the partitions of shares had at the start of the run, so that monitoring tools show the lag of
// training. A failure does not affect the run.
func (w *Worker) commit(shares []*visit.Share) {
	ends := map[int]int64{}
	for _, p := range shares {
		for _, part := range p.Parts {
			if !part.Span.Empty() {
				ends[part.Span.Partition] = part.Span.To
			}
		}
	}
	w.owner.Commit(ends, func(err error) {
		if err != nil {
			event.Notice(w.rec, "the offsets that run %s has reached are not committed, so tools show too large a lag: %v", w.ID, err)
		}
	})
}

const (
	// maxPublications is the maximum number of shares whose residuals are written concurrently: each write waits for the
	// brokers.
	maxPublications = 8
	// maxPublicationBytes is the maximum memory in bytes for the scores of their segments, unless there is only one.
	maxPublicationBytes = 256 << 20
)

// publishStage publishes the residuals after a stage for shares whose scores before it are loaded. It seals those of a share when
// the brokers have acknowledged all of them.
func (w *Worker) publishStage(ctx context.Context, stage int, shares []*visit.Share) error {
	current, err := w.stageVisit(ctx, protocol.Visit{Stage: stage})
	if err != nil {
		return err
	}
	_, current.Parent = w.chain.Final(stage)
	attempt, open := w.Fresh(), map[*visit.Share]*openSeal{}
	for _, p := range shares {
		open[p] = w.openSeal(current.Visit, p, attempt)
	}
	outcomes := visit.Outcomes{}
	return w.executor.Run(ctx, &visit.Scan{
		Run: w.Run, Shares: shares, Scores: w.scoresBefore(stage), Extent: all,
		MaxWrites: w.publications(),
		Processor: func() visit.Process {
			p := current.Processor()
			return func(ctx context.Context, l *visit.Load) (*visit.Outcome, error) { return p.Residuals(ctx, l, attempt) }
		},
		Collect: func(at *visit.Load, o *visit.Outcome) (visit.Write, error) {
			p := at.Share
			whole, err := outcomes.Add(at, o, len(p.Segments))
			if err == nil && whole != nil {
				err = whole.Check(w.Run, p, len(p.Segments))
			}
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				if err := w.writeResiduals(ctx, open[p], at.Segment().Span.Partition, o); err != nil {
					return err
				}
				if whole == nil {
					return nil
				}
				return w.seal(ctx, p, open[p], whole.Sum)
			}, nil
		},
	})
}

// openSeal is the seal of residuals that are still being written.
type openSeal struct {
	statistics.Seal
	digesters map[int]*sink.Digester // by partition
}

// openSeal returns the seal of a share without residuals.
func (w *Worker) openSeal(v protocol.Visit, p *visit.Share, attempt string) *openSeal {
	s := &openSeal{Seal: statistics.Seal{Visit: statistics.Visit{Identity: w.identity(statistics.KindSeal, v, p)}, Attempt: attempt},
		digesters: map[int]*sink.Digester{}}
	for _, part := range p.Parts {
		number := part.Span.Partition
		s.Parts = append(s.Parts, statistics.SealedPart{Partition: number, From: -1})
		s.digesters[number] = &sink.Digester{}
	}
	return s
}

// writeResiduals writes the residuals of a segment of a partition, and adds them to the seal.
func (w *Worker) writeResiduals(ctx context.Context, seal *openSeal, number int, o *visit.Outcome) error {
	offset, err := w.Log.Append(ctx, w.Topics.Residuals, number, o.Messages...)
	if err != nil {
		return err
	}
	for _, scored := range o.Scores {
		seal.digesters[number].Add(scored.Offset, scored.Row, scored.Score, scored.Votes)
	}
	for i := range seal.Parts {
		if part := &seal.Parts[i]; part.Partition == number {
			if part.From < 0 {
				part.From = offset
			}
			part.Rows += o.Rows
		}
	}
	return nil
}

// seal publishes the seal of a share's residuals, all of which are acknowledged. sum covers the share.
func (w *Worker) seal(ctx context.Context, p *visit.Share, open *openSeal, sum *accumulate.Sum) error {
	open.Covered, open.Sums = sum.Coverage.Summary(), sum.Tensors()
	for i := range open.Parts {
		part := &open.Parts[i]
		_, end, err := w.Log.Bounds(ctx, w.Topics.Residuals, part.Partition)
		if err != nil {
			return err
		}
		if part.From < 0 { // without rows there are no residuals that could expire
			part.From = end
		}
		part.To, part.Scores = end, open.digesters[part.Partition].Digest()
	}
	if err := publish(ctx, w, wire.RecordOf[float64](&open.Seal)); err != nil {
		return err
	}
	w.seals.add(&open.Seal)
	return nil
}

// seals are the known seals of a run, by this and other workers: a *statistics.Seal for each sealed. A scan reads the seals of the previous
// stage while it writes those of its own.
type seals struct{ sync.Map }

// sealed is a share, by its first partition, and a stage.
type sealed struct{ share, stage int }

// of returns the seal of a share after a stage, or nil.
func (s *seals) of(share, stage int) *statistics.Seal {
	known, _ := s.Load(sealed{share, stage})
	seal, _ := known.(*statistics.Seal)
	return seal
}

// add adds a seal, or replaces the one of its share and stage.
func (s *seals) add(seal *statistics.Seal) { s.Store(sealed{seal.Partition, seal.Stage}, seal) }

// findSeals reads the seals of shares that other workers owned before. There are none until stage 0 is final.
func (w *Worker) findSeals(ctx context.Context, adopted []*visit.Share) error {
	if final, _ := w.chain.Final(0); final == nil || w.Plan.Update() != nil {
		return nil
	}
	from := map[int]int64{}
	for _, p := range adopted {
		from[w.statisticsOf(w.first(p))] = 0
	}
	isSeal := func(kind wire.Kind) bool { return kind == statistics.KindSeal }
	err := w.eachRecord(ctx, from, isSeal, func(r *wire.Record[float64], first int64) {
		// This worker may not have accepted the stage's final weights yet. Then it keeps the seal, and checks the seal's parent
		// when it uses it.
		if _, final := w.chain.Final(r.Stage); final != "" && r.Parent != final {
			return
		}
		if seal, err := wire.Read[statistics.Seal](r); err == nil {
			w.seals.add(seal)
			w.written[r.Identity] = first
		}
	})
	if err != nil {
		return fmt.Errorf("read seals: %w", err)
	}
	return nil
}

// eachRecord calls with for the complete records of some kinds that the statistics topic has of the run, with the offset of their first
// message, from an offset on by partition. Records that are deleted meanwhile are computed again.
func (w *Worker) eachRecord(ctx context.Context, from map[int]int64, wanted func(wire.Kind) bool,
	with func(r *wire.Record[float64], first int64)) error {
	for _, number := range slices.Sorted(maps.Keys(from)) {
		begin := from[number]
		if number < len(w.Plan.Since.Statistics) {
			begin = max(begin, w.Plan.Since.Statistics[number])
		}
		collector, first := statistics.Collector{}, map[wire.Digest]int64{}
		for m, err := range w.Remaining(ctx, w.Topics.Statistics, number, begin, math.MaxInt64) {
			if errors.As(err, new(*kafkalog.DeletedError)) {
				break
			}
			if err != nil {
				return err
			}
			if m.Run() != w.ID || !wanted(m.Kind()) {
				continue
			}
			if _, begun := first[m.Digest()]; !begun {
				first[m.Digest()] = m.Offset
			}
			if r, err := collector.Add(m.Message, w.Memory); err == nil && r != nil { // a damaged record does not count
				with(r, first[m.Digest()])
			}
		}
	}
	return nil
}

// isAwaited reports whether a solver may be waiting for a record when a visit, and the seals of the stage before, are due. The Gram
// matrices of an update do not depend on weights, so each visit to a stage needs those of the stage.
func (w *Worker) isAwaited(id wire.Identity, v protocol.Visit, seal int) bool {
	switch {
	case id.Kind == statistics.KindSeal:
		return id.Stage == seal && id.Parent == v.Parent
	case id.Stage != v.Stage:
		return false
	}
	return id.Visit == v.Number && id.Parent == v.Parent || w.Plan.Update() != nil && statistics.OfGram(id.Kind)
}

// repeat makes the worker compute and publish again its last records that a solver still waits for and the log has lost. A
// slow solver alone is no reason: it would get no new data.
func (w *Worker) repeat(ctx context.Context) error {
	lost, from := maps.Clone(w.written), map[int]int64{}
	for id, first := range w.written {
		number := w.statisticsOf(id.Partition)
		if at, any := from[number]; !any || first < at {
			from[number] = first
		}
	}
	err := w.eachRecord(ctx, from, func(kind wire.Kind) bool { return kind != schemas.KindClaim && kind != schemas.KindFailure },
		func(r *wire.Record[float64], _ int64) { delete(lost, r.Identity) })
	if err != nil {
		return err
	}
	for id := range lost {
		if id.Kind == statistics.KindSeal {
			w.seals.Delete(sealed{id.Partition, id.Stage})
			continue
		}
		for _, p := range w.shares {
			if w.first(p) == id.Partition {
				p.Visited, p.Grams = protocol.Visit{}, 0
			}
		}
	}
	return nil
}

// loadScores loads the scores before a stage, which the previous stage has published, for shares that lack them. Visits of an update
// compute them from those before stage 0.
// Residuals that are not sealed, or no longer on the topic, are computed and published again, if necessary from stage 0.
func (w *Worker) loadScores(ctx context.Context, stage int, shares []*visit.Share) error {
	w.setCovered(shares)
	if w.Plan.Update() != nil {
		stage = 0
	}
	var without []*visit.Share
	for _, p := range shares {
		if p.Scores != stage {
			p.Scores = protocol.NoStage // restore overwrites the scores before it detects wrong ones
			without = append(without, p)
		}
	}
	if len(without) == 0 {
		return nil
	}
	w.reuse(without)
	if stage == 0 {
		for _, p := range without {
			p.ZeroScores()
		}
		return nil
	}
	before := w.scoresBefore(stage)
	unsealed, err := w.restore(ctx, before, without)
	if err != nil {
		return err
	}
	if len(unsealed) > 0 {
		err := w.withScores(ctx, stage-1, unsealed, func() error { return w.publishStage(ctx, stage-1, unsealed) })
		if err != nil {
			return fmt.Errorf("publish the residuals of stage %d again: %w", stage-1, err)
		}
		if unsealed, err = w.restore(ctx, before, unsealed); err != nil {
			return err
		}
		if len(unsealed) > 0 {
			return fmt.Errorf("partitions %v: %w, although they were published again", unsealed[0].Numbers(), visit.ErrUnsealed)
		}
	}
	for _, p := range without {
		p.Scores = stage
	}
	return nil
}

// maxRepetitions is the maximum number of times that a visit restarts because the scores before its stage were deleted. A
// cause of repeated deletion, such as a short retention, will persist.
const maxRepetitions = 3

// withScores calls do once the scores before a stage are loaded. If residuals are deleted in the meantime, it computes
// them again and repeats do.
func (w *Worker) withScores(ctx context.Context, stage int, shares []*visit.Share, do func() error) error {
	for repetition := 0; ; repetition++ {
		err := w.loadScores(ctx, stage, shares)
		if err == nil {
			err = do()
		}
		if !errors.Is(err, visit.ErrUnsealed) || repetition == maxRepetitions {
			return err
		}
		for _, p := range shares {
			p.Scores = protocol.NoStage
		}
	}
}

// restore reads the scores of shares. It returns the shares whose residuals must be computed again.
func (w *Worker) restore(ctx context.Context, before *visit.ResidualsReader, shares []*visit.Share) (unsealed []*visit.Share,
	err error) {
	for _, p := range shares {
		switch err := before.Restore(ctx, p); {
		case errors.Is(err, visit.ErrUnsealed):
			unsealed = append(unsealed, p)
		case err != nil:
			return nil, err
		}
	}
	return unsealed, nil
}

// scoresBefore returns a reader of the scores before a stage; nil for stage 0, whose scores are zero.
func (w *Worker) scoresBefore(stage int) *visit.ResidualsReader {
	if stage == 0 || w.Plan.Update() != nil {
		return nil
	}
	_, parent := w.chain.Final(stage - 1)
	return &visit.ResidualsReader{
		Run: w.Run, Stage: stage - 1, Parent: parent, Classes: w.chain.Prepared.Labels.Len(),
		Seal: func(p *visit.Share) *statistics.Seal { return w.seals.of(w.first(p), stage-1) },
	}
}

// setCovered sets the coverage of shares that lack it, from the survey's result and the plan of an update.
func (w *Worker) setCovered(shares []*visit.Share) {
	for _, p := range shares {
		if p.Surveyed.Spans != nil || p.Covered.Spans != nil {
			continue
		}
		numbers := p.Numbers()
		add := func(to *coverage.Coverage, list []coverage.Coverage) {
			for _, c := range list {
				if len(c.Spans) > 0 && slices.Contains(numbers, c.Spans[0].Partition) {
					_ = to.Merge(c) // overlapping spans of a plan are detected when their sums are merged
				}
			}
		}
		add(&p.Surveyed, w.chain.Survey.Covered)
		p.Covered = p.Surveyed
		if u := w.Plan.Update(); u != nil {
			for i := range u.Refresh {
				add(&p.Covered, u.Refresh[i].Covered)
			}
		}
	}
}
