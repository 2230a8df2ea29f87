package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Follow writes the examples from the topic examples.from_topic to the examples topic of the job, and creates missing
// topics. It continues from the position stored on the examples topic, until ctx ends, or with untilEnd to the current end
// of the topic. If the topic no longer has the last message that was read, the job configures what to do, and the error
// may be a *[ChangedTopicError].
//
// Partition q of the topic is written to partition q mod P of the examples, where P is the number of partitions when the
// topic was first followed. Several processes may follow a topic: messages written by several count once.
func Follow(ctx context.Context, log *kafkalog.Log, job topics.Job, untilEnd bool, rec event.Recorder) error {
	p, rec := topics.OpenFor(log, job, nil), event.Serialised(rec)
	if err := CheckSource(ctx, p, job); err != nil {
		return err
	}
	if err := topics.Create(ctx, p, &job); err != nil {
		return err
	}
	if untilEnd {
		return NewFollow(p, job, true, rec).Run(ctx)
	}
	return FollowInTurn(ctx, p, job, rec)
}

// sourceKey returns the key under examples that names the followed topic or archive.
func sourceKey(job topics.Job) string {
	if job.Examples.Archive.Alone {
		return "archive.files"
	}
	return "from_topic"
}

// CheckSource returns an error if the job's source topic can't be followed.
func CheckSource(ctx context.Context, p *topics.Pipeline, job topics.Job) error {
	if job.Examples.FromTopic == "" {
		return nil
	}
	followed := job.Examples
	for _, read := range []struct{ key, topic string }{{sourceKey(job), followed.FromTopic}, {"outcome.topic", followed.Outcome.Topic}} {
		if read.topic == "" {
			continue
		}
		if slices.ContainsFunc(topics.Topics(job), func(own kafkalog.Topic) bool { return own.Name == read.topic }) {
			return fmt.Errorf("examples.%s: %s is a topic of this pipeline: expected one that others write. Examples in Arrow that are on "+
				"the examples topic need no ingest", read.key, read.topic)
		}
		_, err := p.Log.Partitions(ctx, read.topic)
		if errors.Is(err, kafkalog.ErrUnknownTopic) {
			return fmt.Errorf("examples.%s: read %s: %w; create it first, or check the name", read.key, read.topic, kafkalog.ErrUnknownTopic)
		}
		if err != nil {
			return fmt.Errorf("examples.%s: %w", read.key, err)
		}
	}
	return nil
}

// NewFollow returns the follower of a job's topic.
func NewFollow(p *topics.Pipeline, job topics.Job, untilEnd bool, rec event.Recorder) *Following {
	topic := job.Examples.FromTopic
	untilEnd = untilEnd || job.Examples.Archive.Alone // there is no topic to follow
	f := &Following{Pipeline: p, Topic: topic, Job: job, untilEnd: untilEnd, Recorder: rec, waiting: protocol.NewWaiting(p.Client, topic)}
	f.Together, f.Pause = f.inGoroutines, protocol.Pause
	return f
}

// inGoroutines runs feeds until all have ended, or one returns an error.
func (f *Following) inGoroutines(ctx context.Context, feeds []*Feed) error {
	group, running := errgroup.WithContext(ctx)
	for _, feed := range feeds {
		group.Go(func() error { return feed.Run(running) })
	}
	if !f.untilEnd {
		group.Go(func() error { return f.watch(running) })
	}
	return group.Wait()
}

// Run follows the topic, and restarts after a change if the operator has configured it.
func (f *Following) Run(ctx context.Context) error {
	for following := false; ; {
		feeds, err := f.begin(ctx)
		if err != nil {
			return err
		}
		if !f.untilEnd && !following {
			f.Recorder.Record(event.Following{Topic: f.Topic})
			following = true
		}
		err = f.Together(ctx, feeds)
		switch {
		case f.decided() && errors.As(err, new(*ChangedTopicError)), errors.Is(err, errNoLongerFirst), errors.Is(err, errGrown),
			errors.Is(err, errKeys):
			event.Notice(f.Recorder, "%v", err)
		case err != nil:
			return err
		default:
			waits := 0
			for _, feed := range f.feeds {
				waits += feed.waits
			}
			if waits > 0 {
				event.Notice(f.Recorder, "%s of %s without an outcome yet: %s has no message later than their time plus "+
					"examples.outcome.within. They become examples when the topics are read further", english.Plural(waits, "message", ""),
					f.Topic, f.Job.Examples.Outcome.Topic)
			}
			if err := f.noticeUncommitted(ctx); err != nil {
				return err
			}
			f.recordJoined()
			f.Recorder.Record(f.ingested(true))
			return f.checkUsable(ctx)
		}
	}
}

