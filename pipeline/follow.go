package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// Follow writes the examples in the messages of the topic examples.from_topic to the examples topic of the job, and creates topics that
// are missing. It goes on where the examples topic says that the topic was read last, until ctx ends; with untilEnd until the end that
// the topic has now. If the topic no longer has what was read last, the job says what to do, and the error may be a *[ChangedTopicError].
//
// Partition q of the topic goes to partition q mod P of the examples, of which there were P when the topic was followed first. Several
// processes may follow a topic: what one has written the others don't count again.
func Follow(ctx context.Context, log *kafkalog.Log, job Job, untilEnd bool, rec event.Recorder) error {
	return open(log, job.Name, nil).followTopic(ctx, job, untilEnd, event.Serialised(rec))
}

// OwnTopicError says that a pipeline is to follow one of its own topics.
type OwnTopicError struct{ Topic string }

// Error returns what to do.
func (e *OwnTopicError) Error() string {
	return fmt.Sprintf("examples.from_topic: %s is a topic of this pipeline: expected one that others write. Examples in Arrow that are on the examples topic need no ingest", e.Topic)
}

func (p *pipeline) followTopic(ctx context.Context, job Job, untilEnd bool, rec event.Recorder) error {
	topic := job.Examples.FromTopic
	if slices.ContainsFunc(Topics(job), func(own kafkalog.Topic) bool { return own.Name == topic }) {
		return &OwnTopicError{topic}
	}
	if _, err := p.Log.Partitions(ctx, topic); err != nil {
		return fmt.Errorf("examples.from_topic: %w", err)
	}
	if err := p.create(ctx, &job); err != nil {
		return err
	}
	f := &follow{pipeline: p, topic: topic, job: job, untilEnd: untilEnd, rec: rec}
	for following := false; ; {
		feeds, err := f.begin(ctx)
		if err != nil {
			return err
		}
		if !untilEnd && !following {
			rec.Record(event.Following{Topic: topic})
			following = true
		}
		group, running := errgroup.WithContext(ctx)
		for _, feed := range feeds {
			group.Go(func() error { return feed.run(running) })
		}
		err = group.Wait()
		switch {
		case f.decided() && errors.As(err, new(*ChangedTopicError)), errors.Is(err, errNoLongerFirst):
			event.Notice(rec, "%v", err)
		case err != nil:
			return err
		default:
			rec.Record(f.ingested(true))
			return nil
		}
	}
}

// follow is a topic whose messages become examples.
type follow struct {
	*pipeline
	topic      string
	bounds     []schemas.Span // of the topic, when following began
	job        Job
	partitions int // partition q of the topic goes to partition q mod partitions of the examples
	untilEnd   bool
	rec        event.Recorder
	rows       atomic.Int64 // that were written
}

func (f *follow) ingested(done bool) event.Ingested {
	return event.Ingested{Files: []string{"topic " + f.topic}, Split: schemas.Train, Rows: f.rows.Load(), Done: done}
}

// begin returns a feed for each partition of the examples to which partitions of the topic go.
func (f *follow) begin(ctx context.Context) (feeds []*feed, err error) {
	if f.bounds, err = f.Log.Spans(ctx, f.topic); err != nil {
		return nil, fmt.Errorf("examples.from_topic: %w", err)
	}
	examples, err := f.Log.Spans(ctx, f.Topics.Examples)
	if err != nil {
		return nil, err
	}
	states := make([]topicState, len(examples))
	attempt := topicState{attempt: 1} // the last one, and how far it has read each partition of the topic, whichever of the examples has it
	for n, span := range examples {
		if states[n], err = f.lastState(ctx, span); err != nil {
			return nil, fmt.Errorf("find how far %s was read: %w", f.topic, err)
		}
		attempt.attempt = max(attempt.attempt, states[n].attempt)
	}
	for n := range states {
		if states[n].attempt < attempt.attempt {
			continue
		}
		for _, p := range states[n].positions {
			attempt.raise(p)
		}
		attempt.partitions = max(attempt.partitions, states[n].divisor(n))
	}
	if err := f.raiseEarlier(ctx, &attempt, states); err != nil {
		return nil, err
	}
	if attempt, err = f.unlessChanged(ctx, attempt); err != nil {
		return nil, err
	}
	if f.partitions = attempt.partitions; f.partitions == 0 || f.partitions > len(examples) {
		f.partitions = len(examples)
	}
	if f.partitions < len(examples) {
		event.Notice(f.rec, "%s goes to the first %d of %d partitions of %s, as there were so many when it was followed first: rows keep their partitions", f.topic, f.partitions, len(examples), f.Topics.Examples)
	}
	for n := range min(f.partitions, len(f.bounds)) {
		from := states[n]
		if from.attempt < attempt.attempt {
			from = topicState{attempt: attempt.attempt}
			if attempt.attempt > 1 {
				from.after = schemas.Turn(states[n].attempt, states[n].next)
			}
		}
		for q := range f.bounds {
			// The first messages of a later attempt say where it begins everywhere: partitions that get no rows for a while have only that.
			if q%f.partitions == n || attempt.attempt > 1 {
				from.raise(attempt.position(q))
			}
		}
		feeds = append(feeds, &feed{follow: f, partition: n, seen: states[n], state: from, end: examples[n].To, values: ingest.NewValues(f.job.Examples)})
	}
	return feeds, nil
}

