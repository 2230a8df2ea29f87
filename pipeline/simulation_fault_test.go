package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// injectFault makes one fault happen, chosen at random. Faults of single calls are in actorLog.
func (s *simulation) injectFault() {
	if len(s.actors) == 0 { // all runners have ended, and are started again later
		return
	}
	a := s.actors[s.random.IntN(len(s.actors))]
	if a.process != nil {
		a = a.process
	}
	n := s.random.IntN(14)
	switch {
	case s.operators && s.random.IntN(3) == 0:
		n = 12
	case s.fromTopic > 0 && s.random.IntN(4) == 0:
		n = 8
	case s.files && s.random.IntN(2) == 0, s.chain != nil && s.chain.loses && s.random.IntN(3) == 0:
		n = 11
	}
	switch n {
	case 0, 1, 2:
		s.log.happen(kill, "%s is killed", a.name)
		a.killed, a.paused, a.waits = true, 0, nil
	case 3, 4:
		a.paused = 20 + s.random.IntN(400)
		s.log.happen(pause, "%s pauses for %d steps", a.name, a.paused)
	case 5, 6:
		s.log.happen(reassignment, "partitions are assigned again, and some actors are not notified")
		s.reassign(func() bool { return s.random.IntN(2) == 0 })
	case 7:
		s.log.happen(compaction, "plans, versions and state are compacted")
		s.compact(s.steps - oldAge) // see Topics
	case 8:
		if s.fromTopic > 0 {
			s.expireRemade()
			return
		}
		s.expire(s.topics.Residuals, s.random.IntN(simPartitions)) // a worker makes residuals again, so no data is lost
	case 9:
		all := slices.Concat(s.workers, s.solvers, s.runners)
		n := s.random.IntN(len(all))
		s.log.happen(expulsion, "member %d of %d is expelled from its group", n, len(all))
		all[n].lose()
		s.reassign(func() bool { return s.random.IntN(2) == 0 })
	case 10:
		topic := []string{s.topics.Statistics, s.topics.Examples}[s.random.IntN(2)]
		if s.chooses && s.chain == nil {
			topic = s.topics.Statistics // a preparation is chosen by half of the partitions that there are
		}
		if partitions := s.log.topics[topic]; len(partitions) == 2 {
			s.log.happen(growth, "%s gets another partition", topic)
			s.log.addPartition(topic, 0)
			if s.chain != nil && topic == s.topics.Examples && s.random.IntN(2) == 0 {
				s.differs = true
				s.log.count(spreading)
				s.feed(len(partitions), 1+s.random.IntN(5))
			}
		}
	case 12, 13:
		switch {
		case s.retention > 0 && s.random.IntN(2) == 0:
			s.drawSetting(s.random)
		case s.followers && s.random.IntN(3) > 0:
			s.loseOfSource()
		default:
			s.operate()
		}
	case 11:
		switch {
		case s.chain != nil && s.chain.loses && s.random.IntN(4) > 0:
			s.loseOfChain()
		case s.chain != nil && s.random.IntN(2) == 0:
			s.abort()
		case s.chain != nil:
			s.log.happen(reassignment, "each runner takes itself for the active one")
			for _, m := range s.runners {
				m.assign(0)
			}
		case s.files || s.random.IntN(3) == 0:
			s.loseData()
		}
	}
}

// expire deletes the messages of a partition before an offset that it draws.
func (s *simulation) expire(topic string, partition int) {
	p := s.log.topics[topic][partition]
	before := p.first + s.random.Int64N(p.end-p.first+1)
	s.log.happen(expiry, "%s[%d] expires before offset %d", topic, partition, before)
	p.expire(before)
}

// compact compacts versions and state, and what was written on plans up to a step.
func (s *simulation) compact(step int) {
	versions, state, plans := s.log.topics[s.topics.Versions][0], s.log.topics[s.topics.State][0], s.log.topics[s.topics.Plans][0]
	versions.compact(versions.end)
	state.compact(state.end)
	plans.compact(plans.before(step))
}

// A step takes a second by the clock of the processes, but in scenarios whose windows are of a time.
const simStep = time.Second