// noticeUncommitted reports messages that were not read, because a transaction is open.
func (f *Following) noticeUncommitted(ctx context.Context) error {
	for _, topic := range []string{f.Topic, f.Job.Examples.Outcome.Topic} {
		if topic == "" || f.Admin == nil || f.Job.Examples.Archive.Alone {
			continue
		}
		open, err := f.Admin.Uncommitted(ctx, topic)
		if err != nil {
			return err
		}
		for partition, b := range open {
			if b.First < b.End {
				event.Notice(f.Recorder, "%s[%d]@%d to %d are not read: the producer of a transaction has neither committed nor aborted it",
					topic, partition, b.First, b.End-1)
			}
		}
	}
	return nil
}

// Following is a followed topic.
type Following struct {
	*topics.Pipeline
	Topic      string
	Bounds     []coverage.Span // of the topic, when following started
	Job        topics.Job
	Partitions int // partition q of the topic is written to partition q mod Partitions of the examples
	untilEnd   bool
	Recorder   event.Recorder
	rows       atomic.Int64   // number of rows written
	next       []atomic.Int64 // by partition of the topic: offset up to which all messages are processed
	waiting    *protocol.Waiting
	Together   func(context.Context, []*Feed) error // runs feeds until all have ended, or one returns an error
	// Pause waits for a duration, or until the context ends.
	Pause   func(ctx context.Context, d time.Duration) error
	away    atomic.Int32     // number of feeds waiting for a schema registry
	earlier bool             // the examples already have rows of the topic
	last    protocol.Message // last examples message with rows of the topic, in a partition that has any
	noticed sync.Map         // notices that were given
	newest  sync.Map         // by topic: see latest

	feeds       []*Feed
	outcomes    []coverage.Span // of the outcomes topic, when following started; nil: the rows have labels
	byPartition bool            // rows have their outcomes in the same partition
	schemas     []int           // of message keys: see [outcome.SchemasOf]
	firstRow    atomic.Int64    // time of the topic's first rows; outcome.Never: unknown
	young       bool            // too few keys were sampled to know the schemas
}

// first reports whether this is the first call for a notice that is given once.
func (f *Following) first(what string) bool {
	_, said := f.noticed.LoadOrStore(what, true)
	return !said
}

// checkUsable returns a *NothingUsableError if the topic, or that of the outcomes, has had messages, but never a usable
// one.
func (f *Following) checkUsable(ctx context.Context) error {
	if f.rows.Load() > 0 || f.earlier {
		return nil
	}
	for _, topic := range []string{f.Topic, f.Job.Examples.Outcome.Topic} {
		used := slices.ContainsFunc(f.feeds, func(feed *Feed) bool {
			return slices.ContainsFunc(feed.inputs, func(in *input) bool { return in.topic == topic && in.used })
		})
		if topic == "" || used {
			continue
		}
		messages, first, err := Unusable(ctx, f.Pipeline, topic)
		if err != nil {
			return err
		}
		if messages > 0 {
			return &NothingUsableError{Topic: topic, Messages: messages, First: first}
		}
	}
	return nil
}

func (f *Following) ingested(done bool) event.Ingested {
	return event.Ingested{Files: []string{"topic " + f.Topic}, Split: examples.Train, Rows: f.rows.Load(), Done: done}
}

