package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// worker makes the visits of one run to the partitions that it owns. What it
// does next is a pure function of the plan and the accepted weights.
type worker struct {
	desk
	blas    *kernel.BLAS
	rec     Recorder
	plan    *schemas.Plan
	run     string
	watch   int64 // where on the plans topic the run's end may be
	owner   owner // of partitions of the examples
	chain   *chain
	shares  []*share // of the partitions that it owns, in the plan's order
	seals   seals
	budget  budget
	buffers accumulate.BufferPool

	covered map[int]accumulate.Coverage // by the survey, of each partition
	sweep   func(context.Context, *sweep, []*share) error
}

const unknown = -1

// patience is how long a role waits for the others before it publishes again
// what it has published; it doubles from the first to the second.
const (
	patience     = 30 * time.Second
	mostPatience = 5 * time.Minute
)

// newWorker is a worker of an unfinished run within so many bytes of memory. The
// run's end, once there is one, is on the plans topic from watch on.
func newWorker(d desk, blas *kernel.BLAS, plan *schemas.Plan, watch int64, o owner, bytes int64, rec Recorder) *worker {
	c := newChain(plan, d.codec, rec)
	return &worker{
		desk: d, blas: blas, rec: rec, plan: plan, run: c.run, watch: watch, owner: o, chain: c, budget: budget{left: bytes},
		sweep: func(ctx context.Context, s *sweep, shares []*share) error { return s.run(ctx, shares) },
	}
}

