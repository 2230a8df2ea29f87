package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/progress"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// joining is what a feed has of rows that wait for their outcomes: see package outcome. What waits is a function of the state of the feed,
// and is made of both topics when it begins.
type joining struct {
	keys     *ingest.RowKeys
	outcomes *ingest.Outcomes
	bounds   []coverage.Span          // of the outcomes: what is read before the feed waits for more
	from     *examples.Joined         // of the state; where reading begins if that has none
	joins    []*outcome.Join          // one for each partition of the rows, or one for all
	pairs    []int                    // the partitions, or -1
	came     map[int]protocol.Message // by partition of the outcomes: the message that was read last
	readTo   map[int]int64            // by partition of the outcomes: the offset before which all is read
	absent   string                   // what is said of rows without an outcome
	skips    bool                     // they are no examples
	full     bool                     // the batch is to be written before the next row
	passed   time.Time                // when silent partitions were looked at
	rows     map[int]*outcome.Join    // by partition
	of       map[int]*outcome.Join    // by partition of the outcomes
}

// RuleChangedError says that rows wait by another rule than that of the configuration.
type RuleChangedError struct{ Topic string }

// Error returns what to do.
func (e *RuleChangedError) Error() string {
	return fmt.Sprintf("examples.outcome: rows of %s were joined with other keys, times or partitions, which determine the waiting "+
		"rows: restore examples.key, examples.outcome and the numbers of partitions, or give the pipeline another name", e.Topic)
}

// beginJoins finds what the topic of the outcomes has.
func (f *Following) beginJoins(ctx context.Context) (err error) {
	topic := f.Job.Examples.Outcome.Topic
	if topic == "" {
		return nil
	}
	if f.outcomes, err = f.Log.Spans(ctx, topic); err != nil {
		return fmt.Errorf("examples.outcome.topic: %w", err)
	}
	f.byPartition = f.Job.Examples.JoinsByPartition(len(f.Bounds), len(f.outcomes))
	f.waits = make([]atomic.Int64, f.Partitions)
	return nil
}

// beginJoining makes the state of a feed one of rows that wait. last is the state of the messages that it goes on behind, which may be of
// an earlier attempt to read the topic.
func (f *Feed) beginJoining(ctx context.Context, last progress.State) (err error) {
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
		return &RuleChangedError{f.Topic}
	}
	if f.state.Joined == nil {
		return nil
	}
	joined := *f.state.Joined
	joined.Rows = append([]examples.JoinInput(nil), joined.Rows...)
	joined.Outcomes = append([]examples.JoinInput(nil), joined.Outcomes...)
	anew := f.state.Attempt > last.Attempt
	for i := range joined.Rows { // of a topic that has changed nothing waits
		in := &joined.Rows[i]
		if now, was := f.state.Position(in.Partition), last.Position(in.Partition); now != was {
			anew = anew && now.Next == 0
			in.From, in.Since = now.Next, in.Time
		} else {
			anew = false
		}
	}
	if anew { // it is read from its beginning
		f.state.Joined = nil
		return nil
	}
	for i := range joined.Outcomes {
		in := &joined.Outcomes[i]
		read := schemas.TopicPosition{Partition: in.Partition, Next: in.Next, Last: in.Last}
		err := f.checkUnchanged(ctx, o.Outcome.Topic, f.outcomes, read)
		if changed, ok := errors.AsType[*ChangedTopicError](err); ok && f.decided() {
			if read, err = f.behind(ctx, o.Outcome.Topic, f.outcomes, read); err != nil {
				return err
			}
			event.Notice(f.Recorder, "%s[%d] has changed: %s. Reading continues at offset %d", changed.Topic, changed.Partition, changed.Why,
				read.Next)
			in.Next, in.Last, in.From, in.Since = read.Next, read.Last, read.Next, in.Time
		} else if err != nil {
			return err
		}
	}
	f.state.Joined = &joined
	return nil
}

// reads reports whether the feed reads a topic.
func (f *Feed) reads(topic string) bool {
	return topic == f.Topic || f.joining != nil && topic == f.Job.Examples.Outcome.Topic
}

// start makes joins in which nothing waits, where the state begins to read.
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
		disk, memory := f.Job.Examples.Outcome.Disk(number, all)
		join := outcome.New(f.Job.Examples.Outcome.Rule(), inputsOf(j.from.Rows, rows), inputsOf(j.from.Outcomes, outcomes), cursor, memory,
			disk)
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

