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

// A worker reports a failure again and again until the run has ended, as a broker may lose what it has acknowledged.
func TestFailureIsReportedUntilTheRunEnds(t *testing.T) {
	topics := run.TopicsOf("t")
	log := &simLog{topics: map[string][]*simPartition{topics.Plans: {{}}, topics.Weights: {{}}, topics.Statistics: {{}}}}
	client := &run.Client{Log: actorLog{simLog: log, actor: unattended()}, Topics: topics, Codec: run.NewCodec(nil, 0)}
	plan := &schemas.Plan{
		Name: "t", Warm: &schemas.Warm{}, Spans: schemas.Spans{{To: 1}}, Segment: 1, // it starts from a version that does not exist
		Stages: []schemas.Stage{rffStage(link.Softmax, 5, 1)}, Prepare: schemas.Prepare{Scale: "none"},
	}
	messages, err := plan.Messages()
	if err != nil {
		t.Fatal(err)
	}
	log.topics[topics.Plans][0].append(messages[0])
	w := worker.New(client, nil, plan, 0, run.NewAlone(1), worker.Options{}, event.Ignore{})
	failures := 0
	log.onWrite = func(topic string, m schemas.Message) {
		if m.Kind() != schemas.KindFailure {
			return
		}
		if failures++; failures == 3 {
			end := &schemas.End{Run: plan.Run(), State: schemas.Failed}
			log.topics[topics.Plans][0].append(end.Message())
		}
	}
	var stopped *worker.StoppedError
	if err := w.Work(t.Context()); !errors.As(err, &stopped) || failures != 0 {
		t.Fatalf("%d failures reported, error %v; expected none, and a *worker.StoppedError", failures, err)
	}
	if err := stopped.Report(t.Context()); err != nil || failures != 3 {
		t.Errorf("%d failures reported, error %v; expected 3 and none", failures, err)
	}
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
			all := run.NewAlone(job.Examples.Partitions)
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
