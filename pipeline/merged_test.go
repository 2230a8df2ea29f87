package pipeline

import (
	"context"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Whoever owns which partitions, the weights are the same, and the statistics have as few records as the owners allow: one of the first
// groups, and one of each other group that has one owner.
func TestWorkersMergeWhatTheyOwn(t *testing.T) {
	const partitions = 20 // in three groups of 6, and one of 2
	between := func(from, to int) (list protocol.SoleOwner) {
		for p := from; p < to; p++ {
			list = append(list, p)
		}
		return list
	}
	var odd, even protocol.SoleOwner
	for p := range partitions {
		if p%2 == 0 {
			even = append(even, p)
		} else {
			odd = append(odd, p)
		}
	}
	var want wire.Digest
	for _, test := range []struct {
		name   string
		owners []protocol.SoleOwner
		visits int // records of a visit
	}{
		{"one", []protocol.SoleOwner{between(0, partitions)}, 1},
		{"whole groups", []protocol.SoleOwner{between(0, 12), between(12, partitions)}, 1 + 2},
		{"the middle of groups", []protocol.SoleOwner{between(0, 9), between(9, 15), between(15, partitions)}, 1 + 3 + 3 + 3 + 3 + 1},
		{"no group", []protocol.SoleOwner{odd, even}, partitions},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := openEmbedded(t)
			job := newJob(t, rings(1000, 5, 3, 1), table{}, rffStage(link.Softmax, 33, 3), rffStage(link.Calibrated, 17, 2))
			job.Examples.Partitions, job.Examples.BatchRows, job.Group = partitions, 10, 6
			job.Prepare = schemas.Prepare{Scale: "standard", PCA: 3}
			p, plan := submitJob(t, log, job, event.Ignore{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			worked := make(chan error)
			for _, owner := range test.owners {
				go func() {
					worked <- worker.New(p.Client, openBLAS(t), plan, 0, owner, worker.Options{Bytes: 1 << 30}, event.Ignore{}).Work(ctx)
				}()
			}
			err := solver.New(p.Client, openBLAS(t), plan, 0, protocol.NewSoleOwner(1), solver.Options{}, event.Ignore{}).Solve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range test.owners {
				if err := <-worked; err != nil {
					t.Error(err)
				}
			}
			versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
			if err != nil || len(versions) != 1 {
				t.Fatalf("versions %v, %v", versions, err)
			}
			if got := versions[0].WeightsDigest; want == "" {
				want = got
			} else if got != want {
				t.Errorf("the weights have digest %s, of one worker %s", got, want)
			}
			records := map[wire.Identity]bool{}
			for _, m := range readTopic(t, log, p.Topics.Statistics) {
				if id, err := wire.IdentityOf(protocol.FromKafka(m)); err == nil {
					records[id] = true
				}
			}
			counts := map[string]int{"visit": 0, "Gram matrix": 0, "survey": 0, "seal": 0}
			for id := range records {
				switch {
				case id.Kind == statistics.KindVisit && id.Stage == 0 && id.Visit == 1:
					counts["visit"]++
				case id.Kind == statistics.KindGram && id.Stage == wire.Survey:
					counts["Gram matrix"]++
				case id.Kind == statistics.KindVisit && id.Stage == wire.Survey:
					counts["survey"]++
				case id.Kind == statistics.KindSeal && id.Stage == 0:
					counts["seal"]++
				}
			}
			for what, n := range counts {
				if n != test.visits {
					t.Errorf("%d records of a %s, expected %d", n, what, test.visits)
				}
			}
		})
	}
}
