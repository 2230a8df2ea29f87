package statistics

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Rows by label cross a topic, however many labels there are: headers, which are in each message of a record, don't grow with them.
func TestLabelRows(t *testing.T) {
	mem := arrowtest.Allocator(t)
	for _, n := range []int{0, 1, 100_000} {
		var list []examples.LabelRows
		for i := range n {
			list = append(list, examples.LabelRows{Label: fmt.Sprintf("a free text with number %07d", i), Rows: int64(1 + i%3)})
		}
		v := SurveyVisit{Visit: Visit{Identity: wire.Identity{Kind: KindVisit, Stage: wire.Survey}}, Unknown: list, Untrained: list}
		messages, err := v.Record().EncodeWithin(wire.MaxMessage, mem)
		if err != nil {
			t.Fatal(err)
		}
		collector := wire.Collector[float64]{}
		var got *wire.Record[float64]
		for _, m := range messages {
			headers := 0
			for _, h := range m.Headers {
				headers += len(h.Key) + len(h.Value)
			}
			if headers > 2000 {
				t.Fatalf("%d labels: headers of %d bytes", n, headers)
			}
			if got, err = collector.Add(m, mem); err != nil {
				t.Fatal(err)
			}
		}
		survey, err := SurveyVisitOf(got)
		if err != nil || !reflect.DeepEqual(survey.Unknown, list) || !reflect.DeepEqual(survey.Untrained, list) || len(survey.Sums) > 0 {
			t.Errorf("%d labels became %d and %d, with sums %v: %v", n, len(survey.Unknown), len(survey.Untrained), survey.Sums, err)
		}
	}
	for name, list := range map[string][]string{
		"negative rows":  {`{"label":"a","rows":-1}`},
		"not in order":   {`{"label":"b","rows":1}`, `{"label":"a","rows":1}`},
		"repeated label": {`{"label":"a","rows":1}`, `{"label":"a","rows":1}`},
	} {
		r := (&SurveyVisit{Visit: Visit{Covered: coverage.Coverage{}}}).Record()
		r.Tensors = append(slices.Clone(r.Tensors), wire.Words[float64]("unknown", list))
		if _, err := SurveyVisitOf(r); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: error %v, expected ErrDamaged", name, err)
		}
	}
}
