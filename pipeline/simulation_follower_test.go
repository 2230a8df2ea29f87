package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// simSource is a topic that is followed.
const simSource = "orders"

// simOutcomes is the topic of the outcomes of its rows, if they come later.
const simOutcomes = "refunds"

// simWithin is how long a row waits for its outcome: a step takes a second.
const simWithin = 300 * time.Second

// later makes of the scenario of a followed topic one whose labels come later, on another topic.
func (sc *scenario) later() *scenario {
	sc.labelsLater = true
	return sc
}

// sourcePartitions is how many partitions it has: those of the examples get as many of them as there are.
const sourcePartitions = 3

// followed makes of the scenario of a chain one whose examples also come from a topic, which two processes follow.
func (sc *scenario) followed() *scenario {
	sc.followers = true
	return sc
}

// followSource writes to a topic while two followers and the chain work, then ends it, and waits until all of it is ingested.
func (s *simulation) followSource() {
	s.differs = true
	s.onChanged = []string{ingest.ChangedTopicBehind, ingest.ChangedTopicAnew}[s.random.IntN(2)]
	for range sourcePartitions {
		s.log.addPartition(simSource, s.random.Int64N(3))
	}
	if s.labelsLater {
		for range []int{2, sourcePartitions}[s.random.IntN(2)] {
			s.log.addPartition(simOutcomes, s.random.Int64N(3))
		}
	}
	for i := range 2 {
		s.startFollower(i)
	}
	for i := range len(s.csv) { // as many processes as files
		s.startIngester(i)
		s.read += simFileRows
	}
	for steps := s.random.IntN(4000); steps > 0 && s.violation == nil; steps-- {
		if s.random.IntN(100) == 0 {
			s.writeSource()
		}
		s.goOn()
	}
	for _, p := range s.log.topics[simOutcomes] { // no row waits
		p.append(wire.Message{Key: "the end"})
		p.last().Time = s.now().Add(2 * simWithin)
	}
	s.ended = true
	for _, a := range s.actors {
		if a.follower {
			a.killed, a.paused, a.waits = true, 0, nil // it is started again to read to the end
		}
	}
	for s.violation == nil && slices.ContainsFunc(s.actors, func(a *actor) bool { return a.follower }) {
		if s.goOn(); s.steps > maxSteps {
			s.fail("a follower has not ended after %d steps", maxSteps)
		}
	}
	if !s.dataLost && s.violation == nil {
		s.checkIngested()
	}
}

// writeSource writes a message of a few rows to the topic that is followed; some can't be used.
func (s *simulation) writeSource() {
	if s.labelsLater && s.random.IntN(2) == 0 {
		s.writeOutcome()
		return
	}
	p := s.log.topics[simSource][s.random.IntN(sourcePartitions)]
	m := wire.Message{Key: fmt.Sprint("customer ", s.random.IntN(3))}
	if s.random.IntN(10) == 0 {
		m.Value = []byte("no number\n")
	} else {
		for range 1 + s.random.IntN(3) {
			s.read++
			if !s.labelsLater {
				m.Value = fmt.Appendf(m.Value, "%s,", []string{"ring0", "ring1"}[s.read%2])
			}
			m.Value = fmt.Appendf(m.Value, "%d,%d\n", s.random.IntN(9), s.read)
		}
	}
	p.append(m)
	p.last().Time = s.now()
	if !s.labelsLater && s.random.IntN(4) == 0 { // who follows recognises the message that was read last, whatever its time
		p.last().Time = []time.Time{{}, time.UnixMilli(-1), time.UnixMilli(simNow)}[s.random.IntN(3)]
	}
}

// writeOutcome writes an outcome of the rows of a customer, or a message that is none.
func (s *simulation) writeOutcome() {
	outcomes := s.log.topics[simOutcomes]
	p := outcomes[s.random.IntN(len(outcomes))]
	m := wire.Message{Key: fmt.Sprint("customer ", s.random.IntN(3)), Value: fmt.Append(nil, "ring", s.random.IntN(2))}
	switch s.random.IntN(10) {
	case 0:
		m.Value = nil
	case 1:
		m.Key = ""
	}
	p.append(m)
	p.last().Time = s.now().Add(-time.Duration(s.random.IntN(100)) * time.Second)
}

