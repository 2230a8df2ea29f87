package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// feed writes one partition of the examples. It knows of the topic what this partition says. Each message that it writes begins where the
// last that counts ended. After each write it looks at what others have written before it: if that counts, its own does not, and it
// goes on from there.
type feed struct {
	*follow
	partition int        // of the examples
	seen      topicState // what the partition says up to end
	state     topicState // what the next message begins with: what was seen, or an attempt that has written nothing here
	end       int64      // of what was seen
	values    *ingest.Values
	read      map[int]run.Message // by partition of the topic: the message that was read last since the state
	bad       []schemas.Quarantined
	since     time.Time // when the first message was read that is not written
}

var (
	// errOvertaken says that another process has read the same messages and written them first.
	errOvertaken = errors.New("another process was faster")
	// errNoLongerFirst says that an attempt can't begin here: a process has gone on with the one before it.
	errNoLongerFirst = errors.New("another process ingests the topic too, and does not know yet that it has changed: looking again how far it was read")
)

// waitForRows is how long an example waits for others, to be in a message with them.
const waitForRows = time.Second

// maxBad is how many messages wait to be put into quarantine together.
const maxBad = 100

func (f *feed) run(ctx context.Context) error {
	for {
		err := f.feed(ctx)
		deleted, ok := errors.AsType[*kafkalog.DeletedError](err)
		switch {
		case errors.Is(err, errOvertaken):
			event.Notice(f.rec, "another process ingests %s too: this one goes on behind it", f.topic)
		case !ok || deleted.Topic != f.topic:
			return err
		case deleted.Wanted >= deleted.First:
			return &ChangedTopicError{Topic: f.topic, Partition: deleted.Partition, Last: deleted.Wanted - 1, Why: fmt.Sprintf("it ends at offset %d", deleted.End)}
		default: // before they were read: what there is now is read again
			f.bounds[deleted.Partition].To = max(f.bounds[deleted.Partition].To, deleted.End)
		}
	}
}

