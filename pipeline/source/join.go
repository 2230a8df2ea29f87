package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// joining is a feed's state of rows that wait for their outcomes: see package outcome. It is a function of the feed's
// state, and is rebuilt from both topics at the start.
type joining struct {
	keys     *ingest.RowKeys
	outcomes *ingest.Outcomes
	joins    []*outcome.Join // one for each partition of the rows, or one for all
	passed   time.Time       // last check for silent partitions
	// written are the positions of rows that are examples, from those on that are read again, if some of their outcomes are deleted. Nil:
	// none are, and the outcomes that are read again show which rows no longer wait.
	written map[coverage.Mark]bool
}

// beginJoins reads the offset ranges of the outcomes topic, and decides how rows find their outcomes, unless that is recorded.
func (f *Following) beginJoins(ctx context.Context, states []protocol.TopicProgress) (err error) {
	topic := f.Job.Examples.Outcome.Topic
	if topic == "" {
		return nil
	}
	if f.outcomes, err = f.Log.Spans(ctx, topic); err != nil {
		return fmt.Errorf("examples.outcome.topic: %w", err)
	}
	// Message keys determine the partition.
	f.byPartition = len(f.Bounds) == len(f.outcomes) && f.Job.Examples.JoinKey == "" && f.Job.Examples.Outcome.Key == ""
	for i := range states {
		if j := states[i].Joined; j != nil && len(j.Joins) > 0 { // as when the join began
			f.byPartition = f.byPartition && j.Joins[0].Partition >= 0
			if f.schemas = j.Schemas; len(f.schemas) == 0 { // or before there were keys that show them
				f.schemas, _, err = f.sampleKeys(ctx)
			}
			return err
		}
	}
	var together bool
	f.schemas, together, err = f.sampleKeys(ctx)
	f.byPartition = f.byPartition && together
	return err
}

// sampledKeys is the number of messages of a partition whose keys are compared with those of the other topic.
const sampledKeys = 64

// sampleKeys finds the schemas of the message keys, the time of the first rows, and whether rows can have their outcomes in the same
// partition: both topics must have keys, all in one encoding, and equal keys in the same partition. The encoding of a topic without keys
// is unknown: every row is then joined with all outcomes.
func (f *Following) sampleKeys(ctx context.Context) (ids []int, together bool, err error) {
	type sampled struct {
		key       string
		partition int
	}
	var both [2][]sampled
	var keys []string
	f.young = false
	first := int64(outcome.Never)
	for i, of := range []struct{ topic, key string }{
		{f.Topic, f.Job.Examples.JoinKey}, {f.Job.Examples.Outcome.Topic, f.Job.Examples.Outcome.Key}} {
		spans, err := f.Log.Spans(ctx, of.topic)
		if err != nil {
			return nil, false, err
		}
		for _, s := range spans {
			for m, err := range f.Remaining(ctx, of.topic, s.Partition, s.From, min(s.To, s.From+sampledKeys)) {
				if err != nil {
					return nil, false, err
				}
				if at := outcome.TimeOf(m.Time); i == 0 && (at < first || first == outcome.Never) {
					first = at
				}
				if of.key == "" && m.Key != "" && len(m.Value) > 0 { // otherwise keys are in the values
					both[i], keys = append(both[i], sampled{m.Key, s.Partition}), append(keys, m.Key)
				}
			}
		}
		f.young = f.young || of.key == "" && len(both[i]) < sampledKeys
	}
	f.firstRow.Store(first)
	ids = outcome.SchemasOf(keys)
	encodings, partitionOf := map[string]bool{}, map[string]int{}
	for _, k := range both[0] {
		partitionOf[k.key] = k.partition
	}
	together = f.Job.Examples.Outcome.KeyFormat == outcome.KeyAuto && len(both[0]) > 0 && len(both[1]) > 0
	for _, k := range slices.Concat(both[0], both[1]) {
		encodings[outcome.KeyEncoding(k.key, ids)] = true
		partition, known := partitionOf[k.key]
		together = together && (!known || partition == k.partition)
	}
	return ids, together && len(encodings) == 1, nil
}

