package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/kafkalog"
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
	bounds   []coverage.Span          // of the outcomes: what is read before the feed waits for more
	from     *examples.Joined         // of the state; without inputs, the start offsets
	joins    []*outcome.Join          // one for each partition of the rows, or one for all
	pairs    []int                    // the partitions, or -1
	came     map[int]protocol.Message // by outcomes partition: last message read
	last     [2]keyRead               // keys of a row and an outcome that were read late, to be shown
	readTo   map[int]int64            // by outcomes partition: offset up to which everything is read
	absent   string                   // label of rows without an outcome
	skips    bool                     // rows without an outcome are skipped
	again    bool                     // messages before the state are read again
	full     bool                     // the batch must be written before the next row
	passed   time.Time                // last check for silent partitions
	rows     map[int]*outcome.Join    // by partition
	of       map[int]*outcome.Join    // by outcomes partition
}

// beginJoins reads the offset ranges of the outcomes topic.
func (f *Following) beginJoins(ctx context.Context, states []protocol.TopicProgress) (err error) {
	topic := f.Job.Examples.Outcome.Topic
	if topic == "" {
		return nil
	}
	if f.outcomes, err = f.Log.Spans(ctx, topic); err != nil {
		return fmt.Errorf("examples.outcome.topic: %w", err)
	}
	f.byPartition = f.Job.Examples.JoinsByPartition(len(f.Bounds), len(f.outcomes))
	f.waits, f.joined = make([]atomic.Int64, f.Partitions), make([]atomic.Pointer[examples.JoinCounts], f.Partitions)
	for i := range states {
		if j := states[i].Joined; f.byPartition && j != nil && len(j.Joins) > 0 {
			f.byPartition = j.Joins[0].Partition >= 0 // as it began
			return nil
		}
	}
	if f.byPartition {
		f.byPartition, err = f.sameEncoding(ctx)
	}
	return err
}

// sampledKeys is the number of messages of a partition whose keys are compared with those of the other topic.
const sampledKeys = 64

// sameEncoding reports whether the keys of both topics have one encoding: keys of the same value with different ones are in different
// partitions.
func (f *Following) sameEncoding(ctx context.Context) (bool, error) {
	if f.Job.Examples.Outcome.KeyFormat != outcome.KeyAuto {
		return false, nil
	}
	formats := map[string]bool{}
	for _, input := range []struct {
		topic string
		spans []coverage.Span
	}{{f.Topic, f.Bounds}, {f.Job.Examples.Outcome.Topic, f.outcomes}} {
		for _, s := range input.spans {
			err := f.each(ctx, input.topic, s.Partition, s.From, min(s.To, s.From+sampledKeys), func(m protocol.Message) error {
				if m.Key != "" && len(m.Value) > 0 {
					_, format := outcome.KeyEncoding(m.Key)
					formats[format] = true
				}
				return nil
			})
			if err != nil {
				return false, err
			}
		}
	}
	return len(formats) <= 1, nil
}

// beginJoining initializes the waiting rows of a feed. last is the state that it continues from, which may be of an
// earlier attempt to read the topic.
func (f *Feed) beginJoining(ctx context.Context, last protocol.TopicProgress) (err error) {
	if f.outcomes == nil {
		return nil
	}
	o := f.Job.Examples
	f.joining = &joining{bounds: append([]coverage.Span(nil), f.outcomes...)}
	absent, ok := o.WhenAbsent()
	f.joining.absent, f.joining.skips = absent, !ok
	if f.joining.keys, err = ingest.NewRowKeys(o); err != nil {
		return err
	}
	if f.joining.outcomes, err = ingest.NewOutcomes(o); err != nil {
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
	for i := range joined.Outcomes {
		in := &joined.Outcomes[i]
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
			in.Next, in.Last, in.From, in.Since = read.Next, read.Last, read.Next, in.Time
		}
	}
	f.state.Joined = &joined
	return nil
}

// reads reports whether the feed reads a topic.
func (f *Feed) reads(topic string) bool {
	return topic == f.Topic || f.joining != nil && topic == f.Job.Examples.Outcome.Topic
}

