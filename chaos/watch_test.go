//go:build unix

package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

func newTestWatch() *watch {
	return &watch{due: map[string]moment{}, changed: make(chan struct{})}
}

// weightsMessage is what a solver publishes for a visit; final is not nil in the record that ends a stage.
func weightsMessage(kind wire.Kind, run string, stage, visit int, final *schemas.Final) wire.Message {
	w := schemas.Weights{Identity: wire.Identity{Kind: kind, Run: run, Stage: stage, Visit: visit}, Final: final}
	return w.Record().Messages(make([][]byte, 1))[0]
}

// A watch follows the first run that is planned. Late records of the run before it and repeated records change nothing.
func TestWatchFollowsOneRun(t *testing.T) {
	w, final := newTestWatch(), &schemas.Final{Visit: 1}
	plan, other := &schemas.Plan{Name: "a", Segment: 1}, &schemas.Plan{Name: "b", Segment: 1}
	run := plan.Run()
	for _, step := range []struct {
		m   wire.Message
		due moment
	}{
		{weightsMessage(schemas.KindWeights, "old", 4, 5, nil), moment{}},
		{weightsMessage(statistics.KindPrepare, run, wire.Survey, 0, nil), moment{}}, // the other topic is read first
		{planMessage(t, plan), moment{0, 0}},
		{planMessage(t, other), moment{0, 0}},
		{weightsMessage(schemas.KindWeights, "old", 4, 5, final), moment{0, 0}},
		{weightsMessage(schemas.KindWeights, run, 0, 1, nil), moment{0, 1}},
		{weightsMessage(statistics.KindPrepare, run, wire.Survey, 0, nil), moment{0, 1}},
		{weightsMessage(schemas.KindWeights, run, 0, 2, final), moment{1, 0}},
		{(&schemas.End{Run: "old", State: schemas.Done}).Message(), moment{1, 0}},
	} {
		if err := w.see(step.m, time.Now()); err != nil {
			t.Fatal(err)
		}
		if due := w.due[w.id()]; due != step.due || w.state() != nil {
			t.Fatalf("%v after %v, ended: %v; expected %v", due, step.m.Headers, w.state(), step.due)
		}
	}
	if !w.await(t.Context(), moment{0, 5}) {
		t.Error("await does not return for a moment in the past")
	}
	if err := w.see((&schemas.End{Run: run, State: schemas.Failed}).Message(), time.Now()); !errors.Is(err, errEnded) ||
		w.state().State != schemas.Failed {
		t.Errorf("%v, %+v", err, w.state())
	}
	if w.await(t.Context(), moment{0, 5}) {
		t.Error("await returns true after the end of the run")
	}
}

// A watch of a chain counts its versions, each once, whichever run makes them, and has no end of its own.
func TestWatchFollowsAChain(t *testing.T) {
	w := newTestWatch()
	w.chain = true
	first, second := &schemas.Plan{Name: "a", Segment: 1}, &schemas.Plan{Name: "b", Segment: 1}
	made := func(plan *schemas.Plan, version int) wire.Message {
		return (&schemas.End{Run: plan.Run(), State: schemas.Done, Version: &schemas.Place{Run: plan.Run(), Version: version}}).Message()
	}
	for _, step := range []struct {
		m   wire.Message
		due moment
	}{
		{planMessage(t, first), moment{wire.Survey, 0}},
		{weightsMessage(statistics.KindPrepare, first.Run(), wire.Survey, 0, nil), moment{0, 0}},
		{weightsMessage(schemas.KindWeights, first.Run(), 0, 1, nil), moment{0, 1}},
		{made(first, 1), moment{1, 0}},
		{planMessage(t, second), moment{1, 0}},
		{weightsMessage(statistics.KindPrepare, second.Run(), wire.Survey, 0, nil), moment{1, 0}},
		{weightsMessage(schemas.KindWeights, second.Run(), 0, 1, nil), moment{1, 1}},
		{made(first, 1), moment{1, 1}}, // written twice
		{(&schemas.End{Run: second.Run(), State: schemas.Failed}).Message(), moment{1, 1}},
		{made(second, 2), moment{2, 0}},
	} {
		if err := w.see(step.m, time.Now()); err != nil {
			t.Fatal(err)
		}
		if due := w.due[w.id()]; due != step.due || w.state() != nil {
			t.Fatalf("%v after %v, ended: %v; expected %v", due, step.m.Headers, w.state(), step.due)
		}
	}
}

// A recovery ends with the next progress of the run, and with nothing else.
func TestSlowestRecovery(t *testing.T) {
	w, began := newTestWatch(), time.Now()
	plan := &schemas.Plan{Name: "a", Segment: 1}
	run := plan.Run()
	after := func(seconds int, m wire.Message) {
		t.Helper()
		if err := w.see(m, began.Add(time.Duration(seconds)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	after(0, planMessage(t, plan))
	w.faulted(killWorker, began.Add(1*time.Second))
	after(2, weightsMessage(schemas.KindWeights, "old", 4, 5, nil))
	after(3, weightsMessage(statistics.KindPrepare, run, wire.Survey, 0, nil))
	w.faulted(killSolver, began.Add(4*time.Second))
	after(5, weightsMessage(statistics.KindPrepare, run, wire.Survey, 0, nil))
	w.faulted(killBroker, began.Add(8*time.Second))
	after(9, weightsMessage(schemas.KindWeights, run, 0, 1, nil))
	if slowest := w.slowestRecovery(); slowest.kind != killSolver || slowest.took != 5*time.Second {
		t.Errorf("%+v", slowest)
	}
}

func planMessage(t *testing.T, plan *schemas.Plan) wire.Message {
	t.Helper()
	messages, err := plan.Messages()
	if err != nil {
		t.Fatal(err)
	}
	return messages[0]
}
