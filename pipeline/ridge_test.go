package pipeline

import (
	"fmt"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// Runs whose ridge is auto have the weights of runs with the ridges that they report, whatever the links, methods and Gram matrices.
func TestChosenRidgesAreThoseNumbers(t *testing.T) {
	long(t)
	sampled, paper, accelerated := rffStage(link.Softmax, 33, 5), rffStage(link.Softmax, 33, 5), rffStage(link.Softmax, 33, 5)
	sampled.GramRows, paper.Method, accelerated.Method = "200", solve.MethodPaper, solve.MethodAccelerated
	for name, list := range map[string][]schemas.Stage{
		"softmax": {rffStage(link.Softmax, 33, 5), rffStage(link.Softmax, 33, 5)}, "calibrated": {rffStage(link.Calibrated, 33, 3)},
		"identity": {rffStage(link.Identity, 33, 1), rffStage(link.Identity, 33, 4)}, "sampled": {sampled}, "methods": {paper, accelerated},
		"links": {rffStage(link.Softmax, 20, 3), rffStage(link.Calibrated, 20, 2), rffStage(link.Identity, 20, 1), rffStage(link.Softmax, 20, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, rings(600, 4, 3, 1), rings(90, 4, 3, 2), list...)
			chosen, auto := train(t, openEmbedded(t), job)
			for i, s := range chosen.Stages {
				if !(s.Ridge > 0) || auto.Manifest.Ridge(i) != s.Ridge {
					t.Errorf("stage %d: ridge %v, in the manifest %v", i, s.Ridge, auto.Manifest.Ridge(i))
				}
				for j := range i {
					if solve.Alike(list[j], list[i]) && chosen.Stages[j].Ridge != s.Ridge {
						t.Errorf("stages %d and %d are alike, with ridges %v and %v", j, i, chosen.Stages[j].Ridge, s.Ridge)
					}
				}
				job.Stages[i].Ridge = s.Ridge
			}
			if number, _ := train(t, openEmbedded(t), job); number.WeightsDigest != chosen.WeightsDigest {
				t.Errorf("digest %s with the ridges %v, %s with auto", number.WeightsDigest, ridgesOf(number), chosen.WeightsDigest)
			}
		})
	}
}

func ridgesOf(r *schemas.Report) (ridges []schemas.Ridge) {
	for _, s := range r.Stages {
		ridges = append(ridges, s.Ridge)
	}
	return ridges
}

// A warm start keeps the ridges of its version: those that were chosen, and those that its configuration had.
func TestWarmStartKeepsRidges(t *testing.T) {
	long(t)
	for _, ridge := range []schemas.Ridge{schemas.RidgeAuto, 0.07} {
		log, s := openEmbedded(t), rffStage(link.Softmax, 30, 5)
		s.Ridge = ridge
		job := newJob(t, rings(400, 3, 3, 1), table{}, s, s)
		cold, _ := train(t, log, job)
		job.Warm = protocol.Latest
		for range 2 { // the second starts from a version that was started so
			for i := range job.Stages {
				job.Stages[i].Ridge = schemas.RidgeAuto
			}
			if warm, _ := train(t, log, job); fmt.Sprint(ridgesOf(warm)) != fmt.Sprint(ridgesOf(cold)) {
				t.Errorf("ridges %v, the version has %v", ridgesOf(warm), ridgesOf(cold))
			}
		}
	}
}
