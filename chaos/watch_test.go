//go:build unix

package main

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// watched returns a client of a pipeline on an embedded broker, which has a run, and a watch of what comes.
func watched(t *testing.T) (*protocol.Client, *watch) {
	t.Helper()
	log := arrowtest.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	client := protocol.NewClient(log, "test", nil)
	for _, topic := range []string{client.Topics.Plans, client.Topics.Weights} {
		arrowtest.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: 1}))
	}
	publish(t, client, client.Topics.Plans, planOf(t, 1)...)
	w := arrowtest.Must(newWatch(t.Context(), log, "test"))(t)
	return client, w
}

func publish(t *testing.T, client *protocol.Client, topic string, messages ...wire.Message) {
	t.Helper()
	arrowtest.Must(client.Log.Append(t.Context(), topic, 0, messages...))(t)
}

func plan(seed uint64) *schemas.Plan {
	stage := solve.Defaults()
	stage.Features = stages.Defaults()
	return &schemas.Plan{
		Name: "test", Spans: coverage.Spans{{To: 4}}, Foreign: true, Prepare: schemas.Prepare{Scale: prepare.ScaleNone},
		Stages: []schemas.Stage{stage, stage}, Seed: seed, Segment: 2,
	}
}

func planOf(t *testing.T, seed uint64) []wire.Message {
	t.Helper()
	messages := arrowtest.Must(plan(seed).Messages())(t)
	return messages
}

// record is what a solver publishes for a visit; final is not nil in the record that ends a stage.
func record(kind wire.Kind, seed uint64, stage, visit int, final *schemas.Final) wire.Message {
	w := schemas.Weights{Identity: wire.Identity{Kind: kind, Run: plan(seed).Run(), Stage: stage, Visit: visit}, Final: final}
	messages, err := w.Record().EncodeWithin(wire.MaxMessage, memory.DefaultAllocator)
	if err != nil {
		panic(err)
	}
	return messages[0]
}

func ended(seed uint64, state string, version int) wire.Message {
	end := &schemas.End{Run: plan(seed).Run(), State: state}
	if version > 0 {
		end.Version = &schemas.Place{Run: end.Run, Version: version}
	}
	return end.Message()
}

// A watch follows the first run that is planned after it. Records of other runs and repeated records change nothing.
func TestWatchFollowsOneRun(t *testing.T) {
	client, w := watched(t)
	var following errgroup.Group
	following.Go(func() error { return w.follow(t.Context()) })
	weights, final := client.Topics.Weights, &schemas.Final{Visit: 1}
	await := func(records int) {
		t.Helper()
		there := w.await(t.Context(), records)
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if !there || len(w.records) != records {
			t.Fatalf("%d records, expected %d", len(w.records), records)
		}
	}
	publish(t, client, client.Topics.Plans, append(planOf(t, 2), planOf(t, 3)...)...)
	await(0)
	publish(t, client, weights, record(schemas.KindWeights, 1, 4, 5, final), record(statistics.KindPrepare, 2, wire.Survey, 0, nil))
	await(1)
	publish(t, client, weights, record(statistics.KindPrepare, 2, wire.Survey, 0, nil), record(schemas.KindWeights, 2, 0, 1, nil))
	await(2)
	publish(t, client, weights, record(schemas.KindWeights, 2, 0, 2, final))
	await(3)
	publish(t, client, client.Topics.Plans, ended(1, schemas.Done, 1), ended(2, schemas.Failed, 0))
	if w.await(t.Context(), 9) {
		t.Error("await returns true after the end of the run")
	}
	if err := following.Wait(); err != nil || w.state().State != schemas.Failed || w.id() != plan(2).Run() {
		t.Errorf("%v, %+v", err, w.state())
	}
}

// A watch of a chain counts the records of all of its runs, each once, and has no end of its own.
func TestWatchFollowsAChain(t *testing.T) {
	client, w := watched(t)
	defer w.plans.Close()
	w.chain = true
	plans, weights := client.Topics.Plans, client.Topics.Weights
	for _, step := range []struct {
		topic   string
		m       wire.Message
		records int
	}{
		{plans, planOf(t, 2)[0], 0},
		{weights, record(statistics.KindPrepare, 2, wire.Survey, 0, nil), 1},
		{weights, record(schemas.KindWeights, 2, 0, 1, nil), 2},
		{plans, ended(2, schemas.Done, 1), 2},
		{plans, planOf(t, 3)[0], 2},
		{weights, record(schemas.KindWeights, 3, 0, 1, nil), 3},
		{weights, record(schemas.KindWeights, 3, 0, 1, nil), 3}, // written twice
		{plans, ended(3, schemas.Done, 2), 3},
	} {
		publish(t, client, step.topic, step.m)
		d, _, err := w.plans.Deliver(t.Context(), protocol.MaxPatience)
		if err != nil {
			t.Fatal(err)
		}
		if w.see(d.Message.Message); len(w.records) != step.records || w.state() != nil {
			t.Fatalf("%v after %v, expected %d", w, step.m.Headers, step.records)
		}
	}
}
