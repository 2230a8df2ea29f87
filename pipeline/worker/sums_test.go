package worker

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// A visit that has read other rows than the survey is an error, whatever the difference.
func TestVisitCoversWhatTheSurveyDid(t *testing.T) {
	span := coverage.Span{Partition: 3, From: 0, To: 4}
	covered := coverage.Coverage{Spans: coverage.Spans{span}, Messages: 4, Rows: 40, Checksum: 7}
	for name, change := range map[string]func(*coverage.Coverage){
		"the same": func(*coverage.Coverage) {},
		"messages": func(c *coverage.Coverage) { c.Messages-- },
		"rows":     func(c *coverage.Coverage) { c.Rows++ },
		"checksum": func(c *coverage.Coverage) { c.Checksum++ },
	} {
		p, expected := partition.New(2, partition.NewPart(span, 0, nil)), covered
		change(&expected)
		p.Surveyed, p.Covered = expected, coverage.Coverage{}
		sums := map[*partition.Share]*accumulate.Sum{}
		part := func(at int) *accumulate.Sum {
			half := coverage.Coverage{Spans: coverage.Spans{p.Segments[at].Span}, Messages: 2, Rows: 20, Checksum: uint64(3 + at)}
			return accumulate.NewSum(half, nil)
		}
		if whole, err := merge(sums, &visit.Load{Share: p, Index: 0}, part(0), 2, &accumulate.BufferPool{},
			nil); whole != nil || err != nil {
			t.Fatalf("%s: half a partition gives %v, %v", name, whole, err)
		}
		whole, err := merge(sums, &visit.Load{Share: p, Index: 1}, part(1), 2, &accumulate.BufferPool{}, nil)
		if name == "the same" {
			if err != nil || !whole.Coverage.Same(covered) {
				t.Errorf("%v, %v", whole, err)
			}
		} else if !errors.As(err, new(*coverageError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