// beginJoining initializes the waiting rows of a feed. last is the state that it continues from, which may be of an
// earlier attempt to read the topic.
func (f *Feed) beginJoining(ctx context.Context, last protocol.TopicProgress) (err error) {
	if f.outcomes == nil {
		return nil
	}
	o := f.Job.Examples
	for n, bounds := range f.outcomes {
		if !f.byPartition || n%f.Partitions == f.partition {
			f.inputs = append(f.inputs, newInput(o.Outcome.Topic, false, bounds))
		}
	}
	f.joining = &joining{}
	if f.joining.keys, err = ingest.NewRowKeys(o, f.schemas); err != nil {
		return err
	}
	if f.joining.outcomes, err = ingest.NewOutcomes(o, f.schemas); err != nil {
		return err
	}
	if len(last.Positions) > 0 && last.Joined == nil || last.Joined != nil && last.Joined.Rule != o.JoinRule(f.byPartition) {
		return fmt.Errorf("examples.outcome: rows of %s were joined with other keys, times or partitions, which determine the waiting "+
			"rows: restore examples.key, examples.outcome and the numbers of partitions, or give the pipeline another name", f.Topic)
	}
	if f.state.Joined == nil {
		return nil
	}
	joined := *f.state.Joined
	joined.Rows = append([]examples.JoinInput(nil), joined.Rows...)
	joined.Outcomes = append([]examples.JoinInput(nil), joined.Outcomes...)
	anew := f.state.Attempt > last.Attempt
	for i := range joined.Rows { // no row of a changed topic waits
		in := &joined.Rows[i]
		if now, was := f.state.Position(in.Partition), last.Position(in.Partition); now != was {
			anew = anew && now.Next == 0
			in.From, in.Since = now.Next, in.Time
		} else {
			anew = false
		}
	}
	if anew { // read from the start
		f.state.Joined = nil
		return nil
	}
	lost := false
	for i := range joined.Outcomes {
		in := &joined.Outcomes[i]
		lost = lost || in.From < min(f.outcomes[in.Partition].From, in.Next)
		read := schemas.TopicPosition{Partition: in.Partition, Next: in.Next, Last: in.Last}
		read, changed, err := f.proven(ctx, o.Outcome.Topic, f.outcomes, read)
		switch {
		case err != nil:
			return err
		case changed != nil && !f.decided():
			return changed
		case changed != nil:
			event.Notice(f.Recorder, "%s[%d] has changed: %s. Reading continues at offset %d", changed.Topic, changed.Partition, changed.Why,
				read.Next)
			in.Next, in.Last, in.From, in.Since, lost = read.Next, read.Last, read.Next, in.Time, true
		}
	}
	f.state.Joined = &joined
	if lost {
		f.joining.written, err = f.writtenRows(ctx, joined.Rows)
	}
	return err
}

// writtenRows returns the positions of the rows that are examples, from those on that are read again: of messages that count, and of this
// attempt, as the topic may have had other rows at these offsets before.
func (f *Feed) writtenRows(ctx context.Context, again []examples.JoinInput) (map[coverage.Mark]bool, error) {
	from, written := map[int]int64{}, map[coverage.Mark]bool{}
	for _, in := range again {
		from[in.Partition] = in.From
	}
	counting := protocol.NewCounting(&schemas.Plan{Foreign: true}).Replay(coverage.Span{Partition: f.partition})
	source, attempt := schemas.TopicSource(f.Topic), strconv.Itoa(f.state.Attempt)
	for m, err := range f.Remaining(ctx, f.Topics.Examples, f.partition, 0, f.end) {
		if err != nil {
			return nil, err
		}
		counts := counting.Accept(m.Message) == ""
		if origin, ok := schemas.OriginOf(m.Message); !counts || !ok || origin.Source != source || origin.Attempt != attempt {
			continue
		}
		origins, err := examples.RowOriginsOf(m.Message)
		if err != nil {
			return nil, err
		}
		for _, of := range origins {
			for offset := max(of.Offset, from[of.Partition]); offset < of.Offset+int64(of.Messages); offset++ {
				written[coverage.Mark{Partition: of.Partition, Offset: offset}] = true
			}
		}
	}
	return written, nil
}

