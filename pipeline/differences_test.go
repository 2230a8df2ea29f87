package pipeline

import (
	"testing"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/schemas"
)

// A plan that does not fit a warm start is refused by the first key that differs, with both values.
func TestCheckFeatures(t *testing.T) {
	plan := func() *schemas.Plan {
		return &schemas.Plan{
			Seed: 1, Intercept: true, Prepare: schemas.Prepare{Scale: "unit"},
			Stages: []schemas.Stage{{Link: "softmax", Features: schemas.Features{Kind: "rff", Size: 256, BandwidthScale: 1}}},
		}
	}
	for want, change := range map[string]func(p *schemas.Plan){
		"": func(*schemas.Plan) {},
		"seed 2, this run has 1: a warm start needs the same seed":                        func(p *schemas.Plan) { p.Seed = 2 },
		"intercept false, this run has true: a warm start needs the same intercept":       func(p *schemas.Plan) { p.Intercept = false },
		"prepare: scale none, this run has unit: a warm start needs the same preparation": func(p *schemas.Plan) { p.Prepare.Scale = "none" },
		"stage 0: link identity, this run has softmax: a warm start needs the same link":  func(p *schemas.Plan) { p.Stages[0].Link = "identity" },
		"stage 0: scores true, this run has false: a warm start needs the same scores":    func(p *schemas.Plan) { p.Stages[0].Scores = true },
		"prepare: scale none, this run has unit; pca 50, this run has 0: a warm start needs the same preparation": func(p *schemas.Plan) {
			p.Prepare = schemas.Prepare{Scale: "none", PCA: 50}
		},
		"stage 0: features: size 512, this run has 256: a warm start needs the same features": func(p *schemas.Plan) {
			p.Stages[0].Features.Size = 512
		},
	} {
		earlier := plan()
		change(earlier)
		switch err := dispatch.CheckFeatures(plan(), earlier); {
		case want == "" && err != nil, want != "" && (err == nil || err.Error() != want):
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// An error about another arithmetic names only what differs.
func TestStandAsideError(t *testing.T) {
	plan := &schemas.Plan{Arithmetic: schemas.Arithmetic{Numerics: "1", BLAS: "OpenBLAS", Vector: "avx512"}}
	why := dispatch.Unable(nil, plan, schemas.Arithmetic{Numerics: "1", BLAS: "gonum", Vector: "avx512"})
	err := &dispatch.StandAsideError{Run: "73c9650f2e46", Why: why}
	const want = "run 73c9650f2e46 goes first, but this process can't execute it: its arithmetic differs: blas OpenBLAS, this process has " +
		"gonum. Finish the run where it was planned, or cancel it with --supersede"
	if err.Error() != want {
		t.Error(err)
	}
}