// start creates empty joins at the start offsets of the state.
func (f *Feed) start() {
	j := f.joining
	j.from = f.state.Joined
	if j.from == nil {
		j.from = &examples.Joined{}
	}
	j.joins, j.pairs, j.rows, j.of = nil, nil, map[int]*outcome.Join{}, map[int]*outcome.Join{}
	j.came, j.readTo, j.full, j.passed = map[int]protocol.Message{}, map[int]int64{}, false, time.Time{}
	var rows []int
	for q := f.partition; q < len(f.Bounds); q += f.Partitions {
		rows = append(rows, q)
	}
	all := len(f.Bounds)
	if !f.byPartition {
		all = min(f.Partitions, all)
	}
	add := func(pair, number int, rows, outcomes []int) {
		cursor := outcome.Begin(pair)
		for _, c := range j.from.Joins {
			if c.Partition == pair {
				cursor = c
			}
		}
		join := outcome.New(f.Job.Examples.Outcome, number, all, inputsOf(j.from.Rows, rows), inputsOf(j.from.Outcomes, outcomes), cursor)
		j.joins, j.pairs = append(j.joins, join), append(j.pairs, pair)
		for _, q := range rows {
			j.rows[q] = join
		}
		for _, o := range outcomes {
			j.of[o] = join
			j.readTo[o] = inputOf(j.from.Outcomes, o).Next
		}
	}
	if f.byPartition {
		for _, q := range rows {
			add(q, q, []int{q}, []int{q})
		}
		return
	}
	var outcomes []int
	for o := range j.bounds {
		outcomes = append(outcomes, o)
	}
	add(-1, f.partition, rows, outcomes)
}

// inputOf returns the position in a partition; its start if it is not among the inputs.
func inputOf(inputs []examples.JoinInput, partition int) examples.JoinInput {
	for _, in := range inputs {
		if in.Partition == partition {
			return in
		}
	}
	return examples.JoinInput{Partition: partition, Time: outcome.Never, Since: outcome.Never}
}

func inputsOf(inputs []examples.JoinInput, partitions []int) (of []examples.JoinInput) {
	for _, p := range partitions {
		of = append(of, inputOf(inputs, p))
	}
	return of
}

// close deletes the waiting rows.
func (j *joining) close() {
	for _, join := range j.joins {
		_ = join.Close() // leftover files are deleted at the next start
	}
	j.joins = nil
}

// catchUpJoined rebuilds the waiting rows, and reads the initial messages of both topics, in timestamp order.
func (f *Feed) catchUpJoined(ctx context.Context) error {
	j := f.joining
	f.start()
	var again, further []*partitionReader
	for q := f.partition; q < len(f.Bounds); q += f.Partitions {
		in, next := inputOf(j.from.Rows, q), f.state.Position(q).Next
		again = append(again, &partitionReader{topic: f.Topic, partition: q, rows: true, next: in.From, to: next, time: in.Since})
		further = append(further, &partitionReader{topic: f.Topic, partition: q, rows: true, next: next, to: f.Bounds[q].To, time: in.Time})
	}
	for _, o := range slices.Sorted(maps.Keys(j.of)) {
		in := inputOf(j.from.Outcomes, o)
		topic := f.Job.Examples.Outcome.Topic
		again = append(again, &partitionReader{topic: topic, partition: o, next: in.From, to: in.Next, time: in.Since})
		further = append(further, &partitionReader{topic: topic, partition: o, next: in.Next, to: j.bounds[o].To, time: in.Time})
	}
	j.again = true
	if err := f.inOrder(ctx, again); err != nil {
		return err
	}
	j.again = false
	for _, join := range j.joins {
		if err := join.Resume(f.decide(ctx)); err != nil {
			return err
		}
	}
	if err := f.inOrder(ctx, further); err != nil {
		return err
	}
	for o := range j.of {
		j.readTo[o] = max(j.readTo[o], j.bounds[o].To) // the last offsets may hold no message
	}
	if err := f.pass(ctx); err != nil {
		return err
	}
	if f.untilEnd {
		waits := int64(0)
		for _, join := range j.joins {
			waits += int64(join.Waiting())
		}
		f.waits[f.partition].Store(waits)
	}
	return nil
}

// followOutcomes returns the positions from which the feed follows the outcomes.
func (f *Feed) followOutcomes() (follow []protocol.Position) {
	for o := range f.joining.bounds {
		if f.joining.of[o] != nil {
			follow = append(follow, protocol.Position{Topic: f.Job.Examples.Outcome.Topic, Partition: o, Offset: f.joining.readTo[o]})
		}
	}
	return follow
}

