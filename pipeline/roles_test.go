package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// brokersOf is another connection to the brokers of a log, as another process has it.
func brokersOf(t *testing.T, log *kafkalog.Log) *kafkalog.Log {
	t.Helper()
	other, err := kafkalog.Open(t.Context(), kafkalog.Options{Brokers: log.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	return other
}

// service is a role that runs until it is stopped.
type service struct {
	*events
	stop   func() // and wait
	shared <-chan struct{}
}

// sharing is closed when a worker owns its part of four partitions.
func sharing(e *events, workers int) <-chan struct{} {
	shared := make(chan struct{})
	var once sync.Once
	look := func(happened event.Event) {
		if owned, ok := happened.(event.Owned); ok && len(owned.Partitions) == 4/workers {
			once.Do(func() { close(shared) })
		}
	}
	e.mutex.Lock()
	e.on = look
	all := slices.Clone(e.all)
	e.mutex.Unlock()
	for _, happened := range all {
		look(happened)
	}
	return shared
}

func serving(t *testing.T, role func(ctx context.Context, rec event.Recorder) error) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &service{events: &events{}}
	ended := make(chan error, 1)
	go func() { ended <- role(ctx, s) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a role ended with %v", err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func working(t *testing.T, log *kafkalog.Log, job Job) *service {
	return serving(t, func(ctx context.Context, rec event.Recorder) error { return Work(ctx, log, openBLAS(t), job, rec) })
}

func solving(t *testing.T, log *kafkalog.Log, job Job) *service {
	return serving(t, func(ctx context.Context, rec event.Recorder) error { return Solve(ctx, log, openBLAS(t), job, rec) })
}

// submitAndWait leaves a run to others, and follows it to its end.
func submitAndWait(t *testing.T, log *kafkalog.Log, job Job) (*schemas.Report, *events) {
	t.Helper()
	id, err := Submit(t.Context(), log, openBLAS(t), job, TrainOptions{}, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	told := &events{}
	report, _, err := Attach(t.Context(), log, job.Name, id, told)
	if err != nil {
		t.Fatal(err)
	}
	return report, told
}

// However many processes work and solve, the weights are those of one.
func TestAnyNumberOfWorkers(t *testing.T) {
	want, _ := train(t, openEmbedded(t), resumable(t))
	for _, workers := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			severalWork(t, openEmbedded(t), resumable(t), workers, want)
		})
	}
}

// severalWork makes two runs with so many workers and two solvers, each with a
// connection of its own.
func severalWork(t *testing.T, log *kafkalog.Log, job Job, workers int, want *schemas.Report) {
	t.Helper()
	var services []*service
	for range workers {
		s := working(t, brokersOf(t, log), job)
		s.shared = sharing(s.events, workers)
		services = append(services, s)
	}
	solving(t, brokersOf(t, log), job)
	solving(t, brokersOf(t, log), job)
	for _, s := range services {
		<-s.shared
	}
	submitter := brokersOf(t, log)
	for n := range 2 { // nothing that the first leaves behind stops the second
		report, told := submitAndWait(t, submitter, job)
		if report.WeightsDigest != want.WeightsDigest {
			t.Errorf("run %d: digest %s, of one process %s", n, report.WeightsDigest, want.WeightsDigest)
		}
		if report.Rows != want.Rows || report.Version != n+1 {
			t.Errorf("run %d: %d rows, version %d", n, report.Rows, report.Version)
		}
		if stages := of[event.StageEnded](told); len(stages) != 4 || len(of[event.Surveyed](told)) != 1 || len(of[event.Ended](told)) != 1 {
			t.Errorf("run %d: told of %+v", n, stages)
		}
	}
	took := map[int]bool{}
	for i, s := range services {
		for _, v := range of[event.Visited](s.events) {
			took[i] = true
			if len(v.Partitions) == 0 {
				t.Error("a visit to nothing")
			}
		}
	}
	if len(took) != min(workers, 4) {
		t.Errorf("%d of %d workers took part", len(took), workers)
	}
}

// Workers that die and others that come, at any event, leave no trace in the
// weights; nor do solvers.
func TestRolesComeAndGo(t *testing.T) {
	job := resumable(t)
	want, _ := train(t, openEmbedded(t), resumable(t))
	log := openEmbedded(t)
	first, solver := working(t, brokersOf(t, log), job), solving(t, brokersOf(t, log), job)
	died := make(chan struct{})
	var once sync.Once
	first.on = func(e event.Event) {
		if v, ok := e.(event.Visited); ok && v.Stage == 1 {
			once.Do(func() { close(died) })
		}
	}
	submitter := brokersOf(t, log)
	id, err := Submit(t.Context(), submitter, openBLAS(t), job, TrainOptions{}, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	<-died
	solver.stop()
	first.stop()
	working(t, brokersOf(t, log), job)
	working(t, brokersOf(t, log), job)
	solving(t, brokersOf(t, log), job)
	report, _, err := Attach(t.Context(), submitter, job.Name, id, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	if report.WeightsDigest != want.WeightsDigest {
		t.Errorf("digest %s, undisturbed %s", report.WeightsDigest, want.WeightsDigest)
	}
}

// A process with another arithmetic stands aside, says so, and leaves the
// partitions to the others.
func TestAnotherArithmeticStandsAside(t *testing.T) {
	log, job := openEmbedded(t), resumable(t)
	d, plan := submitted(t, log, job, event.Ignore{})
	there := plan.Arithmetic
	there.BLAS = "another"
	left, over := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := &events{on: func(e event.Event) {
		if _, ok := e.(event.Ended); ok {
			close(over)
		}
	}}
	ended := make(chan error, 1)
	go func() {
		ended <- d.serve(ctx, there, event.Serialised(told), func() member {
			return &leaver{Alone: run.NewAlone(4), left: left}
		}, func(context.Context, run.Owner, *schemas.Plan, int64) error {
			t.Error("it takes part")
			return nil
		})
	}()
	<-left
	if _, err := aloneOn(t, d, job, event.Ignore{}).execute(t.Context(), plan, 0); err != nil {
		t.Fatal(err)
	}
	<-over
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if notices := of[event.Noticed](told); len(notices) != 1 || !strings.Contains(notices[0].Text, "stands aside") {
		t.Errorf("%+v", notices)
	}
}

// leaver is a member that says when it leaves.
type leaver struct {
	run.Alone
	left chan<- struct{}
}

func (l *leaver) Leave() error {
	select {
	case l.left <- struct{}{}:
	default: // it is known
	}
	return nil
}

// Whoever attaches to a run that is over hears how it ended; to one that never
// was, that there is none.
func TestAttach(t *testing.T) {
	log, job := openEmbedded(t), resumable(t)
	want, _ := train(t, log, job)
	report, model, err := Attach(t.Context(), log, job.Name, want.Run, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	if report.WeightsDigest != want.WeightsDigest || model.Digest() != want.WeightsDigest {
		t.Errorf("digests %s and %s, of the run %s", report.WeightsDigest, model.Digest(), want.WeightsDigest)
	}
	if _, _, err := Attach(t.Context(), log, job.Name, "0123", event.Ignore{}); !errors.As(err, new(*UnknownRunError)) {
		t.Errorf("%v", err)
	}
}