// now is the clock of every process.
func (s *simulation) now() time.Time {
	now := time.UnixMilli(simNow)
	if s.timed {
		return now
	}
	return now.Add(time.Duration(s.steps) * simStep)
}

// aging makes of the scenario of a chain one whose examples come while it is made, and stay for a while only. Chains
// that are idle, slow or stopped for longer than that lose what they stand on, and what they have not learnt.
func (sc *scenario) aging(retention time.Duration) *scenario {
	sc.retention, sc.job.Topics.Retention.Examples = retention, retention
	return sc.losing()
}

// agingSteps is for how long examples come: then the chain can get to the end of them.
const agingSteps = 10_000

// age writes another message to the examples now and then, and deletes those that are too old.
func (s *simulation) age() {
	if s.retention == 0 || s.log.calm || s.steps > agingSteps {
		return
	}
	if s.random.IntN(200) == 0 {
		s.noteLoss(s.topics.Examples) // sooner or later
		s.feed(s.random.IntN(simPartitions), 1)
	}
	if s.steps%100 > 0 {
		return
	}
	r := topics.RetentionOf(s.settings[s.topics.Examples])
	for _, p := range s.log.topics[s.topics.Examples] {
		if before := p.before(s.steps - int(r.Time/simStep)); before > p.first {
			s.log.happen(aged, "examples expire before offset %d after %v", before, r.Time)
			p.expire(before)
		}
	}
}

// simFileRows is how many rows a file has that is ingested. They are one message: ingest writes to each partition in a
// goroutine of its own, whose order is not that of the schedule.
const simFileRows = 6

// withFiles makes of the scenario of a chain whose topic is followed one whose examples also come from two files, which
// two processes ingest.
func (sc *scenario) withFiles(t testing.TB) *scenario {
	t.Helper()
	for n := range 2 {
		sc.csv = append(sc.csv, rings(simFileRows, 2, 2, uint64(3000+n)).writeCSV(t, t.TempDir(), fmt.Sprint("file", n, ".csv")))
	}
	return sc
}

// startIngester starts a process that ingests the files. It ends once they are sealed, or if an operator has them forgotten.
func (s *simulation) startIngester(i int) {
	var a *actor
	a = s.start(fmt.Sprint("ingester ", i), func() {
		if a.err != nil && !strings.Contains(a.err.Error(), "is forgotten") {
			s.startIngester(i)
		}
	}, func(a *actor) error {
		job, p := s.job, s.pipeline(a)
		job.Examples.Train = s.csv
		log := &handedLog{Log: p.Log, calls: make(chan handedCall)}
		p.Log = log
		return log.serve(func() error {
			_, err := source.Files(context.Background(), p, job, topics.ExamplesRetention{}, event.Ignore{})
			return err
		})
	})
	a.follower = true
}

// handedLog is the log of an actor for what calls it from other goroutines: it hands the calls to the coroutine of the actor.
type handedLog struct {
	protocol.Log
	calls chan handedCall
}

// handedCall is a call, and a channel that is closed when it is made.
type handedCall struct {
	do   func()
	made chan struct{}
}

// serve does something in another goroutine, and makes its calls until it has ended.
func (l *handedLog) serve(do func() error) error {
	ended := make(chan error)
	go func() { ended <- do() }()
	for {
		select {
		case c := <-l.calls:
			c.do()
			close(c.made)
		case err := <-ended:
			return err
		}
	}
}

// call has the coroutine make a call.
func (l *handedLog) call(do func()) {
	c := handedCall{do, make(chan struct{})}
	l.calls <- c
	<-c.made
}