// errNoTime is the reason for a message without a timestamp at the start of its partition.
var errNoTime = errors.New("neither the message nor an earlier one in its partition has a timestamp, which examples.outcome.within " +
	"needs: configure the producer to write timestamps")

// usable reports whether the error of reading a message is nil. It returns errors that are not due to the message.
func (f *Feed) usable(ctx context.Context, err error) (bool, error) {
	if err == nil {
		return true, nil
	}
	if unusable, _ := ingest.Unusable(err); !unusable || ctx.Err() != nil {
		return false, err
	}
	return false, nil
}

// keyOf returns the key of a row.
func (f *Feed) keyOf(ctx context.Context, value ingest.TopicMessage) (key string, ok bool, err error) {
	err = f.whileAway(ctx, f.flush, func() (err error) {
		key, ok, err = f.joining.keys.Of(ctx, value)
		return err
	})
	return key, ok, err
}

// labelsOf returns the labels of an outcome. reason is why it is unusable.
func (f *Feed) labelsOf(ctx context.Context, partition int, m protocol.Message) (labels []outcome.Labelled, reason, err error) {
	err = f.whileAway(ctx, f.flush, func() (err error) {
		labels, err = f.joining.outcomes.Read(ctx, ingest.MessageOf(partition, m.Offset, m.Time, m.Message, nil))
		return err
	})
	if err == nil && outcome.TimeOf(m.Time) == outcome.Never && f.joining.of[partition].Time(false, partition) == outcome.Never {
		err = errNoTime
	}
	if usable, e := f.usable(ctx, err); e != nil || usable {
		return labels, nil, e
	}
	return nil, err, nil
}

// joinRow processes a row.
func (f *Feed) joinRow(ctx context.Context, partition int, m protocol.Message) error {
	join, again := f.joining.rows[partition], f.joining.again
	value, err := f.valueOf(ctx, partition, m)
	if err != nil {
		return err
	}
	var packed []byte
	key, ok, err := f.keyOf(ctx, value)
	if err == nil && ok {
		packed, err = f.values.Pack(ctx, value)
	}
	if usable, e := f.usable(ctx, err); e != nil {
		return errors.Join(f.flush(ctx), fmt.Errorf("%s[%d]@%d: %w", f.Topic, partition, m.Offset, e))
	} else if usable && ok && outcome.TimeOf(m.Time) == outcome.Never && join.Time(true, partition) == outcome.Never {
		err = errNoTime
	}
	if err == nil && ok {
		f.usedRows.Store(true)
		f.joining.last[0] = keyRead{f.Topic, partition, m, f.Job.Examples.JoinKey, key}
		err = join.Row(outcome.Message{Partition: partition, Offset: m.Offset, Time: outcome.TimeOf(m.Time), Key: key, Value: packed},
			f.decide(ctx))
	} else {
		if err != nil && !again {
			err = f.refuse(ctx, f.Topic, value, err)
		} else {
			err = nil
		}
		join.See(partition, m.Offset, outcome.TimeOf(m.Time))
	}
	if err != nil || again {
		return err
	}
	f.read[partition] = m.Own()
	return f.afterEvent(ctx)
}

// joinOutcome processes an outcome.
func (f *Feed) joinOutcome(ctx context.Context, partition int, m protocol.Message) error {
	topic, again := f.Job.Examples.Outcome.Topic, f.joining.again
	labels, reason, err := f.labelsOf(ctx, partition, m)
	if err != nil {
		return errors.Join(f.flush(ctx), fmt.Errorf("%s[%d]@%d: %w", topic, partition, m.Offset, err))
	}
	if reason == nil {
		f.usedOutcomes.Store(true)
	} else if !again && f.answersFor(partition) {
		if err := f.refuse(ctx, topic, ingest.MessageOf(partition, m.Offset, m.Time, m.Message, nil), reason); err != nil {
			return err
		}
	}
	if len(labels) > 0 {
		if err := f.joining.noteOutcome(keyRead{topic, partition, m, f.Job.Examples.Outcome.Key, labels[0].Key}); err != nil {
			return err
		}
	}
	if !again {
		f.joining.came[partition], f.joining.readTo[partition] = m.Own(), m.Offset+1
	}
	o := outcome.Outcome{Partition: partition, Offset: m.Offset, Time: outcome.TimeOf(m.Time), Labels: labels}
	if err := f.joining.of[partition].Outcome(o, f.decide(ctx)); err != nil || again {
		return err
	}
	return f.afterEvent(ctx)
}

