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
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Whoever owns which partitions, the weights are the same, and the statistics have one record of each share.
func TestSharesHaveOneRecord(t *testing.T) {
	const partitions, group, shares = 20, 6, 4
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
	for name, owners := range map[string][]protocol.SoleOwner{
		"one":                  {between(0, partitions)},
		"whole shares":         {between(0, 12), between(12, partitions)},
		"the middle of shares": {between(0, 9), between(9, 15), between(15, partitions)},
		"two of the same":      {between(0, partitions), between(0, partitions)},
		"no whole share":       {odd, even},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := newJob(t, rings(1000, 5, 3, 1), table{}, rffStage(link.Softmax, 33, 3), rffStage(link.Calibrated, 17, 2))
			job.Examples.Partitions, job.Examples.BatchRows, job.Group = partitions, 10, group
			job.Prepare = schemas.Prepare{Scale: "standard", PCA: 3}
			p, plan := submitJob(t, log, job, event.Ignore{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			worked := make(chan error)
			for _, owner := range owners {
				go func() {
					worked <- worker.New(p.Client, openBLAS(t), plan, 0, owner, worker.Options{Cache: partition.NewRunCache(1 << 30)}, event.Ignore{}).Work(ctx)
				}()
			}
			err := solver.New(p.Client, openBLAS(t), plan, 0, protocol.NewSoleOwner(1), solver.Options{}, event.Ignore{}).Solve(t.Context())
			noError(t, err)
			for range owners {
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
				t.Errorf("the weights have digest %s, of other owners %s", got, want)
			}
			records := map[wire.Identity]map[int]bool{}
			for _, m := range readTopic(t, log, p.Topics.Statistics) {
				id, err := wire.IdentityOf(protocol.FromKafka(m))
				if err != nil {
					continue
				}
				of := id
				if of.Partition = 0; records[of] == nil {
					records[of] = map[int]bool{}
				}
				records[of][id.Partition] = true
			}
			for id, of := range records {
				if len(of) != shares || !of[0] || !of[group] || !of[2*group] || !of[3*group] {
					t.Errorf("%v: records of %v, expected %d", id, of, shares)
				}
			}
			if visit := (wire.Identity{Kind: statistics.KindVisit, Run: plan.Run(), Stage: wire.Survey, Parent: plan.Digest()}); records[visit] == nil {
				t.Error("there is no record of the survey")
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
