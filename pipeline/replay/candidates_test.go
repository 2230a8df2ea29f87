package replay

import (
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// The loss after a stage of trees is that at its best temperature, unless the choice has none, or the stage has one. Of several members the
// losses are those of the first.
func TestLossAtBestTemperature(t *testing.T) {
	plain, tempered, temperatures := []float64{3, 2, 2.5, 9, 9, 9}, []float64{3, 1.9, 1.8, 9, 9, 9}, []float64{1, 1.2, 1.7, 1, 1, 1}
	report, list := &schemas.Report{}, []schemas.Stage{}
	for i := range plain {
		report.Stages = append(report.Stages, schemas.StageReport{HoldoutLoss: &plain[i],
			Tempered: &schemas.TemperedReport{Temperature: temperatures[i], HoldoutLoss: tempered[i]}})
	}
	for range 3 {
		s := solve.Defaults()
		s.Features = stages.DefaultsOf(stages.Trees)
		list = append(list, s)
	}
	want := []heldOutLoss{{3, 1}, {1.9, 1.2}, {1.8, 1.7}}
	if got := lossesOf(report, list, true); !slices.Equal(got, want) || lowest(got, 1) != 2 {
		t.Errorf("losses %v, expected %v", got, want)
	}
	want = []heldOutLoss{{3, 1}, {2, 1}, {2.5, 1}}
	if got := lossesOf(report, list, false); !slices.Equal(got, want) || lowest(got, 1) != 1 || lowest(got, 3) != 2 {
		t.Errorf("without temperatures, losses %v, expected %v", got, want)
	}
	list[2].Temperature = 1.3
	if got := lossesOf(report, list, true); got[2] != (heldOutLoss{2.5, 1}) {
		t.Errorf("loss %v of a stage that has a temperature", got[2])
	}
	report.Stages = []schemas.StageReport{{}, {}}
	if got := lossesOf(report, list, true); !math.IsNaN(got[0].loss) || !math.IsNaN(got[2].loss) || lowest(got, 1) != -1 {
		t.Errorf("without held-out rows, losses %v", got)
	}
}
