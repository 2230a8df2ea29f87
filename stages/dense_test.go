package stages

import (
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// A component that does not support sparse rows needs dense ones, unless another component requires sparse ones.
func TestNeedDense(t *testing.T) {
	stage := func(kind string) schemas.Stage { return schemas.Stage{Features: DefaultsOf(kind)} }
	scores, some := stage(Columns), stage(Columns)
	scores.Scores, some.Features.Size = true, 3
	for name, test := range map[string]struct {
		prepare schemas.Prepare
		stages  []schemas.Stage
		want    bool
	}{
		"no stages":             {schemas.Prepare{}, nil, false},
		"columns":               {schemas.Prepare{}, []schemas.Stage{stage(Columns)}, false},
		"unit":                  {schemas.Prepare{Scale: "unit"}, []schemas.Stage{stage(Columns)}, false},
		"standard":              {schemas.Prepare{Scale: "standard"}, []schemas.Stage{stage(Columns)}, true},
		"components":            {schemas.Prepare{PCA: 2}, []schemas.Stage{stage(Columns)}, true},
		"Fourier":               {schemas.Prepare{}, []schemas.Stage{stage(Columns), stage(RFF)}, true},
		"trees":                 {schemas.Prepare{}, []schemas.Stage{stage(Trees)}, true},
		"scores":                {schemas.Prepare{}, []schemas.Stage{scores}, true},
		"some columns":          {schemas.Prepare{}, []schemas.Stage{some}, true},
		"counts and Fourier":    {schemas.Prepare{}, []schemas.Stage{stage(RFF), stage(ClassCounts)}, false},
		"Fourier after the idf": {schemas.Prepare{IDF: 1}, []schemas.Stage{stage(RFF)}, false},
	} {
		if got := NeedDense(test.prepare, test.stages, false); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
