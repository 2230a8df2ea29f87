package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// stageVisit returns a visit to a stage with its weights.
func (w *Worker) stageVisit(ctx context.Context, v protocol.Visit) (*visit.Visit, error) {
	s, err := visit.New(w.Run, w.chain, v)
	if err == nil && w.judgesAgain(v) {
		s.Offered, err = w.offeredAgain(ctx)
	}
	return s, err
}

// maxWrites is the number of shares whose sums are written concurrently, because a large Gram matrix takes long to
// write.
const maxWrites = 2

// sum publishes the sums of shares whose scores before the stage are loaded.
func (w *Worker) sum(ctx context.Context, v protocol.Visit, shares []*visit.Share) error {
	current, err := w.stageVisit(ctx, v)
	if err != nil {
		return err
	}
	if u := w.Plan.Update(); v.Number == 0 && u == nil || u.SumsGrams() {
		if err := w.sumGrams(ctx, v, shares); err != nil {
			return err
		}
	}
	return w.sums(ctx, current, shares, staying)
}

// The numbers of leading segments of a share that a scan reads.
func recent(p *visit.Share) int  { return p.Recent }
func staying(p *visit.Share) int { return p.Staying }
func all(p *visit.Share) int     { return len(p.Segments) }

// sums publishes the sums of a visit to shares, over the number of leading segments of each that extent returns.
func (w *Worker) sums(ctx context.Context, current *visit.Visit, shares []*visit.Share, extent func(*visit.Share) int) error {
	for _, p := range shares {
		if extent(p) > 0 {
			continue
		}
		if err := w.publishSums(ctx, current, p, &visit.Outcome{Sum: &accumulate.Sum{}, Sample: &accumulate.Sample{}}); err != nil {
			return err
		}
	}
	progress := func(int64) {}
	if !current.Gram { // the rows of Gram matrices do not count as progress
		progress = w.progress(current.Visit, shares)
	}
	outcomes := visit.Outcomes{}
	return w.executor.Run(ctx, &visit.Scan{
		Run: w.Run, Shares: shares, Scores: w.scoresBefore(current.Stage), Extent: extent, MaxWrites: maxWrites,
		Processor: func() visit.Process { return current.Processor().Sum },
		Collect: func(at *visit.Load, o *visit.Outcome) (visit.Write, error) {
			progress(o.Sum.Rows)
			p := at.Share
			whole, err := outcomes.Add(at, o, extent(p))
			if err == nil && whole != nil {
				err = whole.Check(w.Run, p, extent(p))
			}
			if err != nil || whole == nil {
				return nil, err
			}
			return func(ctx context.Context) error { return w.publishSums(ctx, current, p, whole) }, nil
		},
	})
}

// publishSums writes the sums of a share.
func (w *Worker) publishSums(ctx context.Context, v *visit.Visit, p *visit.Share, o *visit.Outcome) error {
	if v.Gram {
		return w.publishGram(ctx, v, p, o.Sum)
	}
	if v.Number == wire.Growth {
		if err := publish(ctx, w, o.Sample.Record(w.identity(statistics.KindSample, v.Visit, p)).Record()); err != nil {
			return err
		}
	}
	if u := w.Plan.Update(); u.SumsGrams() && !schemas.KeepsTerms(v.Number, u.Passes) {
		visit.AddTerms(u, o.Sum)
	}
	r := statistics.Visit{Identity: w.identity(statistics.KindVisit, v.Visit, p), Covered: o.Sum.Coverage.Summary(), Sums: o.Sum.Tensors()}
	return publish(ctx, w, wire.RecordOf[float64](&r))
}

// publishGram writes the Gram matrix of a stage's block, and the weighted one of the rows that leave the window. It is summed and sent
// in single precision. A share without rows in the sample has no matrix, unless it is the plan's first.
func (w *Worker) publishGram(ctx context.Context, v *visit.Visit, p *visit.Share, sum *accumulate.Sum) error {
	if u := w.Plan.Update(); u.TakesAway() {
		leaving := statistics.Gram{Identity: w.identity(statistics.KindLeave, v.Visit, p), Matrix: visit.LeavingGram(u, sum)}
		if err := publish(ctx, w, wire.RecordOf[float64](&leaving)); err != nil {
			return err
		}
	}
	if n := v.Of.Features.Size(); p.Parts[0].Ordinal == 0 && w.Plan.Update() == nil { // even without rows
		sum.Field(statistics.FieldGram, n*(n+1)/2)
	}
	gram := statistics.Gram{Identity: w.identity(statistics.KindGram, v.Visit, p)}
	if matrix, any := sum.Take(statistics.FieldGram); any {
		gram.Matrix = matrix.Data
	}
	if weight, any := sum.Take(statistics.FieldGramRows); any {
		gram.Weight = weight.Data[0]
	}
	record := wire.RecordOf[float32](&gram)
	if of := w.gramOf(v, p); of != "" {
		w.Cache.KeepGram(p.Parts[0].Span.Partition, of, record)
	}
	return publish(ctx, w, record)
}

// gramOf returns the digest of the dependencies of a share's Gram matrix; "" if only this run has the matrix: the matrix of a stage with
// scores among its features, or with trees, depends on the weights of earlier stages, and the matrix of a chain is a sum over increments.
func (w *Worker) gramOf(v *visit.Visit, p *visit.Share) wire.Digest {
	stage := w.Plan.Stages[v.Stage]
	if w.Plan.Chain != nil || v.Of.Features.Leaves() > 0 || stage.Scores {
		return ""
	}
	return wire.DigestJSON([]any{w.made().Rows, p.Covered, p.Parts[0].Ordinal, w.Plan.Segment, v.Stage, stage.Features,
		w.Plan.Intercept && w.Plan.BeginsMember(v.Stage), v.Sample})
}

