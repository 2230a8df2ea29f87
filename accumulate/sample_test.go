package accumulate

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/wire"
)

// offered is a row that is offered to samples.
type offered struct {
	hash uint64
	row  []float32
}

// The sample is the rows of the smallest hashes, however the rows are split and in whatever order they are offered.
func TestSample(t *testing.T) {
	for _, n := range []int{0, 1, SampleRows - 1, SampleRows, SampleRows + 1, 3 * SampleRows} {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		all := make([]offered, n)
		for i := range all {
			all[i] = offered{r.Uint64(), []float32{float32(i), -float32(i)}}
		}
		var want []float32
		smallest := slices.SortedFunc(slices.Values(all), func(a, b offered) int { return cmp.Compare(a.hash, b.hash) })
		for _, d := range smallest[:min(n, SampleRows)] {
			want = append(want, d.row...)
		}
		for range 4 {
			r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
			split := make([]Sample, 1+r.IntN(5))
			row := make([]float32, 2)
			for _, d := range all {
				copy(row, d.row) // offered rows are copied
				split[r.IntN(len(split))].Offer(d.hash, row)
			}
			total := &Sample{}
			for i := range split {
				total.Merge(&split[i])
			}
			again := &Sample{}
			arrowtest.NoError(t, again.MergeRecord(total.Record(wire.Identity{}), nil))
			for _, s := range []*Sample{total, again} {
				if got := s.Rows(); !slices.Equal(got.Data, want) || got.Rows != min(n, SampleRows) {
					t.Fatalf("the sample has %d rows of %d, or not those of the smallest hashes", got.Rows, n)
				}
			}
			few := &Sample{Max: 1 + r.IntN(SampleRows)}
			few.Merge(total)
			if got := few.Rows(); !slices.Equal(got.Data, want[:min(len(want), 2*few.Max)]) {
				t.Fatalf("the sample has %d rows, at most %d were asked for, or not those of the smallest hashes", got.Rows, few.Max)
			}
			again.Merge(total) // shares no memory with total
			total.Offer(0, []float32{7, 7})
		}
	}
}

// A damaged record has rows of another width: they are an error, and the sample stays as it is.
func TestSampleOfOtherWidth(t *testing.T) {
	narrow, wide := &Sample{}, &Sample{}
	narrow.Offer(1, []float32{1})
	wide.Offer(2, []float32{1, 2})
	var shape *wire.ShapeError
	if err := narrow.MergeRecord(wide.Record(wire.Identity{}), nil); !errors.As(err, &shape) {
		t.Errorf("error %v", err)
	}
	if got := narrow.Rows(); !slices.Equal(got.Data, []float32{1}) {
		t.Errorf("rows %v", got.Data)
	}
	if err := narrow.MergeRecord((&Sample{}).Record(wire.Identity{}), nil); err != nil {
		t.Error(err)
	}
}