// raiseEarlier takes over from states of earlier attempts what a process has read that did not know of the last one: it counts, if that goes
// on behind what was read, and the topic still has it.
func (f *follow) raiseEarlier(ctx context.Context, last *topicState, states []topicState) error {
	for _, earlier := range states {
		if earlier.attempt == last.attempt {
			continue
		}
		for _, p := range earlier.positions {
			if begun := last.position(p.Partition).Next; begun == 0 || p.Next <= begun || p.Partition >= len(f.bounds) || p.Next > f.bounds[p.Partition].To {
				continue
			}
			digest, err := f.digestAt(ctx, p.Partition, p.Next-1)
			if err != nil {
				return err
			}
			if digest != "" && digest == p.Last {
				last.raise(p)
			}
		}
	}
	return nil
}

// unlessChanged returns what reading goes on from: what was read last, if the topic still has it, or what the job says.
func (f *follow) unlessChanged(ctx context.Context, last topicState) (topicState, error) {
	from := topicState{attempt: last.attempt + 1, partitions: last.partitions} // behind what has changed
	var changed *ChangedTopicError                                             // the first
	for _, read := range last.positions {
		err := f.checkUnchanged(ctx, read)
		different, ok := errors.AsType[*ChangedTopicError](err)
		if err != nil && !ok {
			return from, err
		}
		if changed == nil {
			changed = different
		}
		if ok && f.job.Examples.OnChangedTopic == ingest.ChangedTopicBehind {
			was := read.Next
			if read, err = f.behind(ctx, read); err != nil {
				return from, err
			}
			event.Notice(f.rec, "%s[%d] has changed: %s. It is read from offset %d on; what has come to offsets before %d meanwhile is not read", f.topic, read.Partition, different.Why, read.Next, was)
		}
		from.raise(read)
	}
	switch {
	case changed == nil:
		return last, nil
	case f.job.Examples.OnChangedTopic == ingest.ChangedTopicBehind:
		return from, nil
	case f.job.Examples.OnChangedTopic == ingest.ChangedTopicAnew:
		event.Notice(f.rec, "%s[%d] has changed: %s. The topic is read from its beginning as another one", f.topic, changed.Partition, changed.Why)
		return topicState{attempt: last.attempt + 1}, nil
	}
	return from, changed
}

// lookBack is how many messages of a partition of the examples are read to find the last that counts. Behind it are at most the
// repetitions of some writes, and those of processes that have not seen it yet.
const lookBack = 16

// lastState returns how far the messages of a partition of the examples have read the topic.
func (f *follow) lastState(ctx context.Context, examples schemas.Span) (state topicState, err error) {
	for count := int64(lookBack); ; count *= 2 {
		from := max(examples.From, examples.To-count)
		state = topicState{}
		err := f.Between(ctx, f.Topics.Examples, examples.Partition, from, examples.To, func(m run.Message) error {
			return state.add(f.topic, m.Message)
		})
		if err != nil || state.attempt > 0 || from == examples.From {
			return state, err
		}
	}
}
