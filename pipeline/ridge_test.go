package pipeline

import (
	"fmt"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

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
