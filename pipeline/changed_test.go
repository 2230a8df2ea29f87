package pipeline

import (
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// A topic that changes under a run, behind its survey or behind a stage's last
// weights, ends it.
func TestTopicChangesUnderTheRun(t *testing.T) {
	columns := stage(link.Softmax, 0, 1)
	columns.Features.Kind = "columns"
	w := newWorld(t, 0, columns) // all is read again for each visit
	for meets, behind := range map[string]func(schemas.Message) bool{
		"visit 0 of stage 0":               func(m schemas.Message) bool { return m.Kind() == schemas.KindPrepare },
		"publish the residuals of stage 0": func(m schemas.Message) bool { return schemas.EndsStage(m) },
	} {
		s := w.simulation(1)
		s.random, s.lost = nil, true // it may fail
		s.log.check = func(_ string, m schemas.Message) {
			if messages := s.log.topics[s.topics.Examples][1].messages; behind(m) {
				messages[0].Message = messages[1].Message
			}
		}
		s.crew(1, 1)
		s.submit(1, false)
		s.settle()
		s.conclude()
		l, err := s.pipeline(&actor{free: true}).ReadLedger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		end := l.End(s.log.topics[s.topics.Plans][0].messages[0].Get("run"))
		if end == nil || end.State != schemas.Failed || !strings.Contains(end.Reason, meets) || !strings.Contains(end.Reason, "the survey had") {
			t.Errorf("%s: %+v", meets, end)
		}
		if s.broken != nil {
			t.Errorf("%s: %v", meets, s.broken)
		}
	}
}