// work makes visits until the run or ctx ends.
func (w *worker) work(ctx context.Context) error {
	err := w.visits(ctx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.As(err, new(*MembershipError)) {
		return err // others have its partitions
	}
	// What can't be mended here ends the run, wherever its solver is.
	notice(w.rec, "run %s can't go on: %v", w.run, err)
	failure := &schemas.Failure{Run: w.run, Reason: err.Error()}
	if len(w.shares) > 0 {
		failure.Partition = w.shares[0].span.Partition
	}
	return w.giveUp(ctx, failure)
}

// giveUp reports a failure until the run has ended: what nobody repeats is lost
// when a broker loses it.
func (w *worker) giveUp(ctx context.Context, failure *schemas.Failure) error {
	mail := w.log.Mail(ctx, nil, address{w.plans, 0, w.watch, true})
	defer mail.Close()
	for wait := patience; ; wait = min(2*wait, mostPatience) {
		if _, err := w.write(ctx, w.statistics, w.statisticsOf(failure.Partition), failure.Message()); err != nil {
			return fmt.Errorf("report that %s: %w", failure.Reason, err)
		}
		if found, err := w.await(ctx, mail, wait); err != nil || found == ended {
			return err
		}
	}
}

func (w *worker) visits(ctx context.Context) (err error) {
	if _, err := w.chain.warm(ctx, w.desk); err != nil {
		return fmt.Errorf("warm start: %w", err)
	}
	next, err := w.chain.read(ctx, w.desk)
	if err != nil {
		return err
	}
	mail := w.log.Mail(ctx, w.owner.Changed(), address{w.weights, 0, next, true}, address{w.plans, 0, w.watch, true})
	defer mail.Close()
	for wait := patience; ; {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
		switch found, err := w.await(ctx, mail, wait); {
		case err != nil:
			return err
		case found == ended:
			return nil
		case found == late:
			w.again()
			wait = min(2*wait, mostPatience)
		default:
			wait = patience
		}
	}
}

// again forgets what the worker has published last: whoever waits for it gets it
// again.
func (w *worker) again() {
	_, sealed, sealing := w.chain.due()
	for _, s := range w.shares {
		s.visited = visit{}
		if sealing {
			delete(s.seals, sealed)
		}
	}
}

// finding is what a role was waiting for.
type finding int

const (
	late  finding = iota // nothing within the time
	woken                // what the role owns may have changed
	grown                // the chain of accepted weights
	ended                // the run
)

// await waits for something that changes what is due.
func (w *worker) await(ctx context.Context, mail mail, within time.Duration) (finding, error) {
	for deadline := time.Now().Add(within); ; {
		l, isLate, err := mail.Next(ctx, time.Until(deadline))
		switch {
		case err != nil:
			return late, err
		case isLate:
			return late, nil
		case l == nil:
			return woken, nil
		case l.topic == w.plans && isEndOf(l.Message, w.run):
			return ended, nil
		case l.topic == w.weights:
			if more, err := w.chain.add(l.Message); err != nil || more {
				return grown, err
			}
		}
	}
}

// catchUp does whatever is due now for what the worker owns.
func (w *worker) catchUp(ctx context.Context) error {
	if err := w.adopt(ctx); err != nil {
		return err
	}
	v, sealed, sealing := w.chain.due()
	if sealing {
		if err := w.sealStage(ctx, sealed); err != nil {
			return fmt.Errorf("publish the residuals of stage %d: %w", sealed, err)
		}
	}
	if v.stage == len(w.plan.Stages) {
		return nil
	}
	var due []*share
	for _, s := range w.shares {
		if s.visited != v {
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return nil
	}
	began := time.Now()
	if err := w.visit(ctx, v, due); err != nil {
		return fmt.Errorf("visit %d of %s: %w", v.number, stageName(v.stage), err)
	}
	for _, s := range due {
		s.visited = v
	}
	w.rec.Record(Visited{Run: w.run, Stage: v.stage, Visit: v.number, Partitions: partitionsOf(due), Rows: w.counts(due), Elapsed: time.Since(began)})
	return nil
}

// adopt takes on the partitions that have become the worker's, and lets go of
// those that are so no more.
func (w *worker) adopt(ctx context.Context) error {
	if err := membership(w.owner); err != nil {
		return err
	}
	held := map[int]*share{}
	for _, s := range w.shares {
		held[s.span.Partition] = s
	}
	var shares, adopted []*share
	owned := w.owner.Owned()
	for i, span := range w.plan.Spans {
		if _, mine := slices.BinarySearch(owned, span.Partition); !mine {
			continue
		}
		s := held[span.Partition]
		if s == nil {
			s = divide(span, i, w.plan.Segment)
			adopted = append(adopted, s)
		}
		delete(held, span.Partition)
		shares = append(shares, s)
	}
	for _, s := range held {
		s.release(&w.budget)
	}
	w.shares = shares
	if len(adopted) == 0 && len(held) == 0 {
		return nil
	}
	w.rec.Record(Owned{Run: w.run, Partitions: partitionsOf(shares)})
	return w.findSeals(ctx, adopted)
}

func partitionsOf(shares []*share) []int {
	partitions := make([]int, len(shares))
	for i, s := range shares {
		partitions[i] = s.span.Partition
	}
	return partitions
}

func stageName(stage int) string {
	if stage == schemas.Survey {
		return "the survey"
	}
	return fmt.Sprintf("stage %d", stage)
}

// visit publishes the statistics of one visit, a partition at a time as they
// are complete.
func (w *worker) visit(ctx context.Context, v visit, shares []*share) error {
	if v.stage == schemas.Survey {
		return w.survey(ctx, v, shares)
	}
	return w.within(ctx, v.stage, shares, func() error { return w.sum(ctx, v, shares) })
}

// sum publishes the sums of shares that have the scores before the stage.
func (w *worker) sum(ctx context.Context, v visit, shares []*share) error {
	p, err := w.pass(v)
	if err != nil {
		return err
	}
	p.apart = v.number == 0 && w.holds(p, shares)
	progress := w.progress(v, shares)
	sums := [2]map[*share]*accumulate.Sum{{}, {}} // of each round
	s := &sweep{
		desk: w.desk, plan: w.plan, scores: w.scoresBefore(v.stage), writers: publishers, twice: p.apart,
		bench: func() func(context.Context, *load) (*outcome, error) { return w.bench(p).visit },
		collect: func(s *share, o *outcome) (func(context.Context) error, error) {
			progress(o.rows)
			gram, rest := p.parts(o.round)
			whole, err := merge(sums[o.round], s, o, rest, &w.buffers)
			if err != nil || whole == nil {
				return nil, err
			}
			return func(ctx context.Context) error { return w.publish(ctx, p, s, whole, gram, rest) }, nil
		},
	}
	return w.sweep(ctx, s, shares)
}

// holds tells whether the shares' blocks stay in memory once they are made, even
// before what was read of them goes. The Gram matrix can be summed before the rest
// then: the solver factors it meanwhile.
func (w *worker) holds(p *pass, shares []*share) bool {
	need := int64(0)
	for _, s := range shares {
		need += s.covered.Rows * (rowBytes(w.chain.prepared.Inputs(), p.shape.Classes) + int64(4*p.shape.Columns))
		for _, segment := range s.segments {
			if segment.batches == nil && segment.raw == nil {
				return false
			}
			for _, one := range segment.batches {
				rows := int64(one.inputs.Rows)
				need -= rows*rowBytes(one.inputs.Cols, one.score.Cols) + min(int64(cap(one.block.Data)), rows*int64(p.shape.Columns))*4
			}
		}
	}
	return w.budget.has(need)
}

// publishers is how many shares' sums may be on their way at once: a Gram matrix
// takes its time.
const publishers = 2

// merge adds a segment's sum to its share's, and answers with that when it is
// whole. One that is of all messages has to be over what the survey has covered.
func merge(sums map[*share]*accumulate.Sum, s *share, o *outcome, all bool, buffers *accumulate.BufferPool) (*accumulate.Sum, error) {
	if sums[s] == nil {
		sums[s] = o.sum
	} else if err := sums[s].Merge(o.sum); err != nil {
		return nil, err
	} else {
		buffers.Put(o.sum)
	}
	if o.at < len(s.segments)-1 {
		return nil, nil
	}
	whole := sums[s]
	delete(sums, s)
	if all && !whole.Coverage.Same(s.covered) {
		return nil, fmt.Errorf("partition %d: %w", s.span.Partition, &CoverageError{whole.Coverage, s.covered})
	}
	return whole, nil
}

// CoverageError says that a visit read other rows than the survey: the topic
// has changed under the run.
type CoverageError struct{ Got, Want accumulate.Coverage }

func (e *CoverageError) Error() string {
	return fmt.Sprintf("%d rows in %d messages (checksum %016x), the survey had %d in %d (%016x)",
		e.Got.Rows, e.Got.Messages, e.Got.Checksum, e.Want.Rows, e.Want.Messages, e.Want.Checksum)
}

// publish sends a partition's sums: the Gram matrix, the rest, or both.
func (w *worker) publish(ctx context.Context, p *pass, s *share, sum *accumulate.Sum, gram, rest bool) error {
	if gram {
		if err := w.publishGram(ctx, p, s, sum); err != nil {
			return err
		}
	}
	if !rest {
		return nil
	}
	id := w.identity(schemas.KindVisit, p.visit, s)
	r := &schemas.Statistics{Identity: id, Notes: coverageNotes(sum.Coverage), Tensors: sum.Tensors()}
	return writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(id.Partition), r)
}

// noteWeight of a Gram matrix is Σw of the rows behind it.
const noteWeight = "weight"

// publishGram takes the Gram matrix out of the sums, and sends it as a record of
// its own. Of a partition without rows in the sample that has no matrix, unless
// it is the plan's first: of a thousand partitions few have such rows. That of a
// block is sums in single precision already, and is sent so: measured on MNIST,
// identity, 10 × 1024, ridge 1e-5, predictions move by 1e-6 (RMS). That of a
// calibration is nearly singular, and double.
func (w *worker) publishGram(ctx context.Context, p *pass, s *share, sum *accumulate.Sum) error {
	if p.number == 0 && s.ordinal == 0 { // also of no rows
		sum.Field(schemas.FieldGram, p.shape.Columns*(p.shape.Columns+1)/2)
	}
	grams := schemas.Tensors[float64]{}
	if gram, ok := sum.Tensors().Find(schemas.FieldGram); ok {
		grams = append(grams, gram)
	}
	defer w.buffers.Put(sum)
	id := w.identity(schemas.KindGram, p.visit, s)
	if p.calibrating() {
		r := &schemas.Statistics{Identity: id, Tensors: grams}
		return writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(id.Partition), r)
	}
	weight := sum.Field(schemas.FieldGramRows, 1)[0]
	sum.Take(schemas.FieldGramRows)
	r := &schemas.Record[float32]{
		Identity: id, Tensors: schemas.Narrow(grams),
		Notes: []schemas.Header{{Key: noteWeight, Value: strconv.FormatFloat(weight, 'g', -1, 64)}},
	}
	return writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(id.Partition), r)
}