// begin returns a feed for each examples partition to which partitions of the topic are assigned.
func (f *Following) begin(ctx context.Context) (_ []*Feed, err error) {
	f.feeds = nil
	f.newest.Clear()
	if f.Bounds, err = f.Log.Spans(ctx, f.Topic); err != nil {
		return nil, fmt.Errorf("examples.%s: %w", sourceKey(f.Job), err)
	}
	examples, err := f.Log.Spans(ctx, f.Topics.Examples)
	if err != nil {
		return nil, err
	}
	states := make([]protocol.TopicProgress, len(examples))
	for n, span := range examples {
		if states[n], err = protocol.ReadTopicProgress(ctx, f.Client, f.Topic, span, lookBack); err != nil {
			return nil, fmt.Errorf("find how far %s was read: %w", f.Topic, err)
		}
		f.earlier = f.earlier || states[n].Attempt > 0
	}
	// The last attempt, with its position in each partition of the topic, from all examples partitions.
	attempt := protocol.MergeTopicProgress(states)
	if err := f.raiseEarlier(ctx, &attempt, states); err != nil {
		return nil, err
	}
	if attempt, err = f.unlessChanged(ctx, attempt); err != nil {
		return nil, err
	}
	if err := f.beginJoins(ctx, states); err != nil {
		return nil, err
	}
	if f.Partitions = attempt.Partitions; f.Partitions == 0 {
		division, err := f.decideDivision(ctx, attempt.Attempt, len(examples))
		if err != nil {
			return nil, err
		}
		f.Partitions, f.byPartition = division.Partitions, division.Joined
		if len(division.Schemas) > 0 {
			f.schemas = division.Schemas
		}
	}
	if f.Partitions > len(examples) {
		switch all, err := f.Log.Partitions(ctx, f.Topics.Examples); {
		case err != nil:
			return nil, err
		case all > len(examples): // added since they were listed, and counted by another process
			return f.begin(ctx)
		}
		f.Partitions = len(examples) // recreated
	}
	if f.Partitions < len(examples) {
		event.Notice(f.Recorder, "%s is ingested into the first %d of %d partitions of %s, the number when it was first "+
			"followed: rows keep their partitions", f.Topic, f.Partitions, len(examples), f.Topics.Examples)
	}
	f.next = make([]atomic.Int64, len(f.Bounds))
	for q := range f.next {
		f.next[q].Store(attempt.Position(q).Next)
	}
	options, err := f.withLayout(ctx, examples)
	if err != nil {
		return nil, err
	}
	if err := f.checkReading(ctx, options, attempt.Attempt); err != nil {
		return nil, err
	}
	for n := range min(f.Partitions, len(f.Bounds)) {
		from := states[n]
		if from.Attempt < attempt.Attempt {
			from = protocol.TopicProgress{Attempt: attempt.Attempt, Joined: states[n].Joined}
			if attempt.Attempt > 1 {
				from.After = schemas.Turn(states[n].Attempt, states[n].Next)
			}
		}
		for q := range f.Bounds {
			// The first messages of a later attempt record its start everywhere: partitions without rows for a while have only these.
			if q%f.Partitions == n || attempt.Attempt > 1 {
				from.Raise(attempt.Position(q))
			}
		}
		values, err := ingest.NewValues(options)
		if err != nil {
			return nil, err
		}
		feed := &Feed{Following: f, partition: n, Seen: states[n], state: from, end: examples[n].To, values: values}
		// Messages from before the topic was followed may be read again, if none after them was usable.
		feed.quarantine = &protocol.Quarantine{Client: f.Client, From: func(end int64) int64 { return end - maxThere },
			Unread: func(m *schemas.Quarantined) bool { return m.Topic == f.Topic && m.Offset >= f.Bounds[m.Partition].To }}
		for q := n; q < len(f.Bounds); q += f.Partitions {
			feed.inputs = append(feed.inputs, newInput(f.Topic, true, f.Bounds[q]))
		}
		for _, column := range values.Watched() {
			f.Recorder.Record(event.ColumnLost{Topic: f.Topic, Column: column})
		}
		if err := feed.beginJoining(ctx, states[n]); err != nil {
			return nil, err
		}
		f.feeds = append(f.feeds, feed)
	}
	return f.feeds, nil
}