// feed reads from where the state says. It returns errOvertaken if that is not where it should read.
func (f *feed) feed(ctx context.Context) error {
	f.values.Take()
	f.read, f.bad, f.since = map[int]run.Message{}, nil, time.Time{}
	var follow []run.Position
	for q := f.partition; q < len(f.bounds); q += f.partitions {
		if err := f.catchUp(ctx, q); err != nil {
			return err
		}
		follow = append(follow, run.Position{Topic: f.topic, Partition: q, Offset: max(f.state.position(q).Next, f.bounds[q].To)})
	}
	if err := f.flush(ctx); err != nil || f.untilEnd {
		return err
	}
	subscription := f.Log.Subscribe(ctx, nil, follow...)
	defer subscription.Close()
	heard := map[int]time.Time{} // when the last message came, by partition of the topic
	for {
		timeout := time.Hour
		if !f.since.IsZero() {
			timeout = max(0, waitForRows-time.Since(f.since))
		}
		d, late, err := subscription.Next(ctx, timeout)
		switch {
		case errors.As(err, new(*kafkalog.DeletedError)):
			return errors.Join(f.flush(ctx), err) // what was read may be gone too
		case err != nil:
			return err
		case late:
			err = f.flush(ctx)
		case d != nil:
			// A topic takes a while to be made anew, and its readers hear nothing meanwhile.
			if time.Since(heard[d.Partition]) >= waitForRows {
				err = f.checkLast(ctx, f.state.position(d.Partition))
			}
			if err == nil {
				err = f.add(ctx, d.Partition, d.Message)
			}
			heard[d.Partition] = time.Now()
		}
		if err == nil && !f.since.IsZero() && time.Since(f.since) >= waitForRows {
			err = f.flush(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// catchUp reads what a partition of the topic had when following began.
func (f *feed) catchUp(ctx context.Context, partition int) error {
	for next := f.state.position(partition).Next; next < f.bounds[partition].To; {
		first, _, err := f.Log.Bounds(ctx, f.topic, partition)
		if err != nil {
			return err
		}
		if first > next && next > 0 {
			event.Notice(f.rec, "%d offsets of %s[%d] were deleted before they were read: %d to %d. What they had is not learnt", first-next, f.topic, partition, next, first-1)
		}
		next = max(next, first)
		err = f.Between(ctx, f.topic, partition, next, f.bounds[partition].To, func(m run.Message) error {
			next = m.Offset + 1
			return f.add(ctx, partition, m)
		})
		if deleted := (*kafkalog.DeletedError)(nil); !errors.As(err, &deleted) || deleted.Topic != f.topic || deleted.Wanted >= deleted.First {
			return err
		}
	}
	return nil
}

// add takes a message of the topic into the batch.
func (f *feed) add(ctx context.Context, partition int, m run.Message) error {
	value := ingest.TopicMessage{Partition: partition, Offset: m.Offset, Key: m.Key, Value: m.Value}
	full, err := f.values.Add(value)
	if full {
		if err := f.flush(ctx); err != nil {
			return err
		}
		_, err = f.values.Add(value)
	}
	if err != nil {
		if f.job.OnBadMessage == schemas.StopOnBadMessage {
			return errors.Join(f.flush(ctx), fmt.Errorf("%s[%d]@%d: %w", f.topic, partition, m.Offset, err))
		}
		f.bad = append(f.bad, schemas.Quarantined{
			Topic: f.topic, Partition: partition, Offset: m.Offset, Reason: schemas.QuarantineReason(err), Key: m.Key, Bytes: len(m.Value), Value: m.Value,
		})
	}
	f.read[partition] = m
	if f.since.IsZero() {
		f.since = time.Now()
	}
	if f.values.Full() || len(f.bad) == maxBad {
		return f.flush(ctx)
	}
	return nil
}

// flush writes the batch. Before, it puts into quarantine what can't be used: once the batch is written, that is not read again.
func (f *feed) flush(ctx context.Context) error {
	if err := f.quarantine(ctx); err != nil {
		return err
	}
	f.since = time.Time{}
	rows := f.values.Take()
	if rows == nil {
		return nil // what was read has no examples, and is read again if this process ends before there are some
	}
	after := f.state
	after.after = ""
	for _, q := range slices.Sorted(maps.Keys(f.read)) {
		after.raise(schemas.TopicPosition{Partition: q, Next: f.read[q].Offset + 1, Last: digestOf(f.read[q])})
	}
	clear(f.read)
	origin := schemas.Origin{
		Source: schemas.TopicSource(f.topic), Attempt: strconv.Itoa(f.state.attempt), Sequence: f.state.next, Partitions: f.partitions, After: f.state.after,
	}
	m, err := origin.TopicMessage(after.positions, rows, f.memory)
	if err != nil {
		return err
	}
	at, err := f.Log.Append(ctx, f.Topics.Examples, f.partition, m)
	if err != nil {
		return err
	}
	if err := f.see(ctx, at, m); err != nil {
		return err
	}
	if f.seen.attempt < f.state.attempt {
		return errNoLongerFirst
	}
	f.state = f.seen
	if f.state.attempt != after.attempt || !slices.Equal(f.state.positions, after.positions) {
		return errOvertaken
	}
	f.rows.Add(int64(rows.Rows))
	f.rec.Record(f.ingested(false))
	return nil
}

// see takes into account what the partition has up to our message at an offset.
func (f *feed) see(ctx context.Context, at int64, m schemas.Message) error {
	switch {
	case at < f.end:
		return fmt.Errorf("%s[%d] ended at offset %d, and now at %d: the topic was made anew; ingest again", f.Topics.Examples, f.partition, f.end, at)
	case at == f.end:
		if err := f.seen.add(f.topic, m); err != nil {
			return err
		}
	default:
		err := f.Between(ctx, f.Topics.Examples, f.partition, f.end, at+1, func(m run.Message) error { return f.seen.add(f.topic, m.Message) })
		if err != nil {
			return fmt.Errorf("read what others have written to %s[%d]: %w", f.Topics.Examples, f.partition, err)
		}
	}
	f.end = at + 1
	return nil
}

// quarantine puts the messages of the topic that can't be used onto the quarantine topic.
func (f *feed) quarantine(ctx context.Context) error {
	messages := make([]schemas.Message, len(f.bad))
	for i := range f.bad {
		messages[i] = f.bad[i].Message()
	}
	if _, err := f.Log.Append(ctx, f.Topics.Quarantine, 0, messages...); err != nil {
		return fmt.Errorf("put %d messages of %s into quarantine: %w", len(messages), f.topic, err)
	}
	for _, q := range f.bad {
		f.rec.Record(event.Quarantined{Topic: q.Topic, Partition: q.Partition, Offset: q.Offset, Reason: q.Reason})
	}
	f.bad = nil
	return nil
}
