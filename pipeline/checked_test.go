package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A chain over more segments than a plan may have gets longer segments, says so, and its run is made. A plan that
// nobody would work on is an error, and is not written.
func TestPlansOfAChainAreCheckedFirst(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 4)
	p, rec := topics.Open(log, job.Name, nil), &eventRecorder{}
	r := newRunner(p, job, protocol.NewSoleOwner(1), schemas.Arithmetic{}, nil, rec)
	var worked *schemas.Plan
	r.work = func(_ context.Context, plan *schemas.Plan, _ *protocol.Ledger) (*schemas.Report, error) {
		worked = plan
		return nil, context.Canceled
	}
	plan := func(to int64) *schemas.Plan {
		return &schemas.Plan{
			Name: job.Name, Missing: layout.MissingError, OnBadMessage: job.OnBadMessage, Prepare: job.Prepare, Stages: job.Stages, Segment: 3,
			Spans: coverage.Spans{{Partition: 0, From: 0, To: to}}, Chain: &schemas.Chain{Number: 1},
		}
	}
	if err := r.submit(t.Context(), plan(25*schemas.MaxSegments)); !errors.Is(err, context.Canceled) || worked == nil {
		t.Fatalf("%v: the run is not made", err)
	}
	if worked.Segment != 48 || worked.Run() != r.made || !noticed(rec, "segments of 48 messages") {
		t.Errorf("segments of %d messages, notices %v; expected 48", worked.Segment, eventsOf[event.Noticed](rec))
	}
	end := &schemas.End{Run: worked.Run(), State: schemas.Failed, Reason: "a test"}
	noError(t, dispatch.End(t.Context(), p, end))
	worked = nil
	few := plan(3 * schemas.MaxSegments)
	few.Chain.Attempt = 1
	if err := r.submit(t.Context(), few); !errors.Is(err, context.Canceled) || worked == nil || worked.Segment != 3 {
		t.Errorf("as many segments as a plan may have: %v, plan %+v", err, worked)
	}
	for what, spoil := range map[string]func(*schemas.Plan){
		"a class twice":       func(p *schemas.Plan) { p.Classes = []string{"a", "a"} },
		"an unknown link":     func(p *schemas.Plan) { p.Stages = []schemas.Stage{{Link: "none"}} },
		"segments of nothing": func(p *schemas.Plan) { p.Segment = 0 },
	} {
		before, wrong := len(readTopic(t, log, p.Topics.Plans)), plan(4)
		if spoil(wrong); r.submit(t.Context(), wrong) == nil {
			t.Errorf("a plan with %s is no error", what)
		}
		if after := len(readTopic(t, log, p.Topics.Plans)); after != before {
			t.Errorf("a plan with %s is on the topic", what)
		}
	}
}

// forgetfulLog acknowledges messages of a topic and loses them.
type forgetfulLog struct {
	protocol.Log
	topic string
}

func (l forgetfulLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	if topic == l.topic {
		return 0, nil
	}
	return l.Log.Append(ctx, topic, partition, messages...)
}

// A chain whose plan is not on the topic, though it was written, waits before it plans the run again.
func TestPlansThatAreLostAreNotWrittenAgainAtOnce(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 4)
	p := topics.OpenForRuns(log, job, nil)
	client := *p.Client
	client.Log = forgetfulLog{client.Log, p.Topics.Plans}
	p.Client = &client
	work := func(context.Context, *schemas.Plan, *protocol.Ledger) (*schemas.Report, error) {
		panic("nobody has the plan")
	}
	join := func(context.Context) (execution, func(), error) { return work, func() {}, nil }
	rec, pauses := &eventRecorder{}, 0
	r := newRunner(p, job, protocol.NewSoleOwner(1), schemas.Arithmetic{}, join, rec)
	r.pause = func(context.Context, time.Duration) error {
		if pauses++; pauses == 3 {
			return context.Canceled
		}
		return nil
	}
	if err := r.run(t.Context(), true); !errors.Is(err, context.Canceled) || pauses != 3 || !noticed(rec, "planning the run again") {
		t.Errorf("%v after %d pauses, expected 3", err, pauses)
	}
}
