package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A worker reports a failure again and again until the run has ended, as a broker may lose what it has acknowledged. A worker that has
// no partitions reports nothing, and tries again after a while, as it may be the only one.
func TestFailureIsReportedUntilTheRunEnds(t *testing.T) {
	for name, test := range map[string]struct{ partitions, failures int }{"one partition": {1, 3}, "no partition": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			log, client := newSimClient("t")
			plan := &schemas.Plan{
				Name: "t", Warm: &schemas.Warm{}, Spans: coverage.Spans{{To: 1}}, Segment: 1, // it starts from a version that does not exist
				Stages: []schemas.Stage{rffStage(link.Softmax, 5, 1)}, Prepare: schemas.Prepare{Scale: "none"},
			}
			plans := log.topics[client.Topics.Plans][0]
			messages, err := plan.Messages()
			if err != nil {
				t.Fatal(err)
			}
			plans.append(messages[0])
			w := worker.New(client, nil, plan, 0, protocol.NewSoleOwner(test.partitions), worker.Options{}, event.Ignore{})
			failures := 0
			log.onWrite = func(topic string, m wire.Message) {
				if m.Kind() != schemas.KindFailure {
					return
				}
				if failures++; failures == 3 {
					end := &schemas.End{Run: plan.Run(), State: schemas.Failed}
					plans.append(end.Message())
				}
			}
			var stopped *worker.StoppedError
			if err := w.Work(t.Context()); !errors.As(err, &stopped) || failures != 0 {
				t.Fatalf("%d failures reported, error %v; expected none, and a *worker.StoppedError", failures, err)
			}
			if err := stopped.Report(t.Context()); err != nil || failures != test.failures {
				t.Errorf("%d failures reported, error %v; expected %d and none", failures, err, test.failures)
			}
		})
	}
}

// newSimClient returns a log with empty topics of one partition, and a client of it.
func newSimClient(name string) (*simLog, *protocol.Client) {
	log, topics := &simLog{topics: map[string][]*simPartition{}}, protocol.TopicsOf(name)
	for _, topic := range []string{topics.Examples, topics.Residuals, topics.Statistics, topics.Weights, topics.Versions, topics.Plans,
		topics.Quarantine} {
		log.addPartition(topic, 0)
	}
	return log, &protocol.Client{Log: actorLog{simLog: log, actor: unattended()}, Topics: topics, Codec: protocol.NewCodec(nil, 0)}
}

// A worker whose chain lacks a record that is on the topic goes on with it, and with all that it has in memory. The
// topic was made anew, and the record has an offset that the worker had read already.
func TestWorkerThatMissedARecord(t *testing.T) {
	log, client := newSimClient("t")
	data := rings(20, 2, 2, 1)
	plan := &schemas.Plan{
		Name: "t", Foreign: true, Missing: "error", Spans: coverage.Spans{{To: 1}}, Segment: 1,
		Stages: []schemas.Stage{rffStage(link.Softmax, 5, 1)}, Prepare: schemas.Prepare{Scale: "none"},
	}
	messages, err := plan.Messages()
	if err != nil {
		t.Fatal(err)
	}
	plans, weights := log.topics[client.Topics.Plans][0], log.topics[client.Topics.Weights][0]
	plans.append(messages[0])
	example := protocol.FromKafka(exampleMessage(t, data.exampleRows()))
	log.topics[client.Topics.Examples][0].append(example)
	weights.append(wire.Message{Key: "of an earlier run"})
	survey := &statistics.SurveyResult{
		Identity: wire.Identity{Kind: statistics.KindPrepare, Run: plan.Run(), Stage: wire.Survey, Parent: plan.Digest()},
		Preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, []float32{0, 0}), wire.Vector(statistics.TensorScale, []float32{1, 1}),
			wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"ring0", "ring1"}),
		},
		Covered: []coverage.Coverage{{Spans: plan.Spans, Messages: 1, Rows: 20, Checksum: partition.Message{Message: example}.Checksum(0, 20)}},
	}
	record, err := client.Codec.EncodeSingle(survey.Record())
	if err != nil {
		t.Fatal(err)
	}
	var visits []int // by stage
	log.onWrite = func(_ string, m wire.Message) {
		id, err := wire.IdentityOf(m)
		if err != nil || id.Kind != statistics.KindVisit {
			return
		}
		if visits = append(visits, id.Stage); id.Stage == wire.Survey { // the worker has read the topic up to offset 1
			weights.remake()
			weights.append(record[0])
			return
		}
		plans.append((&schemas.End{Run: plan.Run(), State: schemas.Cancelled}).Message())
	}
	reader := &followedLog{actorLog: client.Log.(actorLog)}
	client.Log = reader
	if err := worker.New(client, kernel.Gonum(), plan, 0, protocol.NewSoleOwner(1), worker.Options{Executor: sequential{new(int)}},
		event.Ignore{}).Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(visits, []int{wire.Survey, 0}) || reader.subscriptions != 1 {
		t.Errorf("visits to stages %v, and the worker has begun %d times; expected one survey, one visit to stage 0, and that it goes on",
			visits, reader.subscriptions)
	}
}