// loseOfSource makes the topic that is followed lose messages, or be made anew.
func (s *simulation) loseOfSource() {
	if s.ended || s.log.topics[simSource] == nil {
		return
	}
	s.noteLoss(s.topics.Examples)
	topic := simSource
	if s.labelsLater && s.random.IntN(2) == 0 {
		topic = simOutcomes
	}
	if s.random.IntN(3) == 0 {
		s.log.happen(renewal, "%s is made anew", topic)
		for _, p := range s.log.topics[topic] {
			p.remake()
		}
		return
	}
	_, n, p := s.drawPartition(topic)
	if s.random.IntN(2) == 0 {
		before := p.first + s.random.Int64N(p.end-p.first+1)
		s.log.happen(shortening, "%s[%d] expires before offset %d", topic, n, before)
		p.expire(before)
		return
	}
	if p.end > p.first {
		from := p.end - 1 - s.random.Int64N(min(p.end-p.first, 3))
		s.log.happen(shortening, "%s[%d] loses what it has from offset %d on", topic, n, from)
		p.truncate(from)
	}
}

// simOutcome says how rows wait for outcomes.
func simOutcome() outcome.Options {
	o := outcome.Defaults()
	o.Topic, o.Label, o.Within, o.Early, o.Absent = simOutcomes, "0", simWithin, 10*time.Second, []string{"ring0"}
	return o
}

func (s *simulation) startFollower(i int) {
	var a *actor
	a = s.start(fmt.Sprint("follower ", i), func() {
		_, unusable := errors.AsType[*source.NothingUsableError](a.err) // the topic may have lost all that could be used
		if a.err != nil && !unusable || !s.ended {
			s.startFollower(i)
		}
	}, func(a *actor) error {
		job := s.job
		job.Examples.Train, job.Examples.FromTopic, job.Examples.Format, job.Examples.BatchRows = nil, simSource, "csv", 4
		job.Examples.OnChangedTopic, job.Examples.Partitions = s.onChanged, simPartitions
		if s.labelsLater {
			job.Examples.Outcome = simOutcome()
		}
		p := s.pipeline(a)
		if err := source.CheckSource(context.Background(), p, job); err != nil {
			return err
		}
		if err := topics.Create(context.Background(), p, &job); err != nil {
			return err
		}
		f := source.NewFollow(p, job, s.ended, event.Ignore{})
		f.Together = func(ctx context.Context, feeds []*source.Feed) error { return s.inThreads(ctx, a, feeds) }
		return f.Run(context.Background())
	})
	a.follower = true
}

