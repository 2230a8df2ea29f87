package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
)

// A worker reports a failure again and again until the run has ended, as a broker may lose what it has acknowledged. A worker that has
// no partitions reports nothing, and tries again after a while, as it may be the only one.
func TestFailureIsReportedUntilTheRunEnds(t *testing.T) {
	for name, test := range map[string]struct{ partitions, failures int }{"one partition": {1, 3}, "no partition": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			log, client := newSimClient("t")
			plan := &schemas.Plan{
				Name: "t", Warm: &schemas.Warm{}, Spans: schemas.Spans{{To: 1}}, Segment: 1, // it starts from a version that does not exist
				Stages: []schemas.Stage{rffStage(link.Softmax, 5, 1)}, Prepare: schemas.Prepare{Scale: "none"},
			}
			plans := log.topics[client.Topics.Plans][0]
			messages, err := plan.Messages()
			if err != nil {
				t.Fatal(err)
			}
			plans.append(messages[0])
			w := worker.New(client, nil, plan, 0, run.NewSoleOwner(test.partitions), worker.Options{}, event.Ignore{})
			failures := 0
			log.onWrite = func(topic string, m schemas.Message) {
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
func newSimClient(name string) (*simLog, *run.Client) {
	log, topics := &simLog{topics: map[string][]*simPartition{}}, run.TopicsOf(name)
	for _, topic := range []string{topics.Examples, topics.Residuals, topics.Statistics, topics.Weights, topics.Versions, topics.Plans, topics.Quarantine} {
		log.addPartition(topic, 0)
	}
	return log, &run.Client{Log: actorLog{simLog: log, actor: unattended()}, Topics: topics, Codec: run.NewCodec(nil, 0)}
}

// A worker whose chain lacks a record that is on the topic begins again from what is there. The topic was made anew, and the record
// has an offset that the worker had read already.
func TestWorkerThatMissedARecord(t *testing.T) {
	log, client := newSimClient("t")
	plan := &schemas.Plan{
		Name: "t", Foreign: true, Spans: schemas.Spans{{To: 1}}, Segment: 1,
		Stages: []schemas.Stage{rffStage(link.Softmax, 5, 1)}, Prepare: schemas.Prepare{Scale: "none"},
	}
	messages, err := plan.Messages()
	if err != nil {
		t.Fatal(err)
	}
	plans, weights := log.topics[client.Topics.Plans][0], log.topics[client.Topics.Weights][0]
	plans.append(messages[0])
	weights.append(schemas.Message{Key: "of an earlier run"})
	survey := &schemas.SurveyResult{
		Identity: schemas.Identity{Kind: schemas.KindPrepare, Run: plan.Run(), Stage: schemas.Survey, Parent: plan.Digest()},
		Preparation: schemas.Tensors[float32]{
			schemas.Vector(schemas.TensorCenter, []float32{0}), schemas.Vector(schemas.TensorScale, []float32{1}),
			schemas.Vector(schemas.TensorSpread, []float32{1}), schemas.Words[float32](schemas.TensorLabels, []string{"a", "b"}),
		},
	}
	record, err := client.Codec.EncodeSingle(survey.Record())
	if err != nil {
		t.Fatal(err)
	}
	reader := &followedLog{actorLog: client.Log.(actorLog), on: func(subscriptions int) {
		switch subscriptions {
		case 1: // the worker has read the topic up to offset 1
			weights.remake()
			weights.append(record[0])
		case 2:
			plans.append((&schemas.End{Run: plan.Run(), State: schemas.Cancelled}).Message())
		}
	}}
	client.Log = reader
	if err := worker.New(client, nil, plan, 0, run.NewSoleOwner(0), worker.Options{}, event.Ignore{}).Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reader.subscriptions != 2 {
		t.Errorf("the worker has followed the topics %d times, expected that it begins again once", reader.subscriptions)
	}
}

// followedLog counts subscriptions.
type followedLog struct {
	actorLog
	subscriptions int
	on            func(subscriptions int)
}

func (l *followedLog) Subscribe(ctx context.Context, wake <-chan struct{}, from ...run.Position) run.Subscription {
	s := l.actorLog.Subscribe(ctx, wake, from...)
	l.subscriptions++
	l.on(l.subscriptions)
	return s
}

// A worker that waits too long for the solver repeats its survey from the log, not from what it has in memory, and gets the same records.
func TestSurveyMadeAgain(t *testing.T) {
	for name, newLogJob := range map[string]func(*testing.T, *kafkalog.Log) Job{
		"ingested": func(t *testing.T, _ *kafkalog.Log) Job {
			return newJob(t, rings(300, 2, 2, 1), table{}, rffStage(link.Softmax, 20, 3))
		},
		"foreign": func(t *testing.T, log *kafkalog.Log) Job {
			job, good := newForeignJob(t, rings(300, 2, 2, 1))
			produce(t, log, job, 0, good, kafkalog.Message{Value: []byte("x")}, kafkalog.Message{Value: []byte("x")}, kafkalog.Message{Value: []byte("x")}, good)
			return job
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := newLogJob(t, log)
			p, plan := submitJob(t, log, job, event.Ignore{})
			all := run.NewSoleOwner(job.Examples.Partitions)
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