// followedLog counts subscriptions.
type followedLog struct {
	actorLog
	subscriptions int
}

func (l *followedLog) Subscribe(ctx context.Context, wake <-chan struct{}, from ...protocol.Position) protocol.Subscription {
	l.subscriptions++
	return l.actorLog.Subscribe(ctx, wake, from...)
}

// slowSolver is a simulation without other faults, of one worker, and of a solver that takes so long after each record
// of the statistics that the worker's patience ends again and again.
type slowSolver struct {
	*simulation
	written map[wire.Identity]int // how often each record of the statistics was written
}

func newSlowSolver(sc *scenario) *slowSolver {
	s := &slowSolver{sc.simulation(0), map[wire.Identity]int{}}
	s.random = nil
	s.log.onWrite = func(topic string, m wire.Message) {
		s.checkWrite(topic, m)
		if topic != s.topics.Statistics {
			return
		}
		if id, err := wire.IdentityOf(m); err == nil {
			s.written[id]++
		}
		for _, a := range s.actors {
			if strings.HasPrefix(a.name, "solver") {
				a.paused = 1000
			}
		}
	}
	s.startRoles(1, 1)
	if sc.chain == nil {
		s.submit(1, false, false)
	} else {
		s.startRunners(1)
	}
	return s
}

// finish goes on until all runs have ended, and calls after after each step.
func (s *slowSolver) finish(t *testing.T, after func()) {
	t.Helper()
	for s.violation == nil && s.submitting() {
		if s.steps++; s.steps > 10*maxSteps {
			t.Fatal("the run does not end")
		}
		s.log.step = s.steps
		s.step()
		after()
	}
	s.stopActors()
	if s.violation != nil {
		t.Error(s.violation)
	}
	if !slices.Equal(s.outcomes, []string{schemas.Done}) {
		t.Errorf("outcomes %v, expected that the run is done", s.outcomes)
	}
}

// A solver that takes longer than a worker's patience gets each record once, as the log has it.
func TestSlowSolverGetsEachRecordOnce(t *testing.T) {
	long(t)
	columns := rffStage(link.Softmax, 0, 2)
	columns.Features.Kind = "columns"
	calibrated := columns
	calibrated.Link = link.Calibrated
	for name, sc := range map[string]*scenario{
		"in memory":  newScenario(t, plainExamples(), 1<<20, columns, columns),
		"read again": newScenario(t, plainExamples(), 0, columns, columns),
		"calibrated": newScenario(t, plainExamples(), 100, calibrated),
		"updates":    newChainScenario(t, chainExamples(), 100, chainOptions(), columns),
	} {
		s := newSlowSolver(sc)
		s.finish(t, func() {})
		for key, n := range s.written {
			if n != 1 {
				t.Errorf("%s: %s was written %d times", name, key, n)
			}
		}
		if len(s.written) < 10 {
			t.Errorf("%s: the statistics have %d messages", name, len(s.written))
		}
	}
}