// startJoins creates empty joins at the start positions of the inputs.
func (f *Feed) startJoins(from *examples.Joined) {
	f.joining.passed = time.Time{}
	joins, all := map[int]*outcome.Join{}, len(f.Bounds)
	if !f.byPartition {
		all = min(f.Partitions, all)
	}
	for _, in := range f.inputs {
		pair, number := -1, f.partition
		if f.byPartition {
			pair, number = in.Partition, in.Partition
		}
		if joins[pair] == nil {
			cursor := outcome.Begin(pair)
			for _, c := range from.Joins {
				if c.Partition == pair {
					cursor = c
				}
			}
			if f.joining.written != nil {
				cursor.Labelled = 0 // these rows are written
			}
			joins[pair] = outcome.New(f.Job.Examples.Outcome, number, all, cursor)
			joins[pair].First = f.firstRow.Load()
			f.joining.joins = append(f.joining.joins, joins[pair])
		}
		in.join = joins[pair]
		in.join.Read(in.rows, in.JoinInput)
	}
}

// catchUpJoined rebuilds the waiting rows, and reads the initial messages of both topics, in timestamp order.
func (f *Feed) catchUpJoined(ctx context.Context) error {
	j := f.joining
	var again, further []*partitionReader
	for _, in := range f.inputs {
		again = append(again, &partitionReader{input: in, next: in.From, to: in.Next, time: in.Since})
		further = append(further, &partitionReader{input: in, next: in.Next, to: in.end, time: in.Time})
	}
	if err := f.inOrder(ctx, again...); err != nil {
		return err
	}
	for _, join := range j.joins {
		if err := join.Resume(f.decide(ctx)); err != nil {
			return err
		}
	}
	if err := f.inOrder(ctx, further...); err != nil {
		return err
	}
	if err := f.pass(ctx); err != nil {
		return err
	}
	if f.untilEnd {
		f.waits = 0
		for _, join := range j.joins {
			f.waits += join.Waiting()
		}
	}
	return nil
}

// errNoTime is the reason for a message without a timestamp at the start of its partition.
var errNoTime = errors.New("neither the message nor an earlier one in its partition has a timestamp, which examples.outcome.within " +
	"needs: configure the producer to write timestamps")

