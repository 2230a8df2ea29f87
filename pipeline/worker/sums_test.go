package worker

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// A visit that has read other rows than the survey is an error, whatever differs.
func TestVisitCoversWhatTheSurveyDid(t *testing.T) {
	span := schemas.Span{Partition: 3, From: 0, To: 4}
	covered := schemas.Coverage{Spans: schemas.Spans{span}, Messages: 4, Rows: 40, Checksum: 7}
	for name, change := range map[string]func(*schemas.Coverage){
		"the same": func(*schemas.Coverage) {},
		"messages": func(c *schemas.Coverage) { c.Messages-- },
		"rows":     func(c *schemas.Coverage) { c.Rows++ },
		"checksum": func(c *schemas.Coverage) { c.Checksum++ },
	} {
		p, expected := partition.New(span, 0, 2), covered
		change(&expected)
		p.SetCovered(expected)
		sums := map[*partition.State]*accumulate.Sum{}
		part := func(at int) *outcome {
			half := schemas.Coverage{Spans: schemas.Spans{p.Segments()[at].Span}, Messages: 2, Rows: 20, Checksum: uint64(3 + at)}
			return &outcome{segment: at, sum: accumulate.NewSum(half, nil)}
		}
		if whole, err := merge(sums, p, part(0), 2, true, &accumulate.BufferPool{}, nil); whole != nil || err != nil {
			t.Fatalf("%s: half a partition gives %v, %v", name, whole, err)
		}
		whole, err := merge(sums, p, part(1), 2, true, &accumulate.BufferPool{}, nil)
		if name == "the same" {
			if err != nil || !whole.Coverage.Same(covered) {
				t.Errorf("%v, %v", whole, err)
			}
		} else if !errors.As(err, new(*CoverageError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