// inputOf returns where a partition is read; its beginning if that is not among the inputs.
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

// close removes what waits.
func (j *joining) close() {
	for _, join := range j.joins {
		_ = join.Close() // what stays is removed when the next one begins
	}
	j.joins = nil
}

// catchUpJoined makes what waits from the topics, and reads what they had when following began, in the order of the times.
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
	err := f.inOrder(ctx, again, func(r *partitionReader, m protocol.Message) error {
		if r.rows {
			return f.waitAgain(ctx, r.partition, m)
		}
		labels, _, err := f.labelsOf(ctx, r.partition, m)
		if err != nil {
			return err
		}
		return j.of[r.partition].AddOutcome(outcome.Outcome{Partition: r.partition, Offset: m.Offset, Time: timeOf(m), Labels: labels})
	})
	if err != nil {
		return err
	}
	for _, join := range j.joins {
		if err := join.Resume(f.decide(ctx)); err != nil {
			return err
		}
	}
	err = f.inOrder(ctx, further, func(r *partitionReader, m protocol.Message) error {
		if r.rows {
			return f.joinRow(ctx, r.partition, m)
		}
		return f.joinOutcome(ctx, r.partition, m)
	})
	if err != nil {
		return err
	}
	for o := range j.of {
		j.readTo[o] = max(j.readTo[o], j.bounds[o].To) // the last offsets may have no message
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

// followOutcomes returns where the feed follows the outcomes.
func (f *Feed) followOutcomes() (follow []protocol.Position) {
	for o := range f.joining.bounds {
		if f.joining.of[o] != nil {
			follow = append(follow, protocol.Position{Topic: f.Job.Examples.Outcome.Topic, Partition: o, Offset: f.joining.readTo[o]})
		}
	}
	return follow
}

// maxTime is a time that no message has: a clock that counts in other units is to blame.
const maxTime = 32503680000000 // the year 3000

// timeOf returns the time of a message in milliseconds since 1970; outcome.Never if it has none.
func timeOf(m protocol.Message) int64 {
	if t := m.Time.UnixMilli(); t > 0 && t < maxTime {
		return t
	}
	return outcome.Never
}

// errNoTime is the reason of a message without a time at the beginning of its partition.
var errNoTime = errors.New("neither the message nor an earlier one in its partition has a timestamp, which examples.outcome.within " +
	"needs: configure the producer to write timestamps")

// waitAgain adds a row that was read before: it waits if it was not decided.
func (f *Feed) waitAgain(ctx context.Context, partition int, m protocol.Message) error {
	join, value := f.joining.rows[partition], messageOf(partition, m)
	join.See(partition, m.Offset, timeOf(m))
	key, ok, err := f.keyOf(ctx, value)
	if usable, e := f.usable(ctx, err); e != nil || !usable || !ok || join.RowTime(partition) == outcome.Never {
		return e
	}
	return join.AddRow(outcome.Message{Partition: partition, Offset: m.Offset, Time: timeOf(m), Key: key, Value: pack(value)})
}

// usable reports whether the error of reading a message is nil. It returns one that is not of the message.
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
	err = f.whileAway(ctx, func() error { return f.flush(ctx) }, func() (err error) {
		key, ok, err = f.joining.keys.Of(ctx, value)
		return err
	})
	return key, ok, err
}

// labelsOf returns what an outcome says. reason is why it can't be used.
func (f *Feed) labelsOf(ctx context.Context, partition int, m protocol.Message) (labels []outcome.Labelled, reason, err error) {
	err = f.whileAway(ctx, func() error { return f.flush(ctx) }, func() (err error) {
		labels, err = f.joining.outcomes.Read(ctx, messageOf(partition, m))
		return err
	})
	if err == nil && timeOf(m) == outcome.Never && f.joining.of[partition].OutcomeTime(partition) == outcome.Never {
		err = errNoTime
	}
	if usable, e := f.usable(ctx, err); e != nil || usable {
		return labels, nil, e
	}
	return nil, err, nil
}