// joinMessage processes a row or an outcome.
func (f *Feed) joinMessage(ctx context.Context, in *input, m protocol.Message) error {
	j, at := f.joining, outcome.TimeOf(m.Time)
	again := in.join.Again
	if in.rows && again && j.written[coverage.Mark{Partition: in.Partition, Offset: m.Offset}] {
		in.join.See(in.Partition, m.Offset, at)
		return nil
	}
	value, err := f.valueOf(ctx, in.Partition, m)
	if err != nil {
		return err
	}
	key, isRow, packed, labels := "", false, []byte(nil), []outcome.Labelled(nil)
	err = f.whileAway(ctx, f.flush, func() (err error) {
		if !in.rows {
			labels, err = j.outcomes.Read(ctx, value)
			return err
		}
		if key, isRow, err = j.keys.Of(ctx, value); err == nil && isRow {
			packed, err = f.values.Pack(ctx, value)
		}
		return err
	})
	if unusable, _ := ingest.Unusable(err); err != nil && (!unusable || ctx.Err() != nil) {
		return errors.Join(f.flush(ctx), fmt.Errorf("%s[%d]@%d: %w", in.topic, in.Partition, m.Offset, err))
	}
	if err == nil && (isRow || !in.rows) && at == outcome.Never && in.join.Time(in.rows, in.Partition) == outcome.Never {
		err = errNoTime
	}
	if err != nil {
		labels = nil
	}
	// Exactly one of the feeds that read an outcome refuses it.
	mine := in.rows || f.byPartition || in.Partition%min(f.Partitions, len(f.Bounds)) == f.partition
	if err != nil && !again && mine {
		if err := f.refuse(ctx, in.topic, value, err); err != nil {
			return err
		}
	}
	switch {
	case !in.rows:
		in.used = in.used || err == nil
		if !again { // the cursor says which rows it has been joined with
			in.see(m)
		}
		o := outcome.Outcome{Partition: in.Partition, Offset: m.Offset, Time: at, Bytes: m.Key, Labels: labels}
		err = in.join.Outcome(o, f.decide(ctx))
	case err == nil && isRow:
		in.used = true
		row := outcome.Message{Partition: in.Partition, Offset: m.Offset, Time: at, Bytes: m.Key, Key: key, Value: packed}
		err = in.join.Row(row, f.decide(ctx))
	default:
		in.join.See(in.Partition, m.Offset, at)
		err = nil
	}
	if err != nil || again {
		return err
	}
	if in.rows {
		in.see(m)
	}
	return f.afterEvent(ctx)
}

// afterEvent writes the batch if it is full.
func (f *Feed) afterEvent(ctx context.Context) error {
	if len(f.bad) > 0 && f.since.IsZero() {
		f.since = f.Clock.Now()
	}
	if f.since.IsZero() {
		f.done()
	}
	if f.full() {
		return f.flush(ctx)
	}
	return nil
}

// decide returns a function that adds decided rows to the batch. The join calls it before it marks the rows as decided, so
// it may write rows decided earlier.
func (f *Feed) decide(ctx context.Context) func(outcome.Decided) error {
	return func(d outcome.Decided) error {
		said, isExample := d.Label, true
		if d.Absent {
			said, isExample = f.Job.Examples.WhenAbsent()
		}
		if !isExample {
			return nil
		}
		if f.full() {
			if err := f.flush(ctx); err != nil {
				return err
			}
		}
		return f.put(ctx, added{value: ingest.Unpack(d.Partition, d.Offset, d.Value), label: said})
	}
}

// joinedNow returns the current positions of the join.
func (f *Feed) joinedNow() *examples.Joined {
	now := &examples.Joined{Rule: f.Job.Examples.JoinRule(f.byPartition), Limit: f.Job.Examples.Outcome.Unmatched,
		Schemas: f.schemas}
	for _, join := range f.joining.joins {
		now.Joins = append(now.Joins, join.Cursor())
	}
	for _, in := range f.inputs {
		from := in.join.From(in.rows, in.Partition)
		if in.rows {
			now.Rows = append(now.Rows, from)
			continue
		}
		at := in.position()
		from.Next, from.Last = at.Next, at.Last
		now.Outcomes = append(now.Outcomes, from)
	}
	counts, _ := now.Counts()
	if counts = counts.OrEarly(); 2*counts.Alone() > counts.Outcomes {
		now.RowKey, now.OutcomeKey = f.keysAlone()
	}
	return now
}

// keysAlone returns texts with the keys of a row and of an outcome without a row; "" if there are none.
func (f *Feed) keysAlone() (rowKey, outcomeKey string) {
	o := f.Job.Examples
	for _, join := range f.joining.joins {
		if row, alone, ok := join.Keys(); ok {
			return keyText(f.Topic, o.JoinKey, row), keyText(o.Outcome.Topic, o.Outcome.Key, alone)
		}
	}
	return "", ""
}

