package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// A visit that has read other rows than the survey is an error, whatever
// differs.
func TestVisitCoversWhatTheSurveyDid(t *testing.T) {
	span := schemas.Span{Partition: 3, From: 0, To: 4}
	covered := accumulate.Coverage{Spans: schemas.Spans{span}, Messages: 4, Rows: 40, Checksum: 7}
	for name, change := range map[string]func(*accumulate.Coverage){
		"the same": func(*accumulate.Coverage) {},
		"messages": func(c *accumulate.Coverage) { c.Messages-- },
		"rows":     func(c *accumulate.Coverage) { c.Rows++ },
		"checksum": func(c *accumulate.Coverage) { c.Checksum++ },
	} {
		s := divide(span, 0, 2)
		s.covered = covered
		change(&s.covered)
		sums := map[*share]*accumulate.Sum{}
		part := func(at int) *outcome {
			half := accumulate.Coverage{Spans: schemas.Spans{s.segments[at].span}, Messages: 2, Rows: 20, Checksum: uint64(3 + at)}
			return &outcome{at: at, sum: accumulate.NewSum(half, nil)}
		}
		if whole, err := merge(sums, s, part(0), true, &accumulate.BufferPool{}); whole != nil || err != nil {
			t.Fatalf("%s: half a share gives %v, %v", name, whole, err)
		}
		whole, err := merge(sums, s, part(1), true, &accumulate.BufferPool{})
		if name == "the same" {
			if err != nil || !whole.Coverage.Same(covered) {
				t.Errorf("%v, %v", whole, err)
			}
		} else if !errors.As(err, new(*CoverageError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A topic that changes under a run, behind its survey or behind a stage's last
// weights, ends it.
func TestTopicChangesUnderTheRun(t *testing.T) {
	columns := stage(link.Softmax, 0, 1)
	columns.Features.Kind = "columns"
	w := newWorld(t, 0, columns) // all is read again for each visit
	for meets, behind := range map[string]func(schemas.Message) bool{
		"visit 0 of stage 0":               func(m schemas.Message) bool { return m.Kind() == schemas.KindPrepare },
		"publish the residuals of stage 0": func(m schemas.Message) bool { return m.Kind() == schemas.KindWeights && m.Get(noteFinal) != "" },
	} {
		s := w.simulation(1)
		s.random, s.lost = nil, true // it may fail
		s.log.check = func(_ string, m schemas.Message) {
			if messages := s.log.topics[s.examples][1].messages; behind(m) {
				messages[0].Message = messages[1].Message
			}
		}
		s.crew(1, 1)
		s.submit(1, false)
		s.settle()
		s.conclude()
		l, err := s.desk(&actor{free: true}).ledger(t.Context())
		if err != nil || len(l.ends) != 1 {
			t.Fatalf("%s: %v, %v", meets, l, err)
		}
		for _, end := range l.ends {
			if end.State != schemas.Failed || !strings.Contains(end.Reason, meets) || !strings.Contains(end.Reason, "the survey had") {
				t.Errorf("%s: %+v", meets, end)
			}
		}
		if s.broken != nil {
			t.Errorf("%s: %v", meets, s.broken)
		}
	}
}
