package solve

import (
	"math"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Mean and deviation do not depend on the shift of the moments, as long as it is near the numbers; the survey's record
// holds the mean with float64 precision.
func TestTargetsFarFromZero(t *testing.T) {
	for _, offset := range []float64{0, 1764000000, -1e12} {
		for _, from := range []float64{-30, 0, 59} {
			shift, sums := offset+from, make([]float64, 3)
			for i := range 60 {
				y := offset + float64(i) - shift
				sums[0], sums[1], sums[2] = sums[0]+1, sums[1]+y, sums[2]+y*y
			}
			center, scale, err := PrepareTargets(wire.Tensors[float64]{wire.Matrix(statistics.FieldTargets, 3, 1, sums)}, []float64{shift}, []string{"y"})
			arrowtest.NoError(t, err)
			if want := math.Sqrt((60*60 - 1) / 12.0); center[0] != offset+29.5 || math.Abs(float64(scale[0])-want) > 1e-5 {
				t.Errorf("offset %v, about %v: mean %v and deviation %v, expected %v and %v", offset, shift, center[0], scale[0], offset+29.5, want)
			}
			p := &Preparation{Center: []float32{0}, Scale: []float32{1}, TargetCenter: center, TargetScale: scale}
			sum := 0.0
			for _, name := range []string{statistics.TensorTargetCenter, statistics.TensorTargetRest} {
				if part, there := p.Tensors(1).Find(name); there {
					sum += float64(part.Data[0])
				}
			}
			if sum != center[0] {
				t.Errorf("the record has the mean %v, expected %v", sum, center[0])
			}
			if _, there := p.Tensors(1).Find(statistics.TensorTargetRest); there != (offset != 0) {
				t.Errorf("offset %v: a rest %v", offset, there)
			}
		}
	}
}
