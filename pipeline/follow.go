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
// the topic has now.
//
// Partition q of the topic goes to partition q mod P of the examples, of which there are P. Several processes may follow a topic:
// what one has written the others don't count again.
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
	bounds, err := p.Log.Spans(ctx, topic)
	if err != nil {
		return fmt.Errorf("examples.from_topic: %w", err)
	}
	if err := p.create(ctx, &job); err != nil {
		return err
	}
	f := &follow{pipeline: p, topic: topic, bounds: bounds, job: job, untilEnd: untilEnd, rec: rec}
	feeds, err := f.begin(ctx)
	if err != nil {
		return fmt.Errorf("find how far %s was read: %w", topic, err)
	}
	if !untilEnd {
		rec.Record(event.Following{Topic: topic})
	}
	group, running := errgroup.WithContext(ctx)
	for _, feed := range feeds {
		group.Go(func() error { return feed.run(running) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	rec.Record(f.ingested(true))
	return nil
}

// follow is a topic whose messages become examples.
type follow struct {
	*pipeline
	topic    string
	bounds   []schemas.Span // of the topic, when following began
	job      Job
	untilEnd bool
	rec      event.Recorder
	rows     atomic.Int64 // that were written
}

func (f *follow) ingested(done bool) event.Ingested {
	return event.Ingested{Files: []string{"topic " + f.topic}, Split: schemas.Train, Rows: f.rows.Load(), Done: done}
}

// begin returns a feed for each partition of the examples to which partitions of the topic go.
func (f *follow) begin(ctx context.Context) (feeds []*feed, err error) {
	examples, err := f.Log.Spans(ctx, f.Topics.Examples)
	if err != nil {
		return nil, err
	}
	states, attempt := make([]topicState, len(examples)), 1
	for n, span := range examples {
		if states[n], err = f.lastState(ctx, span); err != nil {
			return nil, err
		}
		attempt = max(attempt, states[n].attempt)
	}
	next := make([]schemas.TopicPosition, len(f.bounds)) // how far each partition of the topic was read, whichever partition of the examples has it
	for q := range next {
		next[q].Partition = q
	}
	for n := range states {
		if states[n].attempt < attempt {
			states[n] = topicState{attempt: attempt}
		}
		for _, p := range states[n].positions {
			if p.Partition < len(next) && p.Next > next[p.Partition].Next {
				next[p.Partition] = p
			}
		}
	}
	anew, err := f.anew(ctx, next)
	if err != nil {
		return nil, err
	}
	if anew {
		event.Notice(f.rec, "%s was made anew since it was read last: it is read from its beginning", f.topic)
		attempt++
	}
	for n := range min(len(states), len(f.bounds)) {
		state := states[n]
		if anew {
			state = topicState{attempt: attempt}
		}
		for q := n; q < len(f.bounds); q += len(states) {
			if anew {
				next[q] = schemas.TopicPosition{Partition: q}
			}
			state.raise(next[q])
		}
		feeds = append(feeds, &feed{follow: f, partition: n, state: state, end: examples[n].To, values: ingest.NewValues(f.job.Examples)})
	}
	return feeds, nil
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

// anew reports whether the topic is another one than that which was read: it ends before, or has another message where the last was that
// was read.
func (f *follow) anew(ctx context.Context, read []schemas.TopicPosition) (anew bool, err error) {
	for q, p := range read {
		switch bounds := f.bounds[q]; {
		case p.Next > bounds.To:
			return true, nil
		case p.Next <= bounds.From: // nothing was read, or it has expired
			continue
		}
		err := f.Between(ctx, f.topic, q, p.Next-1, p.Next, func(m run.Message) error {
			anew = anew || digestOf(m) != p.Last
			return nil
		})
		if errors.As(err, new(*kafkalog.DeletedError)) {
			continue // it has expired meanwhile
		}
		if err != nil || anew {
			return anew, err
		}
	}
	return false, nil
}

// digestOf returns a digest of a message of the topic, to recognise it by.
func digestOf(m run.Message) schemas.Digest {
	return schemas.Digest(schemas.DigestJSON([]any{m.Time.UnixMilli(), m.Key, m.Value}).Short())
}