// decideDivision returns the division of an attempt without rows: the one that the first process has recorded on the plans topic. If
// there is none, this process records the current number of partitions, and how rows are joined.
func (f *Following) decideDivision(ctx context.Context, attempt, all int) (*schemas.Division, error) {
	l, err := f.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	if recorded := l.Division(f.Topic, attempt); recorded != nil {
		return recorded, nil
	}
	division := &schemas.Division{Topic: f.Topic, Attempt: attempt, Partitions: all, Joined: f.byPartition, Schemas: f.schemas,
		Writer: f.Fresh()}
	if _, err := f.Log.Append(ctx, f.Topics.Plans, 0, division.Message()); err != nil {
		return nil, fmt.Errorf("record the number of partitions of %s: %w", f.Topic, err)
	}
	if l, err = f.ReadLedger(ctx); err != nil { // another process may have been first
		return nil, err
	}
	return cmp.Or(l.Division(f.Topic, attempt), division), nil
}

// raiseEarlier adopts positions from states of earlier attempts, by processes that had not seen the last one: such a
// position is valid if it continues from the last one, and the topic still has its message.
func (f *Following) raiseEarlier(ctx context.Context, last *protocol.TopicProgress, states []protocol.TopicProgress) error {
	for _, earlier := range states {
		if earlier.Attempt == last.Attempt {
			continue
		}
		for _, p := range earlier.Positions {
			if begun := last.Position(p.Partition).Next; begun == 0 || p.Next <= begun || p.Partition >= len(f.Bounds) ||
				p.Next > f.Bounds[p.Partition].To {
				continue
			}
			checksum, err := f.checksumAt(ctx, f.Topic, p.Partition, p.Next-1)
			if err != nil {
				return err
			}
			if checksum != "" && checksum == p.Last {
				last.Raise(p)
			}
		}
	}
	return nil
}

// unlessChanged returns the position from which to read: the last one if the topic still has its message, otherwise as the
// job configures.
func (f *Following) unlessChanged(ctx context.Context, last protocol.TopicProgress) (protocol.TopicProgress, error) {
	from := protocol.TopicProgress{Attempt: last.Attempt + 1, Partitions: last.Partitions} // after the change
	var changed *ChangedTopicError                                                         // the first one
	for _, read := range last.Positions {
		now, different, err := f.proven(ctx, f.Topic, f.Bounds, read)
		if err != nil {
			return from, err
		}
		if changed == nil {
			changed = different
		}
		if different != nil && f.Job.Examples.OnChangedTopic == ingest.ChangedTopicBehind {
			event.Notice(f.Recorder, "%s[%d] has changed: %s. Reading continues at offset %d; messages that arrived before offset %d "+
				"meanwhile are not read", f.Topic, read.Partition, different.Why, now.Next, read.Next)
		}
		from.Raise(now)
	}
	switch {
	case changed == nil:
		return last, nil
	case f.Job.Examples.OnChangedTopic == ingest.ChangedTopicBehind:
		return from, nil
	case f.Job.Examples.OnChangedTopic == ingest.ChangedTopicAnew:
		event.Notice(f.Recorder, "%s[%d] has changed: %s. Reading the topic from its beginning as another one", f.Topic,
			changed.Partition, changed.Why)
		return protocol.TopicProgress{Attempt: last.Attempt + 1}, nil
	}
	return from, changed
}

// lookBack is the number of messages of a source in an examples partition that are searched for the last valid one. After
// it there are at most the duplicates of some writes, and messages by processes that have not seen it yet.
const lookBack = 16

// errGrown means that partitions were added to the topic.
var errGrown = errors.New("partitions were added to the followed topic: reading them too")

// errKeys means that the keys of rows or outcomes have to be read in another way.
var errKeys = errors.New("message keys have schemas of a registry: reading them so")

// watchEvery is the interval at which the lag of the topic is measured.
const watchEvery = 5 * time.Second

