package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Feed writes one partition of the examples. Its state on the followed topic is stored in this partition. Each message
// starts where the last valid one ended. After each write, the feed checks which messages other processes have written
// before it: if one of these is valid, its own is not, and it continues from there.
type Feed struct {
	*Following
	partition  int                    // examples partition
	Seen       protocol.TopicProgress // state of the partition up to end
	state      protocol.TopicProgress // state before the next message: Seen, or that of an attempt that has not written to this partition
	end        int64                  // end offset of Seen
	values     *ingest.Values
	inputs     []*input // partitions of the topic, and of the outcomes
	bad        []schemas.Quarantined
	lacks      []string // optional columns that most rows of the batch lack, although earlier rows had them
	quarantine *protocol.Quarantine
	batch      []added                             // messages whose rows are in the batch, if values watch their columns
	since      time.Time                           // time of the first message read and not yet written
	times      [2]int64                            // timestamps of the first message in the batch, and the latest; 0: none
	joining    *joining                            // nil: the rows have labels
	counts     atomic.Pointer[examples.JoinCounts] // of the joins; nil: none yet
	waits      int                                 // number of rows that wait for their outcomes at the end
	recorded   time.Time                           // when the origins of all messages were last written
}

// input is a partition of a followed topic that a feed reads.
type input struct {
	examples.JoinInput // read position, and, with a join, the position from which it is read again
	topic              string
	rows               bool          // it has rows, not outcomes
	join               *outcome.Join // nil: the rows have labels
	end                int64         // offset up to which it is read before it is followed
	heard              time.Time     // when the last message was delivered
	used               bool          // a message of it can be used
}

func newInput(topic string, rows bool, bounds coverage.Span) *input {
	return &input{topic: topic, rows: rows, end: bounds.To, JoinInput: examples.JoinInput{Partition: bounds.Partition}}
}

// see advances the read position past a message, or several.
func (in *input) see(m protocol.Message) {
	in.Next, in.Last = m.Offset+int64(m.Len()), protocol.MarkOf(in.Partition, m).Checksum
}

// position returns the position up to which a partition was read.
func (in *input) position() schemas.TopicPosition {
	return schemas.TopicPosition{Partition: in.Partition, Next: in.Next, Last: in.Last}
}

// added is a message whose rows are in the batch.
type added struct {
	value ingest.TopicMessage
	label string           // its outcome; "": rows do not wait for outcomes
	rows  protocol.Message // messages of an archive that were added together; the zero value: value is the only one
}

// each returns the messages one by one.
func (a added) each() (all []added) {
	if a.rows.Rows == nil {
		return []added{a}
	}
	for i := range a.rows.Len() {
		m := a.rows.Part(i, i+1)
		all = append(all, added{value: ingest.MessageOf(a.value.Partition, m.Offset, m.Time, m.Message, m.Rows)})
	}
	return all
}

var (
	// errOvertaken means that another process has read the same messages and written them first.
	errOvertaken = errors.New("another process was faster")
	// errNoLongerFirst means that an attempt can't start: a process has continued the previous one.
	errNoLongerFirst = errors.New("another process also ingests the topic, and has not noticed yet that it changed: looking " +
		"again how far it was read")
)

// waitForRows is the maximum time that an example waits to be batched with others.
const waitForRows = time.Second

// maxBad is the maximum number of messages that are quarantined in one batch.
const maxBad = 100

// partsOfWindow is the minimum number of messages with the rows of a time window, if the topic has rows throughout the window.
const partsOfWindow = 24

// Run feeds the examples until the context ends, or until the end of the topic if one is set.
func (f *Feed) Run(ctx context.Context) error {
	for {
		err := f.feed(ctx)
		deleted, ok := errors.AsType[*kafkalog.DeletedError](err)
		var in *input
		if ok {
			in = f.input(deleted.Topic, deleted.Partition)
		}
		switch {
		case errors.Is(err, errOvertaken):
			event.Notice(f.Recorder, "another process also ingests %s: continuing after its messages", f.Topic)
		case in == nil:
			return err
		case deleted.Wanted >= deleted.First:
			return &ChangedTopicError{Topic: deleted.Topic, Partition: deleted.Partition, Last: deleted.Wanted - 1,
				Why: fmt.Sprintf("it ends at offset %d", deleted.End)}
		default: // deleted before they were read: continue with the remaining messages
			in.end = max(in.end, deleted.End)
		}
	}
}

