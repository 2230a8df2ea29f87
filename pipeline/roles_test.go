package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
)

// A process with another arithmetic than the run's leaves its group, so that others get its partitions, and says so.
func TestAnotherArithmeticStandsAside(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	p, plan := submitJob(t, log, job, event.Ignore{})
	other := plan.Arithmetic
	other.BLAS = "another"
	left, over := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	recorder := &eventRecorder{on: func(e event.Event) {
		if _, ok := e.(event.Ended); ok {
			close(over)
		}
	}}
	ended := make(chan error, 1)
	go func() {
		ended <- dispatch.Serve(ctx, p, other, event.Serialised(recorder), func() dispatch.Member {
			return &leavingMember{SoleOwner: protocol.NewSoleOwner(4), left: left}
		}, func(context.Context, protocol.Owner, *schemas.Plan, int64) error {
			t.Error("a process with another arithmetic takes part in the run")
			return nil
		})
	}()
	<-left
	must(newSoleMembers(t, p, job, event.Ignore{}).Execute(t.Context(), plan, readLedger(t, p)))(t)
	<-over
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("serve ended with error %v, expected that it was cancelled", err)
	}
	if aside := eventsOf[event.StoodAside](recorder); len(aside) == 0 || aside[0].Run != plan.Run() || aside[0].Over ||
		!strings.Contains(aside[0].Why, "its arithmetic differs") {
		t.Errorf("%+v, expected first of all that it stands aside", aside)
	}
}

// With arithmetic: any, machines of any kind work on a run together, and the version says so.
func TestAnyArithmetic(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	job.Arithmetic = topics.ArithmeticAny
	p, plan := submitJob(t, log, job, event.Ignore{})
	halves := make(chan error, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i, blas := range []*kernel.BLAS{openBLAS(t), kernel.Gonum()} {
		here := dispatch.Arithmetic(blas)
		here.Processor = []string{"amd64", "arm64"}[i]
		half := &leavingMember{SoleOwner: protocol.SoleOwner{i, i + 2}, left: make(chan struct{}, 1)}
		go func() {
			halves <- dispatch.Serve(ctx, p, here, event.Ignore{}, func() dispatch.Member { return half }, func(ctx context.Context,
				o protocol.Owner, plan *schemas.Plan, watch int64) error {
				return worker.New(p.Client, blas, plan, watch, o, worker.Options{Cache: visit.NewRunCache(1 << 30)}, event.Ignore{}).Work(ctx)
			})
		}()
	}
	solving := newSoleMembers(t, p, job, event.Ignore{})
	solving.Works = protocol.NewSoleOwner(0)
	report, err := solving.Execute(t.Context(), plan, readLedger(t, p))
	if err != nil || len(report.Stages) != len(job.Stages) {
		t.Fatalf("report %+v, %v", report, err)
	}
	stop()
	for range 2 {
		if err := <-halves; !errors.Is(err, context.Canceled) {
			t.Errorf("a worker ended with %v", err)
		}
	}
	if m, err := p.Version(t.Context(), protocol.Latest); err != nil || !m.Plan.Arithmetic.Any {
		t.Errorf("manifest %+v, %v; expected that it says that any machine worked on the run", m, err)
	}
}

// leavingMember is a member of a group that sends a value when it leaves.
type leavingMember struct {
	protocol.SoleOwner
	left chan<- struct{}
}

func (l *leavingMember) Leave() error {
	select {
	case l.left <- struct{}{}:
	default: // it has left before
	}
	return nil
}

// A process that retrains finishes no run of another arithmetic, whether it is full or an update: it cancels the run, says so, and makes
// it again. It joins no such run either: executing it is an error.
func TestAnotherArithmeticIsNotFinished(t *testing.T) {
	for name, versions := range map[string]int{"full": 0, "update": 2} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			if fill(t, log, job, 0, 4); versions > 0 {
				must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
				fill(t, log, job, 4, 8)
			}
			p, here := topics.OpenFor(log, job, nil), dispatch.Arithmetic(openBLAS(t))
			other, killed := here, errors.New("killed")
			other.BLAS = "another"
			var plan *schemas.Plan
			dies := func(_ context.Context, of *schemas.Plan, _ *protocol.Ledger) (*schemas.Report, error) {
				plan = of
				return nil, killed
			}
			join := func(context.Context) (execution, func(), error) { return dies, func() {}, nil }
			if err := newRunner(p, job, protocol.NewSoleOwner(1), other, join, event.Ignore{}).run(t.Context(), true); !errors.Is(err, killed) {
				t.Fatal(err)
			}
			_, err := newSoleMembers(t, p, job, event.Ignore{}).Execute(t.Context(), plan, readLedger(t, p))
			if aside, ok := errors.AsType[*dispatch.StandAsideError](err); !ok || aside.Run != plan.Run() {
				t.Errorf("the run of another arithmetic is executed: %v", err)
			}
			recorder := &eventRecorder{}
			report, err := Retrain(t.Context(), log, openBLAS(t), job, true, recorder)
			if err != nil || len(report.Updates) == 0 {
				t.Fatalf("%d versions, error %v", len(report.Updates), err)
			}
			if end := readLedger(t, p).End(plan.Run()); end == nil || end.State != schemas.Cancelled {
				t.Errorf("the run of another arithmetic has the end %+v", end)
			}
			if want := "run " + plan.Run() + " is cancelled: its arithmetic differs: blas another"; !noticed(recorder, want) {
				t.Errorf("there is no notice %q: %+v", want, eventsOf[event.Noticed](recorder))
			}
			made := must(p.Versions(t.Context()))(t)
			for _, m := range made {
				if m.Plan.Arithmetic != here {
					t.Errorf("version %d was made with %+v", m.Version, m.Plan.Arithmetic)
				}
			}
		})
	}
}

// Updates have the shares of their parents when the topic gets partitions; a full run divides the partitions again.
func TestUpdatesHaveTheSharesOfTheirParents(t *testing.T) {
	job := newJob(t, rings(5, 12, 3, 1), table{}, rffStage(link.Identity, 20, 1))
	job.Examples.Train, job.Examples.Partitions, job.Group = nil, 8, 0
	job.Topics, job.Retrain = topics.DefaultTopics(), topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 120, topics.FullOptions{Every: 3}
	log := openEmbedded(t)
	var versions []protocol.Finished
	for round := range 5 {
		if round == 1 {
			noError(t, log.AddPartitions(t.Context(), job.Name+".examples", 9))
		}
		for partition := range 8 {
			produce(t, log, job, (partition+round)%(8+min(round, 1)), exampleMessage(t, rings(5, 12, 3, uint64(100*round+partition)).exampleRows()))
		}
		_, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
		if err == nil {
			versions, err = topics.Open(log, job.Name, nil).Versions(t.Context())
		}
		noError(t, err)
	}
	group, updates := 0, map[int]int{} // updates by size of their shares
	for _, v := range versions {
		if v.Plan.Update() == nil {
			group = v.Plan.Group
			continue
		}
		if updates[group]++; v.Plan.Group != group {
			t.Errorf("version %d: shares of %d partitions, expected %d", v.Version, v.Plan.Group, group)
		}
	}
	if updates[1] == 0 || updates[2] == 0 {
		t.Errorf("updates by size of their shares: %v, expected some of 1 and of 2", updates)
	}
}
