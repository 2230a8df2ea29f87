package accumulate

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// A part of a sum comes back after it was merged, and the fields beside it do not.
func TestParts(t *testing.T) {
	sum := &Sum{}
	for i := range 3 {
		one, part := &Sum{Coverage: coverage.Coverage{Spans: coverage.Spans{{From: int64(i), To: int64(i) + 1}}}}, &Sum{}
		one.Field("a", 2)[0]++
		part.Field("a", 2)[1]++
		part.Field("b", 1)[0] = float64(i)
		one.SetPart("part", part)
		arrowtest.NoError(t, sum.Merge(one))
	}
	part := sum.Part("part")
	if got := part.Field("a", 2); !slices.Equal(got, []float64{0, 3}) || part.Field("b", 1)[0] != 3 || len(part.Tensors()) != 2 {
		t.Errorf("the part is %v", part.Tensors())
	}
	if got := sum.Field("a", 2); !slices.Equal(got, []float64{3, 0}) {
		t.Errorf("the field beside it is %v", got)
	}
	if none := sum.Part("other"); len(none.Tensors()) > 0 {
		t.Errorf("a part that was not set is %v", none.Tensors())
	}
}