// watch reports the lag of the topic, until ctx ends or partitions are added to the topic.
func (f *Following) watch(ctx context.Context) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		messages, partitions, err := f.waiting.Count(ctx, func(partition int) int64 {
			if partition < len(f.next) {
				return f.next[partition].Load()
			}
			return 0
		})
		if err != nil {
			return err
		}
		f.Recorder.Record(event.SourceLag{Topic: f.Topic, Messages: messages})
		if partitions > len(f.Bounds) {
			return errGrown
		}
		if f.outcomes != nil {
			if partitions, err = f.Log.Partitions(ctx, f.Job.Examples.Outcome.Topic); err != nil {
				return err
			}
			if partitions > len(f.outcomes) {
				return errGrown
			}
			if f.young && len(f.schemas) == 0 {
				switch ids, _, err := f.sampleKeys(ctx); {
				case err != nil:
					return err
				case len(ids) > 0:
					return errKeys
				}
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errOtherIngests means that another process ingests the topic.
var errOtherIngests = errors.New("another process ingests the topic")

// FollowInTurn follows the job's topic while this process is the active member of the consumer group. If the brokers deny
// access to the group, it follows concurrently with others: messages written by several processes count once.
func FollowInTurn(ctx context.Context, p *topics.Pipeline, job topics.Job, rec event.Recorder) error {
	if p.Admin.Embedded() {
		return NewFollow(p, job, false, rec).Run(ctx)
	}
	group := p.Admin.Join(p.Topics.Group(protocol.RoleIngest), p.Topics.Plans)
	defer func() {
		if err := group.Leave(); err != nil {
			event.Notice(rec, "leave the group of ingesters: %v", err)
		}
	}()
	for {
		err := topics.AwaitTurn(ctx, p, group, protocol.RoleIngest, errOtherIngests, nil, rec)
		if err == nil {
			err = followAsOwner(ctx, p, job, group, rec)
		}
		if denied, ok := errors.AsType[*protocol.MembershipError](err); ok {
			event.Notice(rec, "can't find out whether other processes ingest %s, ingesting it anyway: %v", job.Examples.FromTopic, denied)
			return NewFollow(p, job, false, rec).Run(ctx)
		}
		if !errors.Is(err, errOtherIngests) {
			return err
		}
	}
}

// followAsOwner follows the job's topic until this process is no longer the active one. The error is then errOtherIngests.
func followAsOwner(ctx context.Context, p *topics.Pipeline, job topics.Job, owner protocol.Owner, rec event.Recorder) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- NewFollow(p, job, false, rec).Run(following) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-owner.Changed():
		}
		if active, err := protocol.Owns(owner, 0); err != nil || !active {
			stop()
			<-ended
			return cmp.Or(err, errOtherIngests)
		}
	}
}

const (
	firstWait = time.Second      // first wait before a request to an unavailable schema registry is retried; doubled each time
	maxWait   = 30 * time.Second // maximum wait
	saidAfter = 20               // number of waits after which the operator is notified again
)

// whileAway calls read, and retries it while the schema registry is unavailable, since no message is at fault. before is
// called before the first wait.
func (f *Following) whileAway(ctx context.Context, before func(context.Context) error, read func() error) error {
	err := read()
	if _, away := ingest.Unusable(err); !away {
		return err
	}
	if err := before(ctx); err != nil {
		return err
	}
	said := f.away.Add(1) == 1 // only the first of all waiting feeds reports it
	defer f.away.Add(-1)
	for pause, waits := firstWait, 0; ; pause, waits = min(2*pause, maxWait), waits+1 {
		if said && waits%saidAfter == 0 {
			event.Notice(f.Recorder, "%s waits for the schema registry; no message is skipped: %v", f.Topic, err)
		}
		if err := f.Pause(ctx, pause); err != nil {
			return err
		}
		err = read()
		if _, away := ingest.Unusable(err); away && ctx.Err() == nil {
			continue
		}
		if said && ctx.Err() == nil {
			event.Notice(f.Recorder, "the schema registry answers again: continuing with %s", f.Topic)
		}
		return err
	}
}

// ChangedTopicError means that a followed topic no longer has the last message that was read. It has lost messages, as in
// an unclean leader election, or was recreated. Only the operator knows which.
type ChangedTopicError struct {
	Topic     string
	Partition int
	Last      int64  // last offset read
	Why       string // evidence of the change
}

