package pipeline

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
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
		if whole, err := merge(sums, s, part(0)); whole != nil || err != nil {
			t.Fatalf("%s: half a share gives %v, %v", name, whole, err)
		}
		whole, err := merge(sums, s, part(1))
		if err == nil {
			err = s.covers(whole)
		}
		if name == "the same" {
			if err != nil || !whole.Coverage.Same(covered) {
				t.Errorf("%v, %v", whole, err)
			}
		} else if !errors.As(err, new(*CoverageError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