// input returns the input of a partition; nil if the feed does not read it.
func (f *Feed) input(topic string, partition int) *input {
	for _, in := range f.inputs {
		if in.Partition == partition && in.topic == topic {
			return in
		}
	}
	return nil
}

// start resets the inputs and the joins to the state.
func (f *Feed) start() {
	f.values.Take()
	f.times = [2]int64{}
	f.bad, f.since, f.batch = nil, time.Time{}, nil
	from := cmp.Or(f.state.Joined, &examples.Joined{})
	for _, in := range f.inputs {
		begin, inputs := examples.JoinInput{Partition: in.Partition, Time: outcome.Never, Since: outcome.Never}, from.Outcomes
		if in.rows {
			inputs = from.Rows
		}
		for _, at := range inputs {
			if at.Partition == in.Partition {
				begin = at
			}
		}
		if in.rows {
			at := f.state.Position(in.Partition)
			begin.Next, begin.Last = at.Next, at.Last
		}
		in.JoinInput, in.heard = begin, time.Time{}
	}
	if f.joining != nil {
		f.startJoins(from)
	}
}

// feed reads from the position in the state. It returns errOvertaken if that position is outdated.
func (f *Feed) feed(ctx context.Context) error {
	f.start()
	f.done() // by another process
	if f.joining != nil {
		defer func() {
			for _, join := range f.joining.joins {
				_ = join.Close() // leftover files of waiting rows are deleted at the next start
			}
			f.joining.joins = nil
		}()
		if err := f.catchUpJoined(ctx); err != nil {
			return err
		}
	} else {
		for _, in := range f.inputs {
			if err := f.inOrder(ctx, &partitionReader{input: in, next: in.Next, to: in.end}); err != nil {
				return err
			}
		}
	}
	if err := f.flush(ctx); err != nil {
		return err
	}
	if err := f.record(ctx); err != nil {
		return err
	}
	f.noticeColumns(true)
	if f.untilEnd {
		return nil
	}
	var follow []protocol.Position
	for _, in := range f.inputs {
		next := max(in.Next, in.end) // the last offsets may hold no message
		follow = append(follow, protocol.Position{Topic: in.topic, Partition: in.Partition, Offset: next})
		f.processed(in, next)
	}
	subscription := f.Log.Subscribe(ctx, nil, follow...)
	defer subscription.Close()
	type task struct {
		every time.Duration
		last  *time.Time // zero: there is nothing to do
		do    func(context.Context) error
	}
	tasks := []task{{waitForRows, &f.since, f.flush}}
	if f.joining != nil {
		tasks = append(tasks, task{passEvery, &f.joining.passed, f.pass})
	}
	if f.Remade != nil { // often, compared with the retention of the messages
		tasks = append(tasks, task{min(f.Job.Topics.Retention.Examples/4, 10*time.Minute), &f.recorded, f.record})
	}
	for {
		timeout := time.Hour
		for _, t := range tasks {
			if !t.last.IsZero() {
				timeout = min(timeout, max(0, t.every-f.Clock.Since(*t.last)))
			}
		}
		d, _, err := subscription.Next(ctx, timeout)
		switch {
		case errors.As(err, new(*kafkalog.DeletedError)):
			return errors.Join(f.flush(ctx), err) // the messages that were read may also be lost
		case err != nil:
			return err
		case d != nil:
			// Recreating a topic takes a while, in which its readers receive nothing.
			in := f.input(d.Topic, d.Partition)
			if f.Clock.Since(in.heard) >= waitForRows {
				err = f.checkLast(ctx, d.Topic, in.position())
			}
			if err == nil {
				err = f.handle(ctx, in, d.Message)
			}
			in.heard = f.Clock.Now()
		}
		for _, t := range tasks {
			if err == nil && !t.last.IsZero() && f.Clock.Since(*t.last) >= t.every {
				err = t.do(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

// record writes the origins of the messages of the partition, if examples expire.
func (f *Feed) record(ctx context.Context) error {
	if f.Remade == nil {
		return nil
	}
	f.recorded = f.Clock.Now()
	lost, err := f.Remade.Record(ctx, f.partition, f.end)
	if !lost.Empty() {
		event.Notice(f.Recorder, "%s%v expired before their origins were written: they can't be made again from %s", f.Topics.Examples, lost,
			f.Topic)
	}
	return err
}

// handle processes a message of a partition, or several of an archive.
func (f *Feed) handle(ctx context.Context, in *input, m protocol.Message) error {
	if in.join != nil {
		return f.joinMessage(ctx, in, m)
	}
	for from, length := 0, m.Len(); from < length; {
		part := m.Part(from, length)
		if n := f.putRows(in.Partition, part); n > 0 {
			part = part.Part(0, n)
		} else {
			part = part.Part(0, 1)
			value, err := f.valueOf(ctx, in.Partition, part)
			if err == nil {
				err = f.put(ctx, added{value: value})
			}
			if err != nil {
				return err
			}
		}
		in.see(part)
		if err := f.afterEvent(ctx); err != nil {
			return err
		}
		from += part.Len()
	}
	return nil
}

// putRows adds the first messages of an archive to the batch, and returns their number; 0: put must add the first one.
func (f *Feed) putRows(partition int, m protocol.Message) (n int) {
	if m.Rows == nil || m.Copy != nil {
		return 0
	}
	first, near := f.times[0], 0
	for near < m.Len() {
		at := m.Rows.Time(near)
		if first = cmp.Or(first, at); f.isApart(first, at) {
			break
		}
		near++
	}
	if near > 0 {
		n = f.values.AddRows(partition, m.Offset, m.Part(0, near).Rows)
	}
	if n == 0 {
		return 0
	}
	for i := range n {
		f.addTime(m.Rows.Time(i))
	}
	if f.values.Watches() {
		f.batch = append(f.batch, added{value: ingest.TopicMessage{Partition: partition}, rows: m.Part(0, n)})
	}
	if f.since.IsZero() {
		f.since = f.Clock.Now()
	}
	return n
}

// isApart reports whether rows with timestamp at are too far from the first rows of the batch to be in it. A time window drops
// whole messages, so the rows of a message must not be far apart in time.
func (f *Feed) isApart(first, at int64) bool {
	apart := f.Job.Retrain.Window.Time.Milliseconds() / partsOfWindow
	return apart > 0 && first > 0 && at > first+apart
}

// addTime adds the timestamp of a message to those of the batch.
func (f *Feed) addTime(at int64) {
	if at > 0 {
		f.times = [2]int64{cmp.Or(f.times[0], at), max(f.times[1], at)}
	}
}

// valueOf converts a message of the topic for ingest. It returns an error if the archive has another message at its offset.
func (f *Feed) valueOf(ctx context.Context, partition int, m protocol.Message) (value ingest.TopicMessage, err error) {
	value = ingest.MessageOf(partition, m.Offset, m.Time, m.Message, m.Rows)
	value.Changed = m.Changed
	for c := m.Copy; c != nil && err == nil; c = c.Copy {
		err = f.values.CheckCopy(ctx, value, m.File, ingest.MessageOf(partition, c.Offset, c.Time, c.Message, c.Rows), c.File)
	}
	return value, err
}

// put adds the rows of a message to the batch, or quarantines the message. If the batch is full, it is written first.
func (f *Feed) put(ctx context.Context, m added) error {
	value, full := m.value, false
	add := func() (err error) {
		full, err = f.values.AddLabelled(ctx, value, m.label)
		return err
	}
	if f.isApart(f.times[0], value.Time) {
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
	err := f.whileAway(ctx, f.flush, add)
	if full {
		if err := f.flush(ctx); err != nil {
			return err
		}
		err = add()
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if err := f.refuse(ctx, f.Topic, value, err); err != nil {
			return err
		}
	} else if f.values.Watches() {
		f.batch = append(f.batch, m)
	}
	if err == nil {
		f.addTime(value.Time)
	}
	if f.since.IsZero() {
		f.since = f.Clock.Now()
	}
	return nil
}

// full reports whether the batch must be written.
func (f *Feed) full() bool { return f.values.Full() || len(f.bad) >= maxBad }

// refuse quarantines a message with a reason, or returns the reason if it ends ingest.
func (f *Feed) refuse(ctx context.Context, topic string, m ingest.TopicMessage, reason error) error {
	if unusable, _ := ingest.Unusable(reason); !unusable || f.Job.OnBadMessage == schemas.StopOnBadMessage {
		return errors.Join(f.flush(ctx), errors.New(reasonOf(topic, m.Partition, m.Offset, reason.Error())))
	}
	f.bad = append(f.bad, schemas.Quarantined{
		Topic: topic, Partition: m.Partition, Offset: m.Offset, Reason: schemas.QuarantineReason(reason), Key: m.Key, Bytes: len(m.Value),
		Trace: m.Trace, Value: m.Value,
	})
	return nil
}

// refuseLost refuses the messages of the batch without columns that most new rows lack, although earlier rows had them.
func (f *Feed) refuseLost(ctx context.Context) error {
	lost := f.values.Lost()
	if lost == nil {
		return nil
	}
	f.lacks = slices.Sorted(maps.Keys(lost.Optional))
	for _, column := range f.lacks {
		f.Recorder.Record(event.ColumnLost{Topic: f.Topic, Column: column, Rows: lost.Optional[column], Optional: true})
	}
	if !lost.Any() {
		return nil
	}
	batch, rows := f.batch, map[string]int64{}
	f.values.Take()
	f.batch, f.times = nil, [2]int64{}
	for _, several := range batch {
		for _, m := range several.each() {
			columns := lost.Of(m.value)
			if len(columns) == 0 {
				if err := f.put(ctx, m); err != nil {
					return err
				}
				continue
			}
			again, err := f.quarantine.Has(ctx, &schemas.Quarantined{Topic: f.Topic, Partition: m.value.Partition, Offset: m.value.Offset})
			if err != nil {
				return err
			}
			if err := f.refuse(ctx, f.Topic, m.value, f.values.Lacks(ctx, m.value, columns)); err != nil {
				return err
			}
			for column, n := range columns {
				if !again {
					rows[column] += n
				}
			}
		}
	}
	for _, column := range slices.Sorted(maps.Keys(rows)) {
		f.Recorder.Record(event.ColumnLost{Topic: f.Topic, Column: column, Rows: rows[column]})
	}
	return nil
}

// maxThere is the maximum number of offsets of the quarantine topic that are read to find messages that are already in quarantine.
const maxThere = 100_000

// flush writes the batch. It quarantines unusable messages first: once the batch is written, they are not read again.
func (f *Feed) flush(ctx context.Context) error {
	if err := f.refuseLost(ctx); err != nil {
		return err
	}
	put, err := f.quarantine.Put(ctx, f.bad)
	if err != nil {
		return err
	}
	for _, q := range put {
		f.Recorder.Record(event.Quarantined{Topic: q.Topic, Partition: q.Partition, Offset: q.Offset, Reason: q.Reason})
	}
	f.bad, f.since = nil, time.Time{}
	rows, latest := f.values.Take(), f.times[1]
	f.batch, f.times = f.batch[:0], [2]int64{}
	defer func() { f.lacks = nil }()
	if rows == nil {
		f.done()
		return nil // the messages have no examples, and are read again if this process ends before the next ones
	}
	f.noticeColumns(false)
	after := f.state
	after.After = ""
	for _, in := range f.inputs {
		if in.rows && in.Next > 0 {
			after.Raise(in.position())
		}
	}
	origin := schemas.Origin{
		Source: schemas.TopicSource(f.Topic), Attempt: strconv.Itoa(f.state.Attempt), Sequence: f.state.Next, Partitions: f.Partitions,
		After: f.state.After,
	}
	if f.joining != nil {
		origin.Next = f.state.Next + 1
		after.Joined = f.joinedNow()
	}
	m, err := origin.TopicMessage(after.Positions, rows, f.Memory)
	if err != nil {
		return err
	}
	if latest > 0 {
		m.Headers = append(m.Headers, schemas.TimeHeader(latest))
	}
	if len(f.lacks) > 0 {
		m.Headers = append(m.Headers, schemas.LackingHeader(f.lacks))
	}
	if f.joining != nil {
		m.Headers = append(m.Headers, after.Joined.Header())
	}
	at, err := f.Log.Append(ctx, f.Topics.Examples, f.partition, m)
	if err != nil {
		return err
	}
	if err := f.see(ctx, at, m); err != nil {
		return err
	}
	if f.Seen.Attempt < f.state.Attempt {
		return errNoLongerFirst
	}
	f.state = f.Seen
	if f.state.Attempt != after.Attempt || !slices.Equal(f.state.Positions, after.Positions) || !f.state.Joined.Equal(after.Joined) {
		return errOvertaken
	}
	f.done()
	f.rows.Add(int64(rows.Rows))
	f.Recorder.Record(f.ingested(false))
	return nil
}

// done records that all messages that were read are processed.
func (f *Feed) done() {
	for _, in := range f.inputs {
		f.processed(in, in.Next)
	}
}

// processed records that all rows of a partition before an offset are processed.
func (f *Feed) processed(in *input, next int64) {
	if in.rows {
		f.next[in.Partition].Store(max(f.next[in.Partition].Load(), next))
	}
}

// see updates the state with the messages of the partition up to m, which this feed has written at offset at.
func (f *Feed) see(ctx context.Context, at int64, m wire.Message) error {
	switch {
	case at < f.end:
		return fmt.Errorf("%s[%d] ended at offset %d, and now at %d: the topic was recreated; ingest again", f.Topics.Examples,
			f.partition, f.end, at)
	case at == f.end:
		if err := f.Seen.Add(f.Topic, m); err != nil {
			return err
		}
	default:
		for m, err := range f.Between(ctx, f.Topics.Examples, f.partition, f.end, at+1) {
			if err == nil {
				err = f.Seen.Add(f.Topic, m.Message)
			}
			if err != nil {
				return fmt.Errorf("read what others have written to %s[%d]: %w", f.Topics.Examples, f.partition, err)
			}
		}
	}
	f.end = at + 1
	return nil
}

// noticeColumns reports columns that need an offset, and columns that may be misspelt, each once. end means that the topic has no further
// rows for now.
func (f *Feed) noticeColumns(end bool) {
	for _, name := range f.values.Absent(end) {
		if !f.first("no values of " + name) {
			continue
		}
		instead := f.values.Instead(name)
		if instead != "" {
			instead = ": " + instead
		}
		key, then := "columns.use", "Missing values are handled according to examples.missing"
		if served := f.Job.Examples.Served; name == string(served.Label) || name == string(served.Version) {
			key, then = "served", "Rows without it count as not served"
		}
		event.Notice(f.Recorder, "column %q of %s: none of the first rows has a value%s. Check its name in examples.%s. %s", name, f.Topic,
			instead, key, then)
	}
	needed := f.values.NeededOffsets()
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if f.first("an offset of " + name) {
			event.Notice(f.Recorder, "column %q of %s: its values are too large for float32 to keep their differences. Set "+
				"examples.offsets: {%s: %s} before a version learns them",
				name, f.Topic, name, strconv.FormatFloat(needed[name], 'f', -1, 64))
		}
	}
}
