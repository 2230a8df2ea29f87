package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// worker makes the visits of one run to the partitions that it owns. What it
// does next is a pure function of the plan and the accepted weights.
type worker struct {
	desk
	blas   *kernel.BLAS
	rec    Recorder
	plan   *schemas.Plan
	run    string
	chain  *chain
	shares []*share
	budget budget

	partitions int  // of the statistics topic
	settled    bool // what the survey has covered is known
	entered    int  // the stage that the shares have the scores before, or unknown
}

const unknown = -1

// patience is how long a worker waits for newer weights before it publishes its
// visit again; it doubles from the first to the second.
const (
	patience     = 30 * time.Second
	mostPatience = 5 * time.Minute
)

// newWorker owns all partitions of the plan, within so many bytes of memory.
func newWorker(d desk, blas *kernel.BLAS, plan *schemas.Plan, bytes int64, rec Recorder) *worker {
	w := &worker{desk: d, blas: blas, rec: rec, plan: plan, run: plan.Run(), chain: newChain(plan, d.mem, rec), budget: budget{left: bytes}, entered: unknown}
	for i, span := range plan.Spans {
		w.shares = append(w.shares, divide(span, i, plan.Segment))
	}
	return w
}

// work makes visits until ctx ends or there are none left.
func (w *worker) work(ctx context.Context) error {
	err := w.visits(ctx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	// What can't be mended here ends the run, wherever its solver is.
	failure := &schemas.Failure{Run: w.run, Partition: w.shares[0].span.Partition, Reason: err.Error()}
	if _, err := w.write(ctx, w.statistics, w.statisticsOf(failure.Partition), failure.Message()); err != nil {
		return err
	}
	return nil
}

func (w *worker) visits(ctx context.Context) (err error) {
	if w.partitions, err = w.log.Partitions(ctx, w.statistics); err != nil {
		return err
	}
	if _, err := w.chain.warm(ctx, w.desk); err != nil {
		return fmt.Errorf("warm start: %w", err)
	}
	next, err := w.chain.read(ctx, w.desk)
	if err != nil {
		return err
	}
	if err := w.findSeals(ctx); err != nil {
		return err
	}
	weights := w.log.Follow(w.weights, 0, next)
	weights.SkipDeleted = true
	defer weights.Close()
	for wait := patience; ; {
		v, sealed, sealing := w.chain.due()
		if sealing {
			if err := w.sealStage(ctx, sealed); err != nil {
				return fmt.Errorf("publish the residuals of stage %d: %w", sealed, err)
			}
		}
		if v.stage == len(w.plan.Stages) {
			return nil
		}
		if err := w.visit(ctx, v); err != nil {
			return fmt.Errorf("visit %d of %s: %w", v.number, stageName(v.stage), err)
		}
		newer, err := w.chain.await(ctx, weights, wait)
		if err != nil {
			return err
		}
		if wait = min(2*wait, mostPatience); newer {
			wait = patience
		}
	}
}

func stageName(stage int) string {
	if stage == schemas.Survey {
		return "the survey"
	}
	return fmt.Sprintf("stage %d", stage)
}

// visit publishes the statistics of one visit, a partition at a time as they
// are complete.
func (w *worker) visit(ctx context.Context, v visit) error {
	if v.stage == schemas.Survey {
		return w.survey(ctx, v)
	}
	if err := w.enter(ctx, v.stage, w.shares); err != nil {
		return err
	}
	p, err := w.pass(v)
	if err != nil {
		return err
	}
	progress, sums := w.progress(v), map[*share]*accumulate.Sum{}
	s := &sweep{
		desk: w.desk, plan: w.plan, scores: w.scoresBefore(v.stage), writers: publishers,
		bench: func() func(context.Context, *load) (*outcome, error) { return w.bench(p).visit },
		collect: func(s *share, o *outcome) (func(context.Context) error, error) {
			progress(o.rows)
			whole, err := merge(sums, s, o)
			if err != nil || whole == nil {
				return nil, err
			}
			if v.number == 0 { // even of a share whose messages are not in the sample
				whole.Field(schemas.FieldGram, p.shape.Columns*(p.shape.Columns+1)/2)
			}
			return func(ctx context.Context) error { return w.publish(ctx, v, s, whole, p.calibrating()) }, nil
		},
	}
	return s.run(ctx, w.shares)
}

// publishers is how many shares' sums may be on their way at once: a Gram matrix
// takes its time.
const publishers = 2

// merge adds a segment's sum to its share's, and answers with that when it is
// whole: it has to be over what the survey has covered.
func merge(sums map[*share]*accumulate.Sum, s *share, o *outcome) (*accumulate.Sum, error) {
	if sums[s] == nil {
		sums[s] = o.sum
	} else if err := sums[s].Merge(o.sum); err != nil {
		return nil, err
	}
	if o.at < len(s.segments)-1 {
		return nil, nil
	}
	whole := sums[s]
	delete(sums, s)
	if !whole.Coverage.Same(s.covered) {
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

// publish sends the sums of a partition for a visit; the Gram matrix is a
// record of its own. That of a block is sums in single precision already, and is
// sent so: measured on MNIST, identity, 10 × 1024, ridge 1e-5, predictions move by
// 1e-6 (RMS). That of a calibration is nearly singular, and double.
func (w *worker) publish(ctx context.Context, v visit, s *share, sum *accumulate.Sum, double bool) error {
	id := w.identity(schemas.KindVisit, v, s)
	gram, ok := sum.Take(schemas.FieldGram)
	r := &schemas.Statistics{Identity: id, Notes: coverageNotes(sum.Coverage), Tensors: sum.Tensors()}
	if err := writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(id.Partition), r); err != nil || !ok {
		return err
	}
	id.Kind = schemas.KindGram
	if !double {
		r := &schemas.Record[float32]{Identity: id, Tensors: schemas.Narrow(schemas.Tensors[float64]{gram})}
		return writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(id.Partition), r)
	}
	r = &schemas.Statistics{Identity: id, Tensors: schemas.Tensors[float64]{gram}}
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
	return statisticsPartition(partition, max(w.partitions, 1))
}

// writeRecord appends the messages of a record: chunks may come in any order, so
// those of a large one are on their way at the same time.
func writeRecord[T schemas.Number](ctx context.Context, d desk, topic string, partition int, r *schemas.Record[T]) error {
	messages, err := r.Encode(d.mem)
	if err != nil {
		return err
	}
	chunks, ctx := errgroup.WithContext(ctx)
	chunks.SetLimit(3)
	for _, m := range messages {
		chunks.Go(func() error {
			_, err := d.write(ctx, topic, partition, m)
			return err
		})
	}
	return chunks.Wait()
}

// findSeals reads which residuals were sealed before this worker came.
func (w *worker) findSeals(ctx context.Context) error {
	for p := range w.partitions {
		first, end, err := w.log.Bounds(ctx, w.statistics, p)
		if err != nil {
			return err
		}
		from := first
		if p < len(w.plan.Since.Statistics) {
			from = min(max(first, w.plan.Since.Statistics[p]), end)
		}
		collector := schemas.Collector[float64]{}
		err = w.between(ctx, w.statistics, p, from, end, func(r kafkalog.Message) error {
			m := message(r)
			if m.Get("run") != w.run || m.Kind() != schemas.KindSeal {
				return nil
			}
			record, err := collector.Add(m, w.mem)
			if err != nil || record == nil {
				return nil // a damaged seal is none
			}
			for _, s := range w.shares {
				if _, final := w.chain.final(record.Stage); s.span.Partition == record.Partition && record.Parent == final {
					if found, err := sealOf(record); err == nil {
						s.seals[record.Stage] = found
					}
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read seals: %w", err)
		}
	}
	return nil
}

// progress tells the recorder how far a visit is.
func (w *worker) progress(v visit) func(rows int64) {
	done, of := int64(0), w.counts(w.shares)
	if v.stage == schemas.Survey && !w.plan.Foreign {
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
