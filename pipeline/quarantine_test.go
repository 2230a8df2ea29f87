package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// retrainCounted makes versions until the topic has no more, or stop returns true for an event. It returns how many
// messages of the quarantine topic were read.
func retrainCounted(t *testing.T, log *kafkalog.Log, job topics.Job, stop func(event.Event) bool) (read int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rec := &eventRecorder{on: func(e event.Event) {
		if stop(e) {
			cancel()
		}
	}}
	p := topics.OpenForRuns(log, job, nil)
	if err := topics.Create(ctx, p, &job); err != nil {
		t.Fatal(err)
	}
	var counted atomic.Int64
	client := *p.Client
	client.Log = readCounter{client.Log, p.Topics.Quarantine, &counted, one}
	counting := *p
	counting.Client = &client
	m := newSoleMembers(t, &counting, job, rec)
	join := func(context.Context) (execution, func(), error) { return m.Execute, func() {}, nil }
	err := newRunner(&counting, job, protocol.NewSoleOwner(1), planning.Arithmetic(m.BLAS), join, rec).run(ctx, true)
	if err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		t.Fatal(err)
	}
	return counted.Load()
}

// However much is in quarantine, a run of a chain reads of it only what was put there since its plan was made. Each
// message comes there once, however often its run is interrupted, and if full runs read it again.
func TestChainPutsEachMessageIntoQuarantineOnce(t *testing.T) {
	const history = 40
	job, good := newForeignJob(t, rings(40, 4, 3, 1))
	job.Stages = []schemas.Stage{rffStage(link.Softmax, 16, 3)}
	job.Examples.Partitions, job.Retrain = 1, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 80, topics.FullOptions{Every: 2}
	other := exampleMessage(t, examples.Rows{Rows: 1, Cols: 4, Floats: []float32{1, 2, 3, 4}, Words: []string{"square"}})
	log, topicNames := openEmbedded(t), protocol.TopicsOf(job.Name)
	p := topics.OpenForRuns(log, job, nil)
	never := func(event.Event) bool { return false }

	produce(t, log, job, 0, good, good)
	retrainCounted(t, log, job, never)
	for i := range history {
		q := schemas.Quarantined{Topic: topicNames.Examples, Offset: int64(1_000_000 + i), Reason: "none"}
		if _, err := p.Log.Append(t.Context(), topicNames.Quarantine, 0, q.Message()); err != nil {
			t.Fatal(err)
		}
	}
	want := history
	for i := range 6 {
		produce(t, log, job, 0, good, kafkalog.Message{Value: fmt.Append(nil, "bad ", i)}, other, good)
		want += 2
		at := 0
		for n := range i % 3 { // the run is interrupted when it has put a message there
			seen := false
			at += int(retrainCounted(t, log, job, func(e event.Event) bool {
				_, now := e.(event.Quarantined)
				seen = seen || now
				return now
			}))
			if !seen {
				t.Fatalf("increment %d: interruption %d: nothing was put into quarantine", i, n)
			}
		}
		at += int(retrainCounted(t, log, job, never))
		if got := len(readQuarantine(t, log, job)); got != want {
			t.Errorf("increment %d: %d messages in quarantine, expected %d", i, got, want)
		}
		if at > 3*2 { // the two of the increment, in each of up to three beginnings
			t.Errorf("increment %d: %d messages of the quarantine were read", i, at)
		}
	}
}