// joinRow reads a row.
func (f *Feed) joinRow(ctx context.Context, partition int, m protocol.Message) error {
	join, value := f.joining.rows[partition], messageOf(partition, m)
	key, ok, err := f.keyOf(ctx, value)
	if usable, e := f.usable(ctx, err); e != nil {
		return errors.Join(f.flush(ctx), fmt.Errorf("%s[%d]@%d: %w", f.Topic, partition, m.Offset, e))
	} else if usable && ok && timeOf(m) == outcome.Never && join.RowTime(partition) == outcome.Never {
		err = errNoTime
	}
	switch {
	case err != nil:
		err = f.refuse(ctx, f.Topic, value, err)
		join.See(partition, m.Offset, timeOf(m))
	case !ok:
		join.See(partition, m.Offset, timeOf(m))
	default:
		f.ofRows.used.Store(true)
		err = join.Row(outcome.Message{Partition: partition, Offset: m.Offset, Time: timeOf(m), Key: key, Value: pack(value)}, f.decide(ctx))
	}
	if err != nil {
		return err
	}
	f.read[partition] = m
	return f.afterEvent(ctx)
}

// joinOutcome reads an outcome.
func (f *Feed) joinOutcome(ctx context.Context, partition int, m protocol.Message) error {
	labels, reason, err := f.labelsOf(ctx, partition, m)
	if err != nil {
		return errors.Join(f.flush(ctx), fmt.Errorf("%s[%d]@%d: %w", f.Job.Examples.Outcome.Topic, partition, m.Offset, err))
	}
	if reason != nil && f.answersFor(partition) {
		if err := f.refuse(ctx, f.Job.Examples.Outcome.Topic, messageOf(partition, m), reason); err != nil {
			return err
		}
	}
	if reason == nil {
		f.ofOutcomes.used.Store(true)
	}
	f.joining.came[partition], f.joining.readTo[partition] = m, m.Offset+1
	o := outcome.Outcome{Partition: partition, Offset: m.Offset, Time: timeOf(m), Labels: labels}
	if err := f.joining.of[partition].Outcome(o, f.decide(ctx)); err != nil {
		return err
	}
	return f.afterEvent(ctx)
}

// answersFor reports whether the feed puts outcomes of a partition into quarantine: one of those that read them does.
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
		return f.flushJoined(ctx)
	}
	return nil
}

func (f *Feed) flushJoined(ctx context.Context) error {
	f.joining.full = false
	return f.flush(ctx)
}

// decide returns what takes rows that no longer wait into the batch. It is called before the join takes them for decided, so it may write
// what was decided before.
func (f *Feed) decide(ctx context.Context) func(outcome.Decided) error {
	return func(d outcome.Decided) error {
		said := d.Label
		if d.Absent {
			if said = f.joining.absent; f.joining.skips {
				return nil
			}
		}
		if f.joining.full {
			if err := f.flushJoined(ctx); err != nil {
				return err
			}
		}
		value := unpack(d)
		err := f.put(ctx, value, func() (bool, error) { return f.values.AddLabelled(ctx, value, said) })
		if err != nil {
			return err
		}
		f.joining.full = f.full()
		return nil
	}
}

// pack returns what waits of a message.
func pack(m ingest.TopicMessage) []byte {
	packed := make([]byte, 0, len(m.Key)+len(m.SchemaID)+len(m.Value)+2*binary.MaxVarintLen32)
	for _, text := range []string{m.Key, m.SchemaID} {
		packed = append(binary.AppendUvarint(packed, uint64(len(text))), text...)
	}
	return append(packed, m.Value...)
}

// unpack returns the message that was packed.
func unpack(d outcome.Decided) ingest.TopicMessage {
	m, rest := ingest.TopicMessage{Partition: d.Partition, Offset: d.Offset}, d.Value
	for _, text := range []*string{&m.Key, &m.SchemaID} {
		size, n := binary.Uvarint(rest)
		*text, rest = string(rest[n:n+int(size)]), rest[n+int(size):]
	}
	m.Value = rest
	return m
}

// lastOf returns how far a partition was read, as it was written, or as it is.
func (f *Feed) lastOf(topic string, partition int) schemas.TopicPosition {
	if topic == f.Topic {
		return f.state.Position(partition)
	}
	in := f.outcomeNow(partition)
	return schemas.TopicPosition{Partition: partition, Next: in.Next, Last: in.Last}
}

// outcomeNow returns how far a partition of the outcomes is read.
func (f *Feed) outcomeNow(partition int) examples.JoinInput {
	in := inputOf(f.joining.from.Outcomes, partition)
	if m, ok := f.joining.came[partition]; ok {
		in.Next, in.Last = m.Offset+1, DigestOf(m)
	}
	return in
}

// joinedNow returns how far rows are joined.
func (f *Feed) joinedNow() *examples.Joined {
	j := f.joining
	now := &examples.Joined{Rule: f.Job.Examples.JoinRule(f.byPartition)}
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
	return now
}