// checkIngested checks that each row of the topic that is followed counts once, with the label of its outcome.
func (s *simulation) checkIngested() {
	counting, counted := protocol.NewCounting(&schemas.Plan{Foreign: true}), map[[2]int64][]string{}
	for n, p := range s.log.topics[s.topics.Examples] {
		replay := counting.Replay(coverage.Span{Partition: n})
		for _, m := range p.messages {
			if replay.Accept(m.Message) != "" {
				continue
			}
			origins, err := examples.RowOriginsOf(m.Message)
			if err != nil {
				s.fail("%v", err)
			}
			if origins == nil {
				continue
			}
			batch, err := examples.Decode(m.Value, memory.DefaultAllocator)
			if err != nil {
				s.fail("%v", err)
				return
			}
			row := 0
			for _, o := range origins {
				for i := range o.Messages {
					at := [2]int64{int64(o.Partition), o.Offset + int64(i)}
					counted[at] = append(counted[at], batch.Label(row))
					row += o.Rows
				}
			}
			batch.Release()
		}
	}
	for n, p := range s.log.topics[simSource] {
		latest := time.Time{}
		for _, m := range p.messages {
			if latest = later(latest, m.Time); string(m.Value) == "no number\n" {
				continue
			}
			got := counted[[2]int64{int64(n), m.Offset}]
			if delete(counted, [2]int64{int64(n), m.Offset}); len(got) != 1 {
				s.fail("%s[%d]@%d counts %d times, expected once", simSource, n, m.Offset, len(got))
				continue
			}
			if want := s.outcomeOf(n, m.Key, latest); s.labelsLater && got[0] != want {
				s.fail("%s[%d]@%d has the label %s, expected %s", simSource, n, m.Offset, got[0], want)
			}
		}
	}
	for at := range counted {
		s.fail("%s[%d]@%d counts, and is no row", simSource, at[0], at[1])
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// outcomeOf returns the label that a row has by its definition.
func (s *simulation) outcomeOf(partition int, key string, at time.Time) string {
	o, label, first := simOutcome(), "ring0", time.Time{}
	for n, p := range s.log.topics[simOutcomes] {
		if len(s.log.topics[simOutcomes]) == sourcePartitions && n != partition {
			continue
		}
		latest := time.Time{}
		for _, m := range p.messages {
			latest = later(latest, m.Time)
			if m.Key == key && len(m.Value) > 0 && !latest.Before(at.Add(-o.Early)) && !latest.After(at.Add(o.Within)) &&
				(first.IsZero() || latest.Before(first)) {
				first, label = latest, string(m.Value)
			}
		}
	}
	return label
}

// simExamples are the examples of a scenario, and what a run must say of them.
type simExamples struct {
	local     bool                // updates are visited by their solvers
	messages  [][]wire.Message    // by partition
	fromTopic int                 // number of messages of a topic that they are ingested from: see topicExamples; 0: none is
	files     bool                // runs are of the source, as of files; otherwise of everything on the topic
	seal      *schemas.SourceSeal // of the source; nil: there is none
	late      *schemas.SourceSeal // of a source that is sealed while a chain is made; nil: there is none
	forget    *schemas.Forget     // of a chain: rows that are forgotten while it is made; nil: none
	bad       []string            // the keys, on the quarantine topic, of messages that can't be used

	timed bool                 // they say when they were written: see simTimes
	gaps  [simPartitions][]gap // by partition

	holdout float64 // the fraction of the rows that are held out
	tested  bool    // some rows are for tests
	sparse  bool    // rows are sparse: their stages stay what they are

	rows       int64 // that count
	passedOver coverage.PassedOver
}

const (
	simPartitions = 2
	simRows       = 4 // of a message
)

// plainExamples are two messages without headers in each partition.
func plainExamples() *simExamples {
	e := &simExamples{rows: 4 * simRows}
	for p := range simPartitions {
		e.messages = append(e.messages, []wire.Message{simMessage(p, 0, schemas.Origin{}), simMessage(p, 1, schemas.Origin{})})
	}
	return e
}

// ingestedExamples are a source of four messages, one of which is repeated in each partition; messages of attempts at the same source
// that were interrupted; and messages of other producers, one of which has headers of its own and one of which can't be used.
func ingestedExamples(files bool) *simExamples {
	e := &simExamples{files: files}
	const whole = "whole"
	other := simMessage(0, 2, schemas.Origin{})
	other.Key = "shop"
	other.Headers = []wire.Header{{Key: "source", Value: "shop/7"}, {Key: "sequence", Value: "0"}, {Key: "kind", Value: "plan"},
		{Key: "run", Value: "1"}}
	bad := wire.Message{Value: []byte("no Arrow stream")}
	e.messages = [][]wire.Message{
		{sourceMessage("first", 0), sourceMessage(whole, 0), other, sourceMessage(whole, 0), sourceMessage(whole, 2)},
		{sourceMessage("first", 1), sourceMessage(whole, 1), sourceMessage("second", 1), sourceMessage(whole, 3), sourceMessage(whole, 1), bad},
	}
	e.seal = &schemas.SourceSeal{
		ID: string(wire.DigestJSON("a source")), Attempt: whole, Files: []string{"a.csv"}, Split: examples.Train.String(),
		Partitions: simPartitions, Messages: 4, Rows: 4 * simRows,
		Spans: coverage.Spans{{Partition: 0, From: 1, To: 5}, {Partition: 1, From: 1, To: 4}},
	}
	if files {
		e.rows, e.passedOver = 4*simRows, coverage.PassedOver{coverage.OtherProducer: 1, coverage.Repeated: 1, coverage.OtherSource: 1}
		return e
	}
	e.rows, e.passedOver = 5*simRows, coverage.PassedOver{coverage.Repeated: 2, coverage.Unsealed: 3}
	quarantined := schemas.Quarantined{Topic: protocol.TopicsOf(simName).Examples, Partition: 1, Offset: 5}
	e.bad = []string{quarantined.Message().Key}
	return e
}

// simMessage returns a message with simRows rows of its own. It is of another producer if the origin is zero.
func simMessage(partition, number int, origin schemas.Origin) wire.Message {
	data := rings(simRows, 2, 2, uint64(10*partition+number))
	rows := examples.Rows{Rows: simRows, Cols: 2, Words: data.labels}
	for _, row := range data.rows {
		rows.Floats = append(rows.Floats, row...)
	}
	return examplesMessage(origin, &rows)
}

// examplesMessage returns the message of rows, which fit into one. Without a source it has only a value.
func examplesMessage(origin schemas.Origin, rows *examples.Rows) wire.Message {
	m, err := origin.Message(rows, memory.DefaultAllocator)
	if err != nil {
		panic(err) // the rows fit into a message
	}
	if origin.Source == "" {
		return wire.Message{Value: m.Value}
	}
	return m
}

// sourceMessage returns the message of the source with that sequence, from an attempt to ingest it.
func sourceMessage(attempt string, sequence int) wire.Message {
	origin := schemas.Origin{Source: string(wire.DigestJSON("a source")), Attempt: attempt, Sequence: int64(sequence)}
	return simMessage(sequence%simPartitions, sequence/simPartitions, origin)
}

// sealed returns the seal of the source, which it ingests again if the topic does not have all of it.
func (s *simulation) sealed(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger) (*schemas.SourceSeal, error) {
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, err
	}
	if seal, err := source.SealOf(ctx, p, l, bounds, s.seal.ID); err != nil || seal != nil {
		return seal, err
	}
	s.log.happen(ingestion, "the source is ingested again")
	seal := *s.seal
	seal.Attempt, seal.Spans = "again "+strconv.Itoa(s.log.writes), make(coverage.Spans, simPartitions)
	for sequence := range int(seal.Messages) {
		span := &seal.Spans[sequence%simPartitions]
		at, err := p.Log.Append(ctx, p.Topics.Examples, sequence%simPartitions, sourceMessage(seal.Attempt, sequence))
		if err != nil {
			return nil, err
		}
		if span.Empty() {
			*span = coverage.Span{Partition: sequence % simPartitions, From: at}
		}
		span.To = at + 1
	}
	_, err = p.Log.Append(ctx, p.Topics.Plans, 0, seal.Message())
	return &seal, err
}

// inSolvers makes updates of the examples small enough for their solvers to visit.
func (e *simExamples) inSolvers() *simExamples {
	e.local = true
	return e
}

// An expiring chain is one whose examples come from a topic, and expire while its processes work, as far as their origins were written.
// Each process makes them again from that topic, or from an archive of it, so nothing is lost: all invariants of a chain hold as without
// expiry.

// topicExamples are examples that are ingested from a topic.
func topicExamples(messages int) *simExamples {
	return &simExamples{rows: int64(2 * messages), fromTopic: messages}
}

// sourceJob returns the job of a process that knows the topic of the examples.
func (s *simulation) sourceJob() topics.Job {
	job := s.job
	job.Examples.Train, job.Examples.FromTopic, job.Examples.Format, job.Examples.BatchRows = nil, simSource, "csv", simRows
	job.Examples.Partitions, job.Topics.Retention.Examples = simPartitions, time.Hour
	return job
}

// ingestTopic writes the topic of the examples, and ingests all of it.
func (s *simulation) ingestTopic() {
	for range sourcePartitions {
		s.log.addPartition(simSource, 0)
	}
	s.log.addPartition(s.topics.Origins, 0)
	s.settings[simSource] = map[string]string{}
	for i := range s.fromTopic {
		p := s.log.topics[simSource][i%sourcePartitions]
		p.append(wire.Message{Value: fmt.Appendf(nil, "ring0,%d,%d\nring1,%d,%d\n", i%5, i, i%7+3, i)})
		p.last().Time = time.UnixMilli(int64(i))
	}
	s.log.calm = true
	f := source.NewFollow(s.pipeline(unattended()), s.sourceJob(), true, event.Ignore{})
	f.Together = func(ctx context.Context, feeds []*source.Feed) error {
		for _, feed := range feeds {
			if err := feed.Run(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := f.Run(context.Background()); err != nil {
		s.fail("ingest the examples: %v", err)
	}
	s.log.calm = false
}

// remaking makes expired examples again in a process.
func (s *simulation) remaking(p *topics.Pipeline) *topics.Pipeline {
	if s.fromTopic > 0 {
		p.Remade = topics.NewRemade(p.Client, s.sourceJob().Examples, p.Memory)
		p.Log = p.Remade
	}
	return p
}

// actorOf returns the actor that a pipeline is of.
func actorOf(p *topics.Pipeline) *actor {
	log := p.Log
	if p.Remade != nil {
		log = p.Remade.Log
	}
	return log.(actorLog).actor
}

// expireRemade deletes examples that can be made again, so no data is lost.
func (s *simulation) expireRemade() {
	n := s.random.IntN(simPartitions)
	p := s.log.topics[s.topics.Examples][n]
	before := p.first
	for _, m := range p.messages {
		if m.Get("stagewise-rows") != "" && s.random.IntN(4) > 0 {
			before = m.Offset + 1
		}
	}
	s.log.happen(archived, "%s[%d] expires before offset %d, and can be made again", s.topics.Examples, n, before)
	p.expire(before)
}
