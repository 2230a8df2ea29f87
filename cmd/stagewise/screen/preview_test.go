package screen

import (
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// The formula has the processor time of measured runs within a quarter; docs/scaling.md says how they were measured.
func TestCostOfMeasuredRuns(t *testing.T) {
	const start = 0.23 // seconds of a run without rows
	for _, run := range []struct {
		rows, width, pca, classes int
		stages, size, passes      int // passes of all stages
		gramRows                  string
		seconds                   float64
	}{
		{10_000, 784, 50, 10, 1, 256, 2, solve.GramAuto, 0.41},
		{10_000, 784, 50, 10, 4, 1024, 16, solve.GramAuto, 1.20},
		{60_000, 784, 50, 10, 2, 256, 8, solve.GramAuto, 1.40},
		{60_000, 784, 50, 10, 1, 1024, 4, solve.GramAuto, 1.62},
		{60_000, 784, 50, 10, 4, 1024, 16, solve.GramAuto, 2.75},
		{60_000, 784, 50, 10, 4, 1024, 30, solve.GramAuto, 3.18},
		{60_000, 784, 50, 10, 2, 2048, 8, solve.GramAuto, 3.67},
		{60_000, 784, 200, 10, 4, 1024, 16, solve.GramAuto, 3.82},
		{60_000, 784, 50, 10, 2, 1024, 8, solve.GramAll, 3.15},
		{60_000, 784, 50, 10, 1, 2048, 4, solve.GramAll, 5.54},
		{60_000, 784, 50, 10, 8, 512, 32, solve.GramAuto, 2.65},
		{60_000, 784, 100, 10, 8, 1024, 32, solve.GramAuto, 5.00},
		{60_000, 49, 0, 10, 1, 1024, 2, solve.GramAuto, 0.73},
		{60_000, 49, 0, 10, 2, 1024, 4, solve.GramAuto, 1.04},
		{60_000, 49, 0, 10, 2, 1024, 20, solve.GramAuto, 1.59},
		{60_000, 49, 0, 100, 1, 1024, 2, solve.GramAuto, 1.33},
		{60_000, 49, 0, 100, 2, 1024, 4, solve.GramAuto, 2.16},
		{60_000, 49, 0, 100, 2, 1024, 20, solve.GramAuto, 5.91},
	} {
		var list []schemas.Stage
		var columns []int
		for i := range run.stages {
			s := schemas.Stage{Features: stages.Defaults(), Link: link.Softmax, Passes: run.passes / run.stages, Method: solve.MethodAuto,
				GramRows: run.gramRows}
			if s.Features.Size = run.size; i < run.passes%run.stages {
				s.Passes++
			}
			list, columns = append(list, s), append(columns, run.size)
		}
		inputs := run.width
		if run.pca > 0 {
			inputs = run.pca
		}
		got := start + costOf(int64(run.rows), list, columns, run.width, inputs, run.pca > 0, run.classes).seconds
		if got < 0.75*run.seconds || got > 1.25*run.seconds {
			t.Errorf("%+v: the formula has %.2f s", run, got)
		} else {
			t.Logf("%.2f of %.2f s", got, run.seconds)
		}
	}
}
