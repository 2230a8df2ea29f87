package pipeline

import (
	"context"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A process whose worker stops leaves the group of workers, and is a member again when the run has ended, whatever ends the report of the
// worker: the next run needs it.
func TestStoppedWorkerJoinsAgain(t *testing.T) {
	for name, test := range map[string]struct {
		partitions int
		state      string // of the end of the run
		follows    bool   // the process learns of the end before the report has returned
		stops      bool   // the process is stopped before the report has returned
		left       int    // how often the worker leaves
	}{
		"the run fails, and the process knows first":      {1, schemas.Failed, true, false, 1},
		"the run is cancelled, and the process knows":     {1, schemas.Cancelled, true, false, 1},
		"the run fails, and the worker knows first":       {1, schemas.Failed, false, false, 1},
		"the process stops":                               {1, schemas.Failed, false, true, 1},
		"a worker without partitions tries several times": {0, schemas.Failed, false, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			names := protocol.TopicsOf("t")
			log := &simLog{topics: map[string][]*simPartition{}}
			for _, topic := range []string{names.Examples, names.Residuals, names.Statistics, names.Weights, names.Versions, names.Plans} {
				log.addPartition(topic, 0)
			}
			client := &protocol.Client{Log: actorLog{simLog: log, actor: unattended()}, Topics: names}
			plan := &schemas.Plan{
				Name: "t", Warm: &schemas.Warm{}, Spans: coverage.Spans{{To: 1}}, Segment: 1, // it starts from a version that does not exist
				Stages: []schemas.Stage{rffStage(link.Softmax, 5, 1)}, Prepare: schemas.Prepare{Scale: "none"},
			}
			messages := must(plan.Messages())(t)
			plans := log.topics[client.Topics.Plans][0]
			plans.append(messages[0])
			end := func() { plans.append((&schemas.End{Run: plan.Run(), State: test.state}).Message()) }
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			p := &topics.Pipeline{Client: client}
			m, member, left, follow := &dispatch.Members{Pipeline: p, Recorder: event.Ignore{}, Works: protocol.NewSoleOwner(test.partitions)},
				true, 0, func() {}
			log.onWrite = func(_ string, m wire.Message) {
				if m.Kind() != schemas.KindFailure {
					return
				}
				if end(); test.follows {
					follow()
				}
				if test.stops {
					stop()
				}
			}
			m.JoinWorkers = func() {
				if member = true; left == test.left && !test.follows && !test.stops {
					follow()
				}
			}
			m.LeaveWorkers = func() {
				if member, left = false, left+1; test.partitions == 0 && left == test.left {
					end()
				}
			}
			m.Process.Together = func(parts ...func()) { // worker, solver and follower
				follow = parts[2]
				parts[0]()
			}
			if _, err := m.Execute(ctx, plan, readLedger(t, p)); !member || left != test.left {
				t.Errorf("the worker has left %d times, expected %d; it is a member: %v; error %v", left, test.left, member, err)
			}
		})
	}
}