// answersFor reports whether the feed quarantines outcomes of a partition: exactly one of the feeds that read them does.
func (f *Feed) answersFor(partition int) bool {
	return f.byPartition || partition%min(f.Partitions, len(f.Bounds)) == f.partition
}

// afterEvent writes the batch if it is full.
func (f *Feed) afterEvent(ctx context.Context) error {
	if len(f.bad) > 0 && f.since.IsZero() {
		f.since = f.Clock.Now()
	}
	if f.since.IsZero() {
		f.done()
	}
	if f.joining.full || len(f.bad) >= maxBad {
		return f.flush(ctx)
	}
	return nil
}

// decide returns a function that adds decided rows to the batch. The join calls it before it marks the rows as decided, so
// it may write rows decided earlier.
func (f *Feed) decide(ctx context.Context) func(outcome.Decided) error {
	return func(d outcome.Decided) error {
		said := d.Label
		if d.Absent {
			if said = f.joining.absent; f.joining.skips {
				return nil
			}
		}
		if f.joining.full {
			if err := f.flush(ctx); err != nil {
				return err
			}
		}
		if err := f.put(ctx, added{ingest.Unpack(d.Partition, d.Offset, d.Value), said}); err != nil {
			return err
		}
		f.joining.full = f.full()
		return nil
	}
}

// lastOf returns the position in a partition: as written, or as read since.
func (f *Feed) lastOf(topic string, partition int) schemas.TopicPosition {
	if topic == f.Topic {
		return f.state.Position(partition)
	}
	in := f.outcomeNow(partition)
	return schemas.TopicPosition{Partition: partition, Next: in.Next, Last: in.Last}
}

// outcomeNow returns the position in an outcomes partition.
func (f *Feed) outcomeNow(partition int) examples.JoinInput {
	in := inputOf(f.joining.from.Outcomes, partition)
	if m, ok := f.joining.came[partition]; ok {
		in.Next, in.Last = m.Offset+1, digestOf(m)
	}
	return in
}

// joinedNow returns the current positions of the join.
func (f *Feed) joinedNow() *examples.Joined {
	j := f.joining
	now := &examples.Joined{Rule: f.Job.Examples.JoinRule(f.byPartition), Limit: f.Job.Examples.Outcome.Unmatched}
	for i, join := range j.joins {
		now.Joins = append(now.Joins, join.Cursor(j.pairs[i]))
	}
	for q := f.partition; q < len(f.Bounds); q += f.Partitions {
		now.Rows = append(now.Rows, j.rows[q].RowsFrom(q))
	}
	for o := range j.bounds {
		if join := j.of[o]; join != nil {
			in, read := join.OutcomesFrom(o), f.outcomeNow(o)
			in.Next, in.Last = read.Next, read.Last
			now.Outcomes = append(now.Outcomes, in)
		}
	}
	if counts, _ := now.Counts(); 2*counts.Alone() > counts.Outcomes {
		now.RowKey, now.OutcomeKey = j.last[0].String(), j.last[1].String()
	}
	return now
}

// keyRead is a key, and the message that it was read from.
type keyRead struct {
	topic     string
	partition int
	m         protocol.Message
	path      string // "": the key of the message
	key       string
}

// maxKeyShown is the maximum number of bytes of a key in messages.
const maxKeyShown = 32

// String returns where the key is, its bytes, and what was read.
func (k keyRead) String() string {
	if k.topic == "" {
		return ""
	}
	where, bytes := "its key", k.m.Key
	if k.path != "" {
		where, bytes = strconv.Quote(k.path), k.key
	}
	text := fmt.Sprintf("%s[%d]@%d", k.topic, k.partition, k.m.Offset)
	if t := outcome.TimeOf(k.m.Time); t != outcome.Never {
		text += " of " + time.UnixMilli(t).UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s: %s has the bytes % x, read as %q", text, where,
		bytes[:min(len(bytes), maxKeyShown)], k.key[:min(len(k.key), maxKeyShown)])
}

