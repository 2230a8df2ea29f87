package model

import (
	"math"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// A plan of a version has no temperature that scores can't be divided by.
func TestPlanHasPossibleTemperatures(t *testing.T) {
	for _, test := range []struct {
		link        schemas.Link
		temperature float64
		possible    bool
	}{
		{link.Softmax, 0, true}, {link.Softmax, 1.7, true}, {link.Logistic, 0.5, true}, {link.Identity, 1, true}, {link.Calibrated, 0, true},
		{link.Softmax, -1, false}, {link.Softmax, math.NaN(), false}, {link.Softmax, math.Inf(1), false}, {link.Identity, 1.7, false},
		{link.Calibrated, 2, false},
	} {
		plan := &schemas.Plan{Stages: []schemas.Stage{{Features: stages.Defaults(), Link: test.link, Temperature: test.temperature}}}
		plan.Prepare.Scale = "none"
		if err := CheckPlan(plan); (err == nil) != test.possible {
			t.Errorf("link %s, temperature %g: %v", test.link, test.temperature, err)
		}
	}
}