func (w *worker) identity(kind schemas.Kind, v visit, s *share) schemas.Identity {
	return schemas.Identity{Kind: kind, Run: w.run, Stage: v.stage, Visit: v.number, Partition: s.span.Partition, Parent: v.parent}
}

// noteCovered is what a record's sums are over, as JSON.
const noteCovered = "covered"

func coverageNotes(c accumulate.Coverage) []schemas.Header {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("pipeline: no JSON for a coverage: %v", err))
	}
	return []schemas.Header{{Key: noteCovered, Value: string(text)}}
}

func coverageOf(text string) (c accumulate.Coverage, err error) {
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("%w: coverage %q: %v", schemas.ErrDamaged, text, err)
	}
	return c, nil
}

func (w *worker) statisticsOf(partition int) int {
	return statisticsPartition(partition, max(len(w.plan.Since.Statistics), 1))
}

// writeRecord appends the messages of a record: chunks may come in any order.
func writeRecord[T schemas.Number](ctx context.Context, d desk, topic string, partition int, r *schemas.Record[T]) error {
	messages, err := messagesOf(d.codec, r)
	if err != nil {
		return err
	}
	return d.log.Scatter(ctx, topic, partition, messages...)
}

// progress tells the recorder how far a visit is.
func (w *worker) progress(v visit, shares []*share) func(rows int64) {
	done, of := int64(0), w.counts(shares)
	if v.stage == schemas.Survey && !w.plan.Foreign && len(shares) == len(w.plan.Spans) {
		for _, s := range w.plan.Sources {
			of += s.Rows
		}
	}
	return func(rows int64) {
		done += rows
		w.rec.Record(Progressed{Stage: v.stage, Visit: v.number, Rows: done, Of: of})
	}
}

// counts is how many rows the shares have, as far as the survey has found.
func (w *worker) counts(shares []*share) (rows int64) {
	for _, s := range shares {
		rows += s.covered.Rows
	}
	return rows
}