// noteOutcome keeps the key of an outcome to be shown. If many outcomes have no row, the outcome must be one of them.
func (j *joining) noteOutcome(read keyRead) error {
	join := j.of[read.partition]
	if counts := join.Counts(); j.last[1].topic != "" && manyAlone(counts) {
		if waits, err := join.Waits(read.key); err != nil || waits {
			return err
		}
	}
	j.last[1] = read
	return nil
}

// manyAlone reports whether more than a tenth of the outcomes have no row.
func manyAlone(counts examples.JoinCounts) bool { return 10*counts.Alone() > counts.Outcomes }

// countJoined publishes what the feed has counted.
func (f *Feed) countJoined() {
	var counts examples.JoinCounts
	for _, join := range f.joining.joins {
		counts = counts.Plus(join.Counts())
	}
	f.joined[f.partition].Store(&counts)
	f.recordJoined()
	row, result := f.joining.last[0], f.joining.last[1]
	if row.topic == "" || result.topic == "" {
		return // there are no keys to show
	}
	if all := f.countsJoined(); all.Outcomes >= minOutcomes && manyAlone(all) && f.first("outcomes without a row") {
		event.Notice(f.Recorder, "%d of %d outcomes of %s have no row: their keys or times match none of %s. %s. %s. If the keys look the "+
			"same, see examples.outcome.key_format, or the producers use different partitioners: set examples.key and examples.outcome.key",
			all.Alone(), all.Outcomes, f.Job.Examples.Outcome.Topic, f.Topic, row, result)
	}
}

// minOutcomes is the minimum number of outcomes before it is reported that some have no row.
const minOutcomes = 100

// countsJoined returns what all feeds have counted.
func (f *Following) countsJoined() (all examples.JoinCounts) {
	var feeds []examples.JoinCounts
	for n := range min(f.Partitions, len(f.Bounds)) {
		counts := examples.JoinCounts{} // of a feed of another process, or one that has not begun
		if c := f.joined[n].Load(); c != nil {
			counts = *c
		}
		feeds, all = append(feeds, counts), all.Plus(counts)
	}
	if f.byPartition {
		return all
	}
	return examples.Together(feeds)
}

// recordJoined records what was counted.
func (f *Following) recordJoined() {
	if f.outcomes != nil {
		f.Recorder.Record(event.Joined{Rows: f.Topic, Outcomes: f.Job.Examples.Outcome.Topic, Counts: f.countsJoined()})
	}
}

// partitionReader reads a range of a partition.
type partitionReader struct {
	topic     string
	partition int
	rows      bool
	next, to  int64
	reader    protocol.Reader
	head      protocol.Message
	time      int64 // latest timestamp so far
}

// inOrder processes the messages of partitions in timestamp order.
func (f *Feed) inOrder(ctx context.Context, readers []*partitionReader) error {
	defer func() {
		for _, r := range readers {
			r.close()
		}
	}()
	var open []*partitionReader
	read := func(r *partitionReader) error {
		more, err := f.readHead(ctx, r)
		if more {
			open = append(open, r)
		}
		return err
	}
	for _, r := range readers {
		if err := read(r); err != nil {
			return err
		}
	}
	for len(open) > 0 {
		first := 0
		for i, r := range open {
			if r.before(open[first]) {
				first = i
			}
		}
		r := open[first]
		open = slices.Delete(open, first, first+1)
		if err := f.handle(ctx, r.topic, r.partition, r.head); err != nil {
			return err
		}
		if err := read(r); err != nil {
			return err
		}
	}
	return nil
}

// before reports whether the next message of a partition precedes that of another one.
func (r *partitionReader) before(other *partitionReader) bool {
	switch {
	case r.time != other.time:
		return r.time < other.time
	case r.rows != other.rows:
		return r.rows
	}
	return r.partition < other.partition
}

func (r *partitionReader) close() {
	if r.reader != nil {
		_ = r.reader.Close() // only read from
		r.reader = nil
	}
}