// Error includes the options of the operator.
func (e *ChangedTopicError) Error() string {
	return fmt.Sprintf("%s[%d] no longer has the message read last, at offset %d: %s. It has lost messages, or was recreated. "+
		"Set examples.on_changed_topic to %s to continue after that offset, or to %s to read it from its beginning as another "+
		"topic. Until then it is not ingested",
		e.Topic, e.Partition, e.Last, e.Why, ingest.ChangedTopicBehind, ingest.ChangedTopicAnew)
}

// decided reports whether the operator has configured what to do if the topic has changed.
func (f *Following) decided() bool {
	return f.Job.Examples.OnChangedTopic == ingest.ChangedTopicBehind || f.Job.Examples.OnChangedTopic == ingest.ChangedTopicAnew
}

// checkLast returns a *ChangedTopicError if a partition of a topic that has later messages does not have the last one that was read. Its
// deletion by retention is no change.
func (f *Following) checkLast(ctx context.Context, topic string, read schemas.TopicPosition) error {
	if read.Next == 0 || read.Last == "" {
		return nil
	}
	bounds := coverage.Span{Partition: read.Partition, To: read.Next}
	last := coverage.Mark{Partition: read.Partition, Offset: read.Next - 1, Checksum: read.Last}
	found, err := f.Still(ctx, topic, bounds, last)
	if ingest.IsGap(err) { // it was read, so nothing is missing
		return nil
	}
	if found == protocol.FoundOther {
		return &ChangedTopicError{Topic: topic, Partition: read.Partition, Last: read.Next - 1, Why: "another message is there"}
	}
	return err
}

// checksumAt returns the checksum that identifies the message of the topic at an offset; "" if there is none, because it has expired or
// was compacted, or if only an archive has it.
func (f *Following) checksumAt(ctx context.Context, topic string, partition int, offset int64) (checksum string, err error) {
	for m, err := range f.Between(ctx, topic, partition, offset, offset+1) {
		if errors.As(err, new(*kafkalog.DeletedError)) || ingest.IsGap(err) {
			return "", nil
		}
		return protocol.MarkOf(partition, m).Checksum, err
	}
	return "", nil
}

// proven returns the position from which to read a partition of the topic: read, if it still has the last message. Otherwise changed is
// set, and if the operator has configured what to do, no offset before the position is read twice.
func (f *Following) proven(ctx context.Context, topic string, bounds []coverage.Span, read schemas.TopicPosition) (
	_ schemas.TopicPosition, changed *ChangedTopicError, err error) {
	if read.Next == 0 {
		return read, nil, nil
	}
	end, why := int64(0), fmt.Sprintf("it has %d partitions", len(bounds))
	if read.Partition < len(bounds) {
		end = bounds[read.Partition].To
		why = fmt.Sprintf("it ends at offset %d", end)
	}
	has := end >= read.Next
	if !has && read.Partition < len(bounds) && f.decided() {
		// Check again: a leader that was just elected may report too low an end. A read waits for the leader.
		has = true
		for _, err := range f.Between(ctx, topic, read.Partition, read.Next-1, read.Next) {
			if has = err == nil; err != nil && !errors.As(err, new(*kafkalog.DeletedError)) {
				return read, nil, err
			}
		}
	}
	changed = &ChangedTopicError{Topic: topic, Partition: read.Partition, Last: read.Next - 1, Why: why}
	if has {
		if err := f.checkLast(ctx, topic, read); !errors.As(err, &changed) {
			return read, nil, err
		}
	}
	if !f.decided() {
		return read, changed, nil
	}
	if read.Next, read.Last = min(read.Next, end), ""; read.Next > 0 {
		read.Last, err = f.checksumAt(ctx, topic, read.Partition, read.Next-1)
	}
	return read, changed, err
}