// maxKeyShown is the maximum number of bytes of a key in messages.
const maxKeyShown = 32

// keyText describes the key of a message: its place, its bytes, and the text read from them. path is the path of the key in the value;
// "": it is the key of the message.
func keyText(topic, path string, m outcome.Message) string {
	where, bytes := "its key", m.Bytes
	if path != "" {
		where, bytes = strconv.Quote(path), m.Key
	}
	text := fmt.Sprintf("%s[%d]@%d", topic, m.Partition, m.Offset)
	if m.Time != outcome.Never {
		text += " of " + time.UnixMilli(m.Time).UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s: %s has the bytes % x, read as %q", text, where,
		bytes[:min(len(bytes), maxKeyShown)], m.Key[:min(len(m.Key), maxKeyShown)])
}

// countJoined publishes the counts of the feed.
func (f *Feed) countJoined() {
	var counts examples.JoinCounts
	for _, join := range f.joining.joins {
		counts = counts.Plus(join.Counts())
	}
	f.counts.Store(&counts)
	f.recordJoined()
	row, result := f.keysAlone()
	all := f.countsJoined()
	many := all.Outcomes >= minOutcomes && 10*all.Alone() > all.Outcomes // more than a tenth
	if row != "" && many && f.first("outcomes without a row") {
		event.Notice(f.Recorder, "%d of %d outcomes of %s have no row: their keys or times match none of %s. %s. %s. If the keys look the "+
			"same, see examples.outcome.key_format, or the producers use different partitioners: set examples.key and examples.outcome.key",
			all.Alone(), all.Outcomes, f.Job.Examples.Outcome.Topic, f.Topic, row, result)
	}
}

// minOutcomes is the minimum number of outcomes before it is reported that some have no row.
const minOutcomes = 100

// countsJoined returns the counts of all feeds.
func (f *Following) countsJoined() (all examples.JoinCounts) {
	var feeds []examples.JoinCounts
	for _, feed := range f.feeds {
		counts := examples.JoinCounts{} // of one that has not begun
		if c := feed.counts.Load(); c != nil {
			counts = *c
		}
		feeds, all = append(feeds, counts), all.Plus(counts)
	}
	if f.byPartition {
		return all.OrEarly()
	}
	return examples.Together(feeds)
}

// recordJoined records the counts of all feeds.
func (f *Following) recordJoined() {
	if f.outcomes != nil {
		f.Recorder.Record(event.Joined{Rows: f.Topic, Outcomes: f.Job.Examples.Outcome.Topic, Counts: f.countsJoined()})
	}
}

// partitionReader reads a range of a partition.
type partitionReader struct {
	*input
	next, to int64
	messages *protocol.Ahead
	time     int64 // latest timestamp so far
}

// inOrder processes the messages of partitions in timestamp order.
func (f *Feed) inOrder(ctx context.Context, readers ...*partitionReader) error {
	var open []*partitionReader
	messages := f.Read
	if f.joining != nil {
		messages = f.Between // of several partitions, whose order is by time
	}
	for _, r := range readers {
		r.messages = protocol.NewAhead(messages(ctx, r.topic, r.Partition, r.next, r.to))
		defer r.messages.Stop()
		more, err := f.readHead(r)
		if err != nil {
			return err
		}
		if more {
			open = append(open, r)
		}
	}
	for len(open) > 0 {
		first := slices.MinFunc(open, (*partitionReader).compare)
		if err := f.handle(ctx, first.input, first.messages.TakeBefore(math.MaxInt64)); err != nil {
			return err
		}
		more, err := f.readHead(first)
		if err != nil {
			return err
		}
		if !more {
			open = slices.DeleteFunc(open, func(r *partitionReader) bool { return r == first })
		}
	}
	return nil
}

// compare orders partitions by their next messages.
func (r *partitionReader) compare(other *partitionReader) int {
	if order := cmp.Compare(r.time, other.time); order != 0 || r.rows == other.rows {
		return cmp.Or(order, cmp.Compare(r.Partition, other.Partition))
	}
	if r.rows {
		return -1
	}
	return 1
}