// skip continues at an offset, before which messages are deleted.
func (f *Feed) skip(r *partitionReader, first int64) {
	if first = min(first, r.to); first > r.next && r.next > 0 {
		f.Recorder.Record(event.Lost{Topic: r.topic, Partition: r.partition, From: r.next, To: first})
	}
	r.next = max(r.next, first)
	r.close()
}

// readHead reads the next message of a partition that is not deleted; false: there is none.
func (f *Feed) readHead(ctx context.Context, r *partitionReader) (bool, error) {
	for r.next < r.to {
		if r.reader == nil {
			first, _, err := f.Log.Bounds(ctx, r.topic, r.partition)
			if err != nil {
				return false, err
			}
			if f.skip(r, first); r.next >= r.to {
				return false, nil
			}
			r.reader = f.Log.Range(r.topic, r.partition, r.next, r.to)
		}
		m, err := r.reader.Next(ctx)
		if err == nil {
			r.head, r.next, r.time = m, m.Offset+1, max(r.time, outcome.TimeOf(m.Time))
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		deleted, ok := errors.AsType[*kafkalog.DeletedError](err)
		if !ok || deleted.Wanted >= deleted.First {
			return false, err
		}
		f.skip(r, deleted.First)
	}
	return false, nil
}

// passEvery is the interval of checks for silent partitions.
const passEvery = 5 * time.Second

// pass advances silent partitions to the time that the others have passed: see package outcome.
func (f *Feed) pass(ctx context.Context) error {
	j := f.joining
	j.passed = f.Clock.Now()
	idle := f.Job.Examples.Outcome.IdleAfter().Milliseconds()
	topic := f.Job.Examples.Outcome.Topic
	latest, err := f.latest(ctx, topic)
	if err != nil {
		return err
	}
	latestRow, err := f.latest(ctx, f.Topic)
	if err != nil {
		return err
	}
	// Whether a partition is read to its end is checked after the times of the others: earlier messages were then read.
	for _, side := range []struct {
		topic  string
		rows   bool
		joins  map[int]*outcome.Join // by partition
		latest int64
	}{{topic, false, j.of, latest}, {f.Topic, true, j.rows, latestRow}} {
		for _, n := range slices.Sorted(maps.Keys(side.joins)) {
			join, next := side.joins[n], j.readTo[n]
			if side.rows {
				next = f.state.Position(n).Next
				if m, ok := f.read[n]; ok {
					next = m.Offset + 1
				}
			}
			if side.latest == outcome.Never || side.latest-idle <= join.Time(side.rows, n) {
				continue
			}
			ended, err := f.ended(ctx, side.topic, n, next)
			if err != nil {
				return err
			}
			if ended {
				join.Pass(side.rows, n, side.latest-idle)
			}
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

// latest returns the newest timestamp in a topic's partitions.
func (f *Feed) latest(ctx context.Context, topic string) (time int64, err error) {
	time = outcome.Never
	spans, err := f.Log.Spans(ctx, topic)
	if err != nil {
		return time, err
	}
	for _, s := range spans {
		err := f.each(ctx, topic, s.Partition, max(s.From, s.To-lastOffsets), s.To, func(m protocol.Message) error {
			time = max(time, outcome.TimeOf(m.Time))
			return nil
		})
		if err != nil {
			return time, err
		}
	}
	return time, nil
}

// ended reports whether a partition has no messages from an offset on.
func (f *Feed) ended(ctx context.Context, topic string, partition int, from int64) (bool, error) {
	_, end, err := f.Log.Bounds(ctx, topic, partition)
	if err != nil || from >= end {
		return err == nil, err
	}
	r := f.Log.Range(topic, partition, from, end)
	defer r.Close()
	if _, err = r.Next(ctx); err == io.EOF {
		return true, nil
	}
	if errors.As(err, new(*kafkalog.DeletedError)) {
		return false, nil
	}
	return false, err
}

// noticeWaiting reports the number of rows that still wait at the end.
func (f *Following) noticeWaiting() {
	waits := int64(0)
	for n := range f.waits {
		waits += f.waits[n].Load()
	}
	if waits > 0 {
		event.Notice(f.Recorder, "%s of %s without an outcome yet: %s has no message later than their time plus "+
			"examples.outcome.within. They become examples when the topics are read further", english.Plural(int(waits), "message", ""), f.Topic,
			f.Job.Examples.Outcome.Topic)
	}
}