// AfterChain returns the options for files or a topic whose rows extend a chain of versions: with the layout of the earlier
// rows. Without a chain, or without files and a topic, it returns the options unchanged. No row of a chain may be on the
// topic twice, because a chain trains on all of it.
func AfterChain(ctx context.Context, p *topics.Pipeline, o ingest.Options) (ingest.Options, error) {
	if !o.ReadsRows() {
		return o, nil
	}
	m, err := p.Model(ctx, protocol.Latest)
	switch {
	case protocol.IsMissing(err):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("read what the chain has learnt: %w", err)
	case m.Manifest.Plan.Chain == nil:
		return o, nil
	}
	p.Remember(m) // the next run continues from it, if it is the newest of the chain
	o.Once = true
	o.Options = o.After(&layout.Learnt{Version: m.Manifest.Version, Sparse: m.Sparse(), Width: m.Width(), Columns: m.Columns(),
		Topic: o.FromTopic, First: m.Manifest.Plan.Input.FirstIndex})
	return o, nil
}

// AfterIngested returns the options for files or a topic from which the first version of a chain is trained together with earlier
// sources, such as those of `ingest`: with the layout of these. If the options already have the layout of a version, or
// there are no such sources, it returns the options unchanged.
func AfterIngested(ctx context.Context, p *topics.Pipeline, o ingest.Options) (ingest.Options, error) {
	if !o.ReadsRows() || o.Found.Learnt != nil {
		return o, nil
	}
	first, err := firstIngested(ctx, p)
	if err != nil || first == nil {
		return o, err
	}
	if learnt := ingest.RowsOf(first.Value, o.FromTopic); learnt != nil {
		o.Options = o.After(learnt)
	}
	return o, nil
}

// firstIngested returns the first message of a source ingested from files; nil: there is none on the topic.
func firstIngested(ctx context.Context, p *topics.Pipeline) (first *protocol.Message, err error) {
	l, bounds, forgotten, err := readTopics(ctx, p)
	if err != nil {
		return nil, err
	}
	for id := range l.Sources() {
		if forgotten.Sources[id] {
			continue
		}
		seal, err := SealOf(ctx, p, l, bounds, id)
		if err != nil {
			return nil, err
		}
		if seal == nil {
			continue
		}
		for _, span := range seal.Spans {
			for m, err := range p.Between(ctx, p.Topics.Examples, span.Partition, span.From, min(span.From+1, span.To)) {
				return &m, err
			}
		}
	}
	return nil, nil
}

// withLayout returns the options of the job for rows that follow those on the examples topic: columns with names have the same
// positions, regardless of their order in the options, and the same words, units and offsets. Without such rows, the words of
// categorical columns and the units of times are those that the topic has now. Processes that start following a topic before it has any
// examples may find different words: then the rows of one of them have other columns, and are quarantined. So one process should start
// before the others.
func (f *Following) withLayout(ctx context.Context, spans []coverage.Span) (o ingest.Options, err error) {
	if o, err = f.after(ctx, spans); err != nil {
		return o, fmt.Errorf("find the columns of rows of %s: %w", f.Topic, err)
	}
	if !o.FindsWords() {
		return o, nil
	}
	if o.Found.Learnt != nil {
		for _, c := range o.Categorical {
			if len(o.Found.Categories[c]) == 0 && !o.Mixed() {
				return o, fmt.Errorf("examples.categorical: rows of %s on %s have no words in the column %s: expected the columns "+
					"of when the topic was first followed",
					f.Topic, f.Topics.Examples, c)
			}
		}
		return o, nil
	}
	words, err := ingest.NewTopicWords(o)
	if err != nil {
		return o, err
	}
	for _, bound := range f.Bounds {
		for m, err := range f.Remaining(ctx, f.Topic, bound.Partition, bound.From, bound.To) {
			if err == nil && words.Enough() {
				break
			}
			if err == nil {
				value := ingest.MessageOf(bound.Partition, m.Offset, m.Time, m.Message, m.Rows)
				err = f.whileAway(ctx, func(context.Context) error { return nil }, func() error { return words.Add(ctx, value) })
			}
			if err != nil {
				return o, fmt.Errorf("find the words in %s: %w", f.Topic, err)
			}
		}
	}
	o, err = words.Options()
	if err != nil {
		return o, fmt.Errorf("%s: %w", f.Topic, err)
	}
	return o, nil
}

