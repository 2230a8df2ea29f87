package page

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// A page beside a worker and a solver in other processes shows them, what they own, and what was missing before they came.
func TestProcessesAreShown(t *testing.T) {
	cluster := must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	processesAreShown(t, cluster.ListenAddrs(), "digits")
}

func processesAreShown(t *testing.T, brokers []string, name string) {
	job, blas := digits(), openBLAS(t)
	job.Name = name
	board := readingAt(t, brokers, name)
	id, err := pipeline.Submit(t.Context(), openOn(t, kafkalog.Options{Brokers: brokers}), blas, job, dispatch.TrainOptions{}, event.Ignore{})
	noError(t, err)
	s := await(t, board, "a run that nobody works on", func(s *State) bool {
		return need(s, "no process runs stagewise work") && need(s, "no process runs stagewise solve")
	})
	if s.Summary.Level != Trouble || s.Run.ID != id || s.Run.Waits != "for a worker: no process runs stagewise work" {
		t.Errorf("run %+v, summary %+v", s.Run, s.Summary)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, role := range []func(context.Context, *kafkalog.Log, *kernel.BLAS, topics.Job, event.Recorder) error{dispatch.Work,
		dispatch.Solve} {
		log := openOn(t, kafkalog.Options{Brokers: brokers})
		go func() { ended <- role(ctx, log, blas, job, event.Ignore{}) }()
	}
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	s = await(t, board, "a version, and who has made it", func(s *State) bool {
		return len(s.Versions) == 1 && s.Run.State == schemas.Done && len(s.Staff.Workers) == 1 && len(s.Staff.Solvers) == 1 &&
			len(s.Staff.Workers[0].Partitions) == 4
	})
	w, v := s.Staff.Workers[0], s.Staff.Solvers[0]
	if !slices.Equal(w.Partitions, []int{0, 1, 2, 3}) || w.Waits != "waits for a run" || w.Host == "" || w.ID == "" ||
		!slices.Equal(v.Partitions, []int{0}) || s.Staff.Embedded {
		t.Errorf("staff %+v", s.Staff)
	}
}

// A page that begins when the runner is gone knows by the versions that one is missing.
func TestRunnerIsMissedByItsVersions(t *testing.T) {
	for kind, want := range map[string]string{schemas.RunUpdate: "No process runs stagewise run, and 9 messages wait on examples.", kindTrain: ""} {
		r := &reader{client: &protocol.Client{}, now: time.Now, polled: true}
		r.topics.poll(time.UnixMilli(0), []polled{{role: roleExamples, name: "examples", partitions: []coverage.Span{{To: 9}}}})
		got := ""
		r.needsOfProcesses(&State{Versions: []Version{{Version: 1, Kind: kind}}}, func(_ Level, _, format string, values ...any) {
			got += fmt.Sprintf(format, values...)
		})
		if got != want {
			t.Errorf("%s: %q, expected %q", kind, got, want)
		}
	}
}

// What each process waits for follows from which parts of the visit are published.
func TestWhatProcessesWaitFor(t *testing.T) {
	log := openLog(t)
	report, _, err := pipeline.Train(t.Context(), log, openBLAS(t), digits(), dispatch.TrainOptions{}, event.Ignore{})
	noError(t, err)
	r := newReader(log, Options{Name: "digits"}, NewBoard())
	ledger := must(r.client.ReadLedger(t.Context()))(t)
	f := newFollowed(ledger.Plan(report.Run), r.client)
	r.follows.now = f
	r.staff = Staff{Workers: []Worker{{Host: "a", Partitions: []int{0, 2}}, {Host: "b", Partitions: []int{1, 3}}, {Host: "c"}},
		Solvers: []Worker{{Host: "d", Partitions: []int{0}}, {Host: "e"}}}
	for _, c := range []struct {
		surveyed []int
		waits    string
	}{
		{nil, "[works on the survey: 0 of 1 partitions are published works on the survey: 0 of 1 partitions are published stands by: others own all partitions waits for a and b stands by] for workers to survey 2 partitions of 2"},
		{[]int{1}, "[works on the survey: 0 of 1 partitions are published waits for other workers stands by: others own all partitions waits for a stands by] for workers to survey 1 partition of 2"},
		{[]int{0, 1}, "[waits for the solver waits for the solver stands by: others own all partitions solves stands by] for the solver"},
	} {
		for _, p := range c.surveyed {
			f.survey[p] = true
		}
		s := r.state()
		var waits []string
		for _, w := range append(s.Staff.Workers, s.Staff.Solvers...) {
			waits = append(waits, w.Waits)
		}
		if got := fmt.Sprint(waits, " ", s.Run.Waits); got != c.waits {
			t.Errorf("with %v: %s\nexpected %s", c.surveyed, got, c.waits)
		}
	}
}
