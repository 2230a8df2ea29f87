package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// shortestRun is how long a run may well take: retention shorter than that
// would delete what it still reads.
const shortestRun = time.Hour

// RetentionError says that a topic may lose messages before a run has read
// them.
type RetentionError struct {
	Topic     string
	Retention time.Duration
}

func (e *RetentionError) Error() string {
	return fmt.Sprintf("%s keeps messages for %v (retention.ms): a run needs them for at least %v", e.Topic, e.Retention, shortestRun)
}

// CompactionError says that a topic may drop a record that a worker still waits
// for.
type CompactionError struct {
	Topic string
	Lag   time.Duration
}

func (e *CompactionError) Error() string {
	return fmt.Sprintf("%s compacts messages after %v (min.compaction.lag.ms): a run needs them for at least %v", e.Topic, e.Lag, shortestRun)
}

// NoExamplesError says that there is nothing to train on.
type NoExamplesError struct{ Topic string }

func (e *NoExamplesError) Error() string {
	return fmt.Sprintf("no examples on %s: name files under examples.train, or let a producer write there", e.Topic)
}

// plan fixes what a run of the job is, now: the spans of the examples topic as
// they are committed at this moment, and what counts in them: the sources of
// the job's files, or if it names none to train on, whatever is there.
func (d desk) plan(ctx context.Context, job Job, blas *kernel.BLAS, sources []string, l *ledger, rec Recorder) (*schemas.Plan, error) {
	p := &schemas.Plan{
		Name: job.Name, Input: inputOf(job.Examples), Classes: job.Examples.Classes, Missing: job.Examples.Missing, Holdout: job.Examples.Holdout,
		OnBadMessage: job.OnBadMessage, Prepare: job.Prepare, Stages: job.Stages, Intercept: job.Intercept,
		Seed: job.Seed, Segment: job.Segment, Foreign: len(job.Examples.Train) == 0,
	}
	var err error
	if p.Arithmetic, err = arithmetic(blas); err != nil {
		return nil, err
	}
	for _, topic := range []string{d.examples, d.residuals, d.statistics, d.weights, d.plans} {
		err := d.checkRetention(ctx, topic)
		if errors.As(err, new(*kafkalog.AccessError)) {
			notice(rec, "whether the topics keep messages for as long as a run is not checked: %v", err)
			break // what we may not ask of one we may not ask of the others
		}
		if err != nil {
			return nil, err
		}
	}
	if p.Foreign {
		sources = l.ids()
	}
	for _, id := range sources {
		seal, err := d.sealed(ctx, l, id)
		if err != nil {
			return nil, err
		}
		switch {
		case seal != nil:
			p.Sources = append(p.Sources, *seal)
		case !p.Foreign:
			return nil, fmt.Errorf("source %s is not on %s any more", schemas.Digest(id).Short(), d.examples)
		}
	}
	partitions, err := d.log.Partitions(ctx, d.examples)
	if err != nil {
		return nil, err
	}
	for partition := range partitions {
		first, end, err := d.log.Bounds(ctx, d.examples, partition)
		if err != nil {
			return nil, err
		}
		if span := (schemas.Span{Partition: partition, From: first, To: end}); !span.Empty() {
			p.Spans = append(p.Spans, span)
		}
	}
	if !p.Foreign {
		p.Spans = narrow(p.Spans, p.Sources)
	}
	if len(p.Spans) == 0 {
		return nil, &NoExamplesError{d.examples}
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("plan a run over %s: %w", d.examples, err)
	}
	if job.Warm != "" {
		m, err := d.version(ctx, job.Warm)
		if err != nil {
			return nil, fmt.Errorf("warm start: %w", err)
		}
		if err := compatible(p, m.Plan); err != nil {
			return nil, fmt.Errorf("warm start from version %d: %w", m.Version, err)
		}
		p.Warm = &schemas.Warm{Run: m.Run, Manifest: schemas.DigestJSON(m)}
	}
	p.Ended = l.ended(p.Content())
	if p.Since, err = d.since(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

func inputOf(o ingest.Options) schemas.Input {
	return schemas.Input{Format: o.Format, Label: string(o.Label), Weight: string(o.Weight), Header: o.Header}
}

// narrow leaves of spans what reaches from the first to the last message of
// the sources: nothing else counts.
func narrow(spans schemas.Spans, sources []schemas.SourceSeal) (narrowed schemas.Spans) {
	for _, span := range spans {
		from, to := int64(math.MaxInt64), int64(0)
		for _, s := range sources {
			for _, own := range s.Spans {
				if own.Partition == span.Partition {
					from, to = min(from, own.From), max(to, own.To)
				}
			}
		}
		if own := (schemas.Span{Partition: span.Partition, From: max(from, span.From), To: min(to, span.To)}); !own.Empty() {
			narrowed = append(narrowed, own)
		}
	}
	return narrowed
}

func (d desk) checkRetention(ctx context.Context, topic string) error {
	config, err := d.admin.Config(ctx, topic)
	if err != nil {
		return err
	}
	policy := config["cleanup.policy"]
	if r, known := milliseconds(config["retention.ms"]); known && r < shortestRun && policy != "compact" {
		return &RetentionError{topic, r}
	}
	if lag, known := milliseconds(config["min.compaction.lag.ms"]); known && lag < shortestRun && strings.Contains(policy, "compact") {
		return &CompactionError{topic, lag}
	}
	return nil
}

// milliseconds is a time of a topic's settings; false if it is unlimited, or not
// known.
func milliseconds(text string) (time.Duration, bool) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms >= math.MaxInt64/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// since is where the run's own records can begin.
func (d desk) since(ctx context.Context) (s schemas.Since, err error) {
	if _, s.Weights, err = d.log.Bounds(ctx, d.weights, 0); err != nil {
		return s, err
	}
	partitions, err := d.log.Partitions(ctx, d.statistics)
	if err != nil {
		return s, err
	}
	s.Statistics = make([]int64, partitions)
	for p := range s.Statistics {
		if _, s.Statistics[p], err = d.log.Bounds(ctx, d.statistics, p); err != nil {
			return s, err
		}
	}
	return s, nil
}

// compatible tells whether a run can start from what an earlier one found: the
// feature maps have to be the same.
func compatible(p, earlier *schemas.Plan) error {
	switch {
	case p.Seed != earlier.Seed:
		return fmt.Errorf("it has seed %d, this run %d: its features are others", earlier.Seed, p.Seed)
	case p.Prepare != earlier.Prepare:
		return fmt.Errorf("it prepares %+v, this run %+v", earlier.Prepare, p.Prepare)
	case p.Intercept != earlier.Intercept:
		return fmt.Errorf("intercept is %v there, %v here", earlier.Intercept, p.Intercept)
	}
	for t := range min(len(p.Stages), len(earlier.Stages)) {
		here, there := p.Stages[t], earlier.Stages[t]
		if here.Features != there.Features || here.Scores != there.Scores || here.Link != there.Link {
			return fmt.Errorf("its stage %d has other features or another link", t)
		}
	}
	return nil
}

// sound tells whether a plan that stands on a topic, or in a file, is one that
// could have been submitted: what follows it relies on that.
func sound(p *schemas.Plan) error {
	problems := stages.CheckPrepare(p.Prepare)
	for _, s := range p.Stages {
		problems = append(append(problems, stages.Check(s.Features)...), solve.Check(s)...)
	}
	switch {
	case len(p.Stages) == 0:
		return fmt.Errorf("%w: a plan without stages", schemas.ErrDamaged)
	case len(problems) > 0:
		return fmt.Errorf("%w: plan: %w", schemas.ErrDamaged, problems[0])
	}
	return nil
}