func (l *handedLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (base int64, err error) {
	l.call(func() { base, err = l.Log.Append(ctx, topic, partition, messages...) })
	return base, err
}

func (l *handedLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	l.call(func() { first, end, err = l.Log.Bounds(ctx, topic, partition) })
	return first, end, err
}

func (l *handedLog) Spans(ctx context.Context, topic string) (spans []coverage.Span, err error) {
	l.call(func() { spans, err = l.Log.Spans(ctx, topic) })
	return spans, err
}

func (l *handedLog) Before(ctx context.Context, topic string, age time.Duration) (offsets []int64, err error) {
	l.call(func() { offsets, err = l.Log.Before(ctx, topic, age) })
	return offsets, err
}

func (l *handedLog) Range(topic string, partition int, from, to int64) protocol.Reader {
	return &handedReader{l.Log.Range(topic, partition, from, to), l}
}

// handedReader is a reader of a [handedLog].
type handedReader struct {
	protocol.Reader
	log *handedLog
}

func (r *handedReader) Next(ctx context.Context) (m protocol.Message, err error) {
	r.log.call(func() { m, err = r.Reader.Next(ctx) })
	return m, err
}

// sharedLog is the log of a simulation for a process with goroutines, all of whose work is one step of the schedule: the order
// of its calls is not that of the schedule, and what it writes is not in the history.
type sharedLog struct {
	actorLog
	mutex   *sync.Mutex
	written chan struct{} // closed when something is written
	history uint32        // of the log, before
	onWrite func(string, wire.Message)
}

// shared returns the pipeline for such a process. The caller closes the log.
func (s *simulation) shared() (*topics.Pipeline, *sharedLog) {
	p := s.pipeline(unattended())
	log := &sharedLog{actorLog: actorLog{s.log, unattended(), nil}, mutex: new(sync.Mutex), written: make(chan struct{}),
		history: s.log.history, onWrite: s.log.onWrite}
	s.log.onWrite = nil
	p.Log, p.Admin = log, &sharedAdmin{simAdmin{log.actorLog, s.settings}, log.mutex}
	return s.remaking(p), log
}

func (l *sharedLog) close() { l.simLog.history, l.simLog.onWrite = l.history, l.onWrite }

func (l *sharedLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	close(l.written)
	l.written = make(chan struct{})
	return l.actorLog.Append(ctx, topic, partition, messages...)
}

func (l *sharedLog) Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) (offsets []int64, err error) {
	for _, m := range messages {
		offset, err := l.Append(ctx, topic, partition, m)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

func (l *sharedLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.Bounds(ctx, topic, partition)
}

func (l *sharedLog) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.Spans(ctx, topic)
}

func (l *sharedLog) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.Before(ctx, topic, age)
}

func (l *sharedLog) DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.DeleteBefore(ctx, topic, partition, offset)
}

func (l *sharedLog) Partitions(ctx context.Context, topic string) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.Partitions(ctx, topic)
}

func (l *sharedLog) Range(topic string, partition int, from, to int64) protocol.Reader {
	return &sharedRange{l.actorLog.Range(topic, partition, from, to), l.mutex}
}

type sharedRange struct {
	protocol.Reader
	mutex *sync.Mutex
}

func (r *sharedRange) Next(ctx context.Context) (protocol.Message, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.Reader.Next(ctx)
}

func (l *sharedLog) Subscribe(ctx context.Context, wake <-chan struct{}, from ...protocol.Position) protocol.Subscription {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return &sharedSubscription{l.actorLog.Subscribe(ctx, nil, from...).(*simSubscription), l, wake}
}

// sharedSubscription waits for what other goroutines write.
type sharedSubscription struct {
	*simSubscription
	log  *sharedLog
	wake <-chan struct{}
}

func (s *sharedSubscription) Next(ctx context.Context, timeout time.Duration) (*protocol.Delivery, bool, error) {
	for {
		s.log.mutex.Lock()
		written := s.log.written
		s.waits = ctx
		if !s.idle() {
			d, late, err := s.simSubscription.Next(ctx, timeout)
			s.log.mutex.Unlock()
			return d, late, err
		}
		s.log.mutex.Unlock()
		select {
		case <-written:
		case <-s.wake:
			return nil, false, nil
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// sharedAdmin is the cluster for such a process.
type sharedAdmin struct {
	simAdmin
	mutex *sync.Mutex
}

func (s *sharedAdmin) Configs(ctx context.Context, topics ...string) (map[string]map[string]string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.simAdmin.Configs(ctx, topics...)
}

func (s *sharedAdmin) Create(ctx context.Context, topics ...kafkalog.Topic) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.simAdmin.Create(ctx, topics...)
}

func (s *sharedAdmin) Delete(ctx context.Context, topics ...string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.simAdmin.Delete(ctx, topics...)
}
