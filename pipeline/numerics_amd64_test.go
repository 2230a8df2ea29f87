package pipeline

import (
	"testing"

	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// Runs that use all of the numeric code, computed in Go without a BLAS and without vector instructions, have the same weights in
// each version of the program with one numerics revision. If a digest is another now: increase NumericsRevision, which keeps
// processes of earlier versions away from the runs of this one, and put the new digests and the new revision here. Other architectures
// round differently, because Go may fuse a product and a sum there.
func TestNumericsRevision(t *testing.T) {
	long(t)
	const revision = 10
	assert.Equal(t, revision, dispatch.NumericsRevision, "the revision of the digests, and of the program")
	features, accelerated := cpu.X86, vek32.Info().Acceleration
	defer func() {
		cpu.X86 = features
		vek32.SetAcceleration(accelerated)
	}()
	assert.NoError(t, kernel.UseVector("none"))
	kind := func(kind string, s schemas.Stage) schemas.Stage {
		s.Features.Kind = kind
		if kind == "columns" {
			s.Features.Size = 0
		}
		return s
	}
	scores := rffStage(link.Softmax, 33, 3)
	scores.Scores = true
	sampled := rffStage(link.Softmax, 33, 6)
	sampled.GramRows = "300"
	conjugate := rffStage(link.Identity, 33, 5)
	conjugate.GramRows = "300"
	paper, accelerate := rffStage(link.Softmax, 33, 4), rffStage(link.Softmax, 33, 4)
	paper.Method, accelerate.Method = "paper", "accelerated"
	patches := rffStage(link.Softmax, 0, 3)
	patches.Features = stages.DefaultsOf(stages.Patches)
	patches.Features.Patch, patches.Features.Filters, patches.Features.Grid, patches.Features.Mirror = 2, 17, 2, true
	gradient, counts := kind(stages.Gradient, rffStage(link.Softmax, 20, 10)), kind(stages.ClassCounts, rffStage(link.Identity, 0, 1))
	descent, conjugateColumns := kind("columns", rffStage(link.Softmax, 0, 12)), kind("columns", rffStage(link.Identity, 0, 4))
	for name, test := range map[string]struct {
		prepare schemas.Prepare
		stages  []schemas.Stage
		want    wire.Digest
	}{
		"components": {schemas.Prepare{Scale: "unit", PCA: 3}, []schemas.Stage{rffStage(link.Softmax, 65, 6), rffStage(link.Identity, 17,
			1)}, "47b451ef74993ef60fa1973959f7407eb2fb73bd12515e8eb035789724496d19"},
		"calibrated": {schemas.Prepare{Scale: "standard"}, []schemas.Stage{rffStage(link.Calibrated, 63, 3), rffStage(link.Softmax, 17,
			3)}, "3a753fe949b68eee387d4ab49f3941a5f4154c8bdcdbcb22f67b9644450ebec3"},
		"kinds": {schemas.Prepare{Scale: "none"}, []schemas.Stage{kind("sorf", rffStage(link.Softmax, 64, 3)),
			kind("logits", rffStage(link.Softmax, 33, 3)), kind("polynomial", rffStage(link.Softmax, 33, 3)),
			kind("columns", rffStage(link.Softmax, 0, 3))}, "b4fa5991feb96d4ddc9b9141b9fff6ee37344e234c58f4f8dcbcdce370f15509"},
		"gram sample": {schemas.Prepare{Scale: "none"}, []schemas.Stage{sampled, scores},
			"7fdcdd245845eeea22fe4ffb1109fc0a4d49b0c177b6e307d6e21bfb8c8831ce"},
		"conjugate": {schemas.Prepare{Scale: "none"}, []schemas.Stage{conjugate},
			"a25772191f8d35aa9653f9468bd5f6dd47b1516fe27d79ba2b965de9618c7a94"},
		"patches": {schemas.Prepare{Scale: "none"}, []schemas.Stage{patches}, "4defa4261bf5e08686d43d27d72abbf9ece5741860ed0dcd7ca80ab0a1a67fc4"},
		"sparse": {schemas.Prepare{Scale: "unit"}, []schemas.Stage{descent, conjugateColumns},
			"ae14633a9b277d12b2862f83973443eddb4d8d97953695b97e192804be1946d7"},
		"blocks": {schemas.Prepare{Scale: "unit"}, []schemas.Stage{gradient, counts},
			"b65ca2debd8870c6d2095df3cec25fbea8750ec49fc543fb21ae5ffd11dfa94b"},
		"methods": {schemas.Prepare{Scale: "none"}, []schemas.Stage{paper, accelerate},
			"38055fda027a8aa729130e8c4e33b58d0370c75ebd5f4e23588e82c4e1b6c653"},
	} {
		for i := range test.stages {
			test.stages[i].Ridge = 1e-4 // a choice of the ridge would hide other changes
		}
		var job topics.Job
		switch name {
		case "sparse", "blocks":
			job = newSparseJob(t, test.stages...)
		case "patches":
			job = newJob(t, rings(1200, 16, 3, 1), table{}, test.stages...)
			job.Examples.Image = []string{"4", "4", "1"}
		default:
			job = newJob(t, rings(1200, 5, 3, 1), table{}, test.stages...)
		}
		job.Prepare = test.prepare
		report, _, err := Train(t.Context(), openEmbedded(t), kernel.Gonum(), job, dispatch.TrainOptions{}, ignore)
		assert.Need(t, err == nil, "%s: %v", name, err)
		assert.Equal(t, report.WeightsDigest, test.want, "%s: digest", name)
	}
}