// readHead reads the next message of a partition that is not deleted; false: there is none.
func (f *Feed) readHead(r *partitionReader) (bool, error) {
	for {
		m, err := r.messages.Peek()
		first, deleted := protocol.Deleted(err)
		switch {
		case deleted:
			again := !r.rows && r.join.Again // outcomes that were read before
			if first = min(first, r.to); first > r.next && r.next > 0 && !again {
				f.Recorder.Record(event.Lost{Topic: r.topic, Partition: r.Partition, From: r.next, To: first})
			}
			r.next = max(r.next, first)
		case err != nil || m == nil:
			return false, err
		default:
			r.next, r.time = m.Offset+int64(m.Len()), max(r.time, outcome.TimeOf(m.Time))
			return true, nil
		}
	}
}

// passEvery is the interval of checks for silent partitions.
const passEvery = 5 * time.Second

// pass advances silent partitions to the time that the others have passed: see package outcome.
func (f *Feed) pass(ctx context.Context) error {
	j := f.joining
	j.passed = f.Clock.Now()
	topic, o := f.Job.Examples.Outcome.Topic, f.Job.Examples.Outcome
	idle := min(o.Idle, o.Within).Milliseconds()
	latest, err := f.latest(ctx, topic)
	if err != nil {
		return err
	}
	latestRow, err := f.latest(ctx, f.Topic)
	if err != nil {
		return err
	}
	// Whether a partition is read to its end is checked after the times of the others: earlier messages were then read.
	for _, in := range f.inputs {
		passed := latest
		if in.rows {
			passed = latestRow
		}
		if passed == outcome.Never || passed-idle <= in.join.Time(in.rows, in.Partition) {
			continue
		}
		_, end, err := f.Log.Bounds(ctx, in.topic, in.Partition)
		if err != nil {
			return err
		}
		ended, err := f.Empty(ctx, in.topic, coverage.Span{Partition: in.Partition, From: in.Next, To: end})
		if err != nil {
			return err
		}
		if ended {
			in.join.Pass(in.rows, in.Partition, passed-idle)
		}
	}
	for _, join := range j.joins {
		if err := join.Advance(f.decide(ctx)); err != nil {
			return err
		}
		deadline, waits := join.FirstDeadline()
		if waits && latest < deadline && latestRow > deadline+idle && !f.untilEnd && f.first("silent outcomes") {
			event.Notice(f.Recorder, "rows of %s wait for outcomes longer than examples.outcome.within, because %s has no later "+
				"message: outcomes may still arrive. A message with an empty value is enough to continue", f.Topic, topic)
		}
	}
	f.countJoined()
	return f.afterEvent(ctx)
}

// lastOffsets is the number of offsets at the end of a partition that are searched for a message.
const lastOffsets = 16

// newest is the newest timestamp in a topic's partitions, and the time at which it was read.
type newest struct {
	time int64
	read time.Time
}

// latest returns the newest timestamp in a topic's partitions, which one of the feeds reads once per passEvery.
func (f *Following) latest(ctx context.Context, topic string) (time int64, err error) {
	if n, ok := f.newest.Load(topic); ok && f.Clock.Since(n.(newest).read) < passEvery {
		return n.(newest).time, nil
	}
	time = outcome.Never
	spans, err := f.Log.Spans(ctx, topic)
	if err != nil {
		return time, err
	}
	for _, s := range spans {
		for m, err := range f.Remaining(ctx, topic, s.Partition, max(s.From, s.To-lastOffsets), s.To) {
			if err != nil {
				return time, err
			}
			time = max(time, outcome.TimeOf(m.Time))
		}
	}
	f.newest.Store(topic, newest{time, f.Clock.Now()})
	return time, nil
}