// sumGrams publishes the Gram matrices of a stage for the shares that have not published them; first is the first visit to the stage. A
// matrix does not depend on weights, so it is summed in a visit of its own, before the first visit, unless an earlier run has summed it.
func (w *Worker) sumGrams(ctx context.Context, first protocol.Visit, shares []*visit.Share) error {
	shares = slices.DeleteFunc(slices.Clone(shares), func(p *visit.Share) bool { return first.Stage < p.Grams })
	if len(shares) == 0 {
		return nil
	}
	extent := recent
	if u := w.Plan.Update(); u == nil || u.TakesAway() {
		extent = all
	} else if u.Restart {
		extent = staying
	}
	if w.Plan.Update() != nil {
		first = w.chain.GramVisit(first.Stage)
	}
	current, err := visit.NewGram(w.Run, w.chain, first)
	if err != nil || current.Of.Features.Sparse() {
		return err
	}
	var rest []*visit.Share
	for _, p := range shares {
		var known *wire.Record[float32]
		if of := w.gramOf(current, p); of != "" {
			known = w.Cache.Gram(p.Parts[0].Span.Partition, of)
		}
		if known == nil {
			rest = append(rest, p)
			continue
		}
		own := *known
		own.Identity = w.identity(statistics.KindGram, current.Visit, p)
		if err := publish(ctx, w, &own); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		if err := w.sums(ctx, current, rest, extent); err != nil {
			return err
		}
	}
	for _, p := range shares {
		p.Grams = first.Stage + 1
	}
	return nil
}

// survey finds the labels, counts the rows of each split, and quarantines unusable messages. Unless the run keeps the
// preparation of the version that it starts from, the survey also sums the moments of columns and samples rows. A repeated
// survey reads all messages again, as the log may have changed.
func (w *Worker) survey(ctx context.Context, v protocol.Visit, shares []*visit.Share) error {
	offered, err := w.offeredModel(ctx)
	if err != nil {
		return err
	}
	current, err := visit.NewSurvey(ctx, w.Run, offered)
	if err != nil {
		return err
	}
	progress, outcomes := w.progress(v, shares), visit.Outcomes{}
	if w.records == nil { // a solver may give up a run that no worker has begun
		claim := schemas.Claim{Run: w.ID}
		if _, err := w.Log.Append(ctx, w.Topics.Statistics, w.statisticsOf(w.first(w.shares[0])), claim.Message()); err != nil {
			return err
		}
	}
	err = w.executor.Run(ctx, &visit.Scan{
		Run: w.Run, Shares: shares, Whole: true, Extent: recent, MaxWrites: maxWrites, Processor: current.Processor,
		Collect: func(at *visit.Load, o *visit.Outcome) (visit.Write, error) {
			p := at.Share
			progress(o.Sum.Rows)
			for _, q := range o.Events {
				w.rec.Record(q)
			}
			if current.Err() != nil {
				return nil, nil
			}
			whole, err := outcomes.Add(at, o, p.Recent)
			if err != nil {
				return nil, err
			}
			found := cmp.Or(whole, outcomes[p]).Found
			if err := solve.CheckClasses(len(found.Labels)); err != nil {
				return nil, err
			}
			if columns := len(found.ColumnRows); columns > 0 {
				w.reserveFound(columns, len(found.Labels))
			}
			if whole == nil {
				return nil, nil
			}
			return func(ctx context.Context) error { return w.publishSurvey(ctx, current, v, p, whole) }, nil
		},
	})
	if err != nil {
		return err
	}
	return current.Err()
}

// publishSurvey writes the survey's records of a share.
func (w *Worker) publishSurvey(ctx context.Context, of *visit.Survey, v protocol.Visit, p *visit.Share, o *visit.Outcome) error {
	sample, survey := of.Records(o, func(kind wire.Kind) wire.Identity { return w.identity(kind, v, p) })
	if sample != nil {
		if err := publish(ctx, w, sample); err != nil {
			return err
		}
	}
	return publish(ctx, w, survey)
}

// offeredModel returns the version for subscribers, with which the gate compares; nil if the run has no gate, or the
// version is gone.
func (w *Worker) offeredModel(ctx context.Context) (*model.Model, error) {
	if _, gated := visit.JudgedSplit(w.Plan); !gated {
		return nil, nil
	}
	offered := &w.Plan.Chain.Gate.Offered
	m, err := w.ModelOf(ctx, offered)
	if errors.As(err, new(*protocol.NoVersionError)) || errors.As(err, new(*protocol.GoneError)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the offered version: %w", err)
	}
	return m, nil
}

// judgesAgain reports whether a visit of an update may be the one with its final weights, in which the gate compares the
// versions on the rows of revisited increments.
func (w *Worker) judgesAgain(v protocol.Visit) bool {
	u := w.Plan.Update()
	_, gated := visit.JudgedSplit(w.Plan)
	return gated && u != nil && len(u.Refresh) > 0 && v.Stage == len(w.Plan.Stages)-1 && v.Number >= u.Passes
}

// offeredAgain returns the version for subscribers if it can be compared on rows that the chain has visited before: if it
// has the preparation of the stored rows, and was not trained on any of them, because the same rows were held out.
// Otherwise it returns nil.
func (w *Worker) offeredAgain(ctx context.Context) (*model.Model, error) {
	m, err := w.offeredModel(ctx)
	if m == nil || err != nil {
		return nil, err
	}
	theirs := m.Manifest.Plan
	if theirs.Holdout != w.Plan.Holdout || theirs.Seed != w.Plan.Seed || !w.Earlier.SharesInputs(m) || !visit.SameLoss(w.Plan, theirs) {
		return nil, nil
	}
	return m, nil
}