// What the log has lost, or has damaged, the worker publishes again, and nothing else: what a visit publishes of a partition, or its seal.
func TestWorkerRepeatsWhatTheLogHasLost(t *testing.T) {
	columns := rffStage(link.Softmax, 0, 2)
	columns.Features.Kind = "columns"
	sc := newScenario(t, plainExamples(), 1<<20, columns, columns)
	type visit struct { // to a partition
		stage, visit, partition int
		seal                    bool
	}
	visitOf := func(id wire.Identity) visit {
		return visit{id.Stage, id.Visit, id.Partition, id.Kind == statistics.KindSeal}
	}
	for how, lose := range map[string]func(p *simPartition, at int) (lost []protocol.Message){
		"lost": func(p *simPartition, at int) []protocol.Message {
			lost := p.messages[at]
			p.messages = slices.Delete(slices.Clone(p.messages), at, at+1)
			return []protocol.Message{lost}
		},
		"truncated": func(p *simPartition, at int) []protocol.Message {
			lost := p.messages[at:]
			p.truncate(p.messages[at].Offset)
			return lost
		},
		"damaged": func(p *simPartition, at int) []protocol.Message {
			p.messages = slices.Clone(p.messages)
			p.messages[at].Value = p.messages[at].Value[1:]
			return p.messages[at : at+1]
		},
	} {
		for _, of := range []wire.Identity{
			{Kind: statistics.KindVisit, Stage: wire.Survey, Merged: 2}, {Kind: statistics.KindGram, Merged: 2},
			{Kind: statistics.KindVisit, Visit: 1, Merged: 2}, {Kind: statistics.KindSeal, Merged: 2},
		} {
			if of.Kind == statistics.KindSeal && how != "truncated" {
				continue // the next visit comes behind it, so the solver knows that it is gone, and the run fails
			}
			s, lost, before := newSlowSolver(sc), map[visit]bool{}, map[string]int{}
			s.finish(t, func() {
				if worker := s.actors[0]; len(lost) > 0 || worker.waits == nil {
					return // it has more to publish
				}
				for _, p := range s.log.topics[s.topics.Statistics] {
					at := slices.IndexFunc(p.messages, func(m protocol.Message) bool {
						id, err := wire.IdentityOf(m.Message)
						return err == nil && id.Kind == of.Kind && visitOf(id) == visitOf(of)
					})
					if at < 0 {
						continue
					}
					for id, n := range s.written {
						before[id.String()] = n
					}
					for _, m := range lose(p, at) {
						if id, err := wire.IdentityOf(m.Message); err == nil {
							lost[visitOf(id)] = true
						}
					}
				}
			})
			if len(lost) == 0 {
				t.Errorf("no %v was %s", of, how)
			}
			for id, n := range s.written {
				// A partition that is visited again alone has records of its own for what was merged.
				if want := 1 + map[bool]int{true: 1}[lost[visitOf(id)] && before[id.String()] > 0]; n != want {
					t.Errorf("a %v is %s: the %v was written %d times, expected %d", of, how, id, n, want)
				}
			}
		}
	}
}

// A worker that makes its survey again reads the log, not what it has in memory, and gets the same records.
func TestSurveyMadeAgain(t *testing.T) {
	for name, newLogJob := range map[string]func(*testing.T, *kafkalog.Log) topics.Job{
		"ingested": func(t *testing.T, _ *kafkalog.Log) topics.Job {
			return newJob(t, rings(300, 2, 2, 1), table{}, rffStage(link.Softmax, 20, 3))
		},
		"foreign": func(t *testing.T, log *kafkalog.Log) topics.Job {
			job, good := newForeignJob(t, rings(300, 2, 2, 1))
			produce(t, log, job, 0, good, kafkalog.Message{Value: []byte("x")}, kafkalog.Message{Value: []byte("x")},
				kafkalog.Message{Value: []byte("x")}, good)
			return job
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := newLogJob(t, log)
			p, plan := submitJob(t, log, job, event.Ignore{})
			all := protocol.NewSoleOwner(job.Examples.Partitions)
			// After each survey the worker loses all its partitions, and gets them back.
			owner, surveys := newSimMembership(), 0
			owner.assign(all...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			recorder := &eventRecorder{on: func(e event.Event) {
				switch e := e.(type) {
				case event.Visited:
					if surveys++; surveys == 3 {
						cancel()
					}
					owner.assign()
				case event.Owned:
					if len(e.Partitions) == 0 {
						owner.assign(all...)
					}
				}
			}}
			w := worker.New(p.Client, openBLAS(t), plan, 0, owner, worker.Options{Bytes: 1 << 30}, recorder)
			if err := w.Work(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("got error %v, expected the worker to be interrupted after 3 surveys", err)
			}
			digests := map[string]string{}
			for _, m := range readTopic(t, log, p.Topics.Statistics) {
				key := string(m.Key)
				if digest := header(m, "digest"); digests[key] != "" && digests[key] != digest {
					t.Errorf("%s has digest %s, the first time %s", key, digest, digests[key])
				} else {
					digests[key] = digest
				}
			}
			readQuarantine(t, log, job)
		})
	}
}
