package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// If the first weights of an unfinished run have expired, a process that starts again can't take it up. It does not
// believe that the survey is due: the run ends with that reason, and another one is done. Processes that have read the
// weights before go on.
func TestRunWhoseWeightsHaveExpired(t *testing.T) {
	long(t)
	columns := rffStage(link.Softmax, 0, 2)
	columns.Features.Kind = "columns"
	sc := newScenario(t, plainExamples(), 0, columns, columns)
	for name, test := range map[string]struct {
		start []string // who starts again then
		want  string
	}{
		"nobody":     {nil, schemas.Done},
		"the worker": {[]string{"worker 0"}, schemas.Failed},
		"the solver": {[]string{"solver 0"}, schemas.Failed},
		"both":       {[]string{"worker 0", "solver 0"}, schemas.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s, expired := sc.simulation(0), false
			s.random = nil
			reason := ""
			s.log.onWrite = func(topic string, m wire.Message) {
				s.checkWrite(topic, m)
				if end, err := schemas.DecodeJSON[schemas.End](m); m.Kind() == schemas.KindEnd && err == nil {
					reason = end.Reason
				}
				if id, err := wire.IdentityOf(m); expired || err != nil || id.Kind != statistics.KindVisit || id.Stage != 1 {
					return
				}
				expired = true
				s.noteLoss(s.topics.Weights)
				weights := s.log.topics[s.topics.Weights][0]
				weights.expire(weights.end)
				for _, a := range s.actors {
					if slices.Contains(test.start, a.name) {
						a.killed = true
					}
				}
			}
			s.startRoles(1, 1)
			s.submit(1, false, false)
			s.awaitRuns()
			if !expired || !slices.Equal(s.outcomes, []string{test.want}) || test.want == schemas.Failed && !strings.Contains(reason,
				"were deleted from sim.weights") {
				t.Errorf("the run ended as %v, with reason %q; expected %s, as its weights have expired", s.outcomes, reason, test.want)
			}
			s.submit(1, false, false)
			s.awaitRuns()
			if s.stopActors(); s.violation != nil || len(s.outcomes) != 2 || s.outcomes[1] != schemas.Done {
				t.Errorf("the runs ended as %v, %v; expected that the second is done", s.outcomes, s.violation)
			}
		})
	}
}