// after returns the options for rows after those of the topic on the examples topic, or else after those of the chain, or of
// ingested files.
func (f *Following) after(ctx context.Context, spans []coverage.Span) (o ingest.Options, err error) {
	o = f.Job.Examples
	if f.earlier {
		if err := f.checkNumbers(ctx, o); err != nil {
			return o, err
		}
		last, err := f.lastRows(ctx, spans)
		if err != nil || last == nil {
			return o, err
		}
		if chain := o.Found.Learnt; chain != nil { // as run has found
			last.Version = chain.Version
		}
		o.Options = o.After(last)
		return o, nil
	}
	if o, err = AfterChain(ctx, f.Pipeline, o); err == nil {
		o, err = AfterIngested(ctx, f.Pipeline, o)
	}
	return o, err
}

// lastRows describes the rows in the last messages of the topic in an examples partition; nil: there are none.
func (f *Following) lastRows(ctx context.Context, spans []coverage.Span) (last *layout.Learnt, err error) {
	for _, span := range spans {
		for count := int64(lookBack); last == nil; count *= 2 {
			from := max(span.From, span.To-count)
			for m, err := range f.Between(ctx, f.Topics.Examples, span.Partition, from, span.To) {
				if err != nil {
					return nil, err
				}
				if origin, ok := schemas.OriginOf(m.Message); ok && origin.Source == schemas.TopicSource(f.Topic) {
					last, f.last = ingest.RowsOf(m.Value, f.Topic).With(last), m
				}
			}
			if from == span.From {
				break
			}
		}
	}
	return last, nil
}

// checkReading returns an error if no message from which the last rows of the attempt come can be used: the configuration has changed
// since, and all later messages would go to quarantine, where they would stay even if the configuration was restored.
func (f *Following) checkReading(ctx context.Context, o ingest.Options, attempt int) error {
	origin, ok := schemas.OriginOf(f.last.Message)
	if !ok || origin.Attempt != strconv.Itoa(attempt) {
		return nil
	}
	origins, err := examples.RowOriginsOf(f.last.Message)
	if err != nil {
		return err
	}
	values, err := ingest.NewValues(o)
	if err != nil {
		return err
	}
	var first error
	for _, of := range origins {
		for m, err := range f.Remaining(ctx, f.Topic, of.Partition, of.Offset, of.Offset+int64(of.Messages)) {
			if err != nil {
				return err
			}
			value := ingest.MessageOf(of.Partition, m.Offset, m.Time, m.Message, m.Rows)
			err := f.whileAway(ctx, func(context.Context) error { return nil }, func() error { return values.Check(ctx, value) })
			if unusable, _ := ingest.Unusable(err); err == nil || !unusable || ctx.Err() != nil {
				return err
			}
			first = cmp.Or(first, fmt.Errorf("%s[%d]@%d: %s", f.Topic, of.Partition, m.Offset, schemas.WithoutValues(err.Error())))
		}
	}
	if first == nil { // deleted
		return nil
	}
	return fmt.Errorf("the messages that the last rows come from can't be used any more: %w. Restore the keys under examples, or give the "+
		"pipeline another name", first)
}

// checkNumbers returns an error if the newest version of the chain was trained on other columns, by their numbers. Rows of
// CSV do not have the numbers of their columns.
func (f *Following) checkNumbers(ctx context.Context, o ingest.Options) error {
	m, err := f.Version(ctx, protocol.Latest)
	switch {
	case protocol.IsMissing(err):
		return nil
	case err != nil:
		return err
	case m.Plan.Chain == nil || len(m.Columns) > 0:
		return nil
	}
	key, was, now := "use", m.Plan.Input.Use, o.Columns.Use
	if len(was)+len(now) == 0 {
		key, was, now = "drop", m.Plan.Input.Drop, o.Columns.Drop
	} else if len(was) == 0 {
		return nil // all columns: their number is compared
	}
	if !slices.Equal(slices.Sorted(slices.Values(was)), slices.Sorted(slices.Values(now))) {
		return fmt.Errorf("examples.columns.%s: %q, but version %d of the chain has learnt rows with %q: restore the columns, or give the "+
			"pipeline another name to start a chain with these rows", key, now, m.Version, was)
	}
	return nil
}
