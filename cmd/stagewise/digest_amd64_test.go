package main

import (
	"testing"

	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
)

// The weights of examples/digits.yaml, computed in Go without a BLAS and without vector instructions, are the same in each
// version of the program. Users get other results if these bits change, so change them only on purpose. Other architectures
// round differently, because Go may fuse a product and a sum there.
func TestDigitsDigest(t *testing.T) {
	long(t)
	const want = "7479165dc3d4040f7c3ecdcf2a17f0163d48827d4e6c169c21d50cf9dbef354e"
	features, accelerated := cpu.X86, vek32.Info().Acceleration
	defer func() {
		cpu.X86 = features
		vek32.SetAcceleration(accelerated)
	}()
	assert.NoError(t, kernel.UseVector("none"))
	t.Chdir("../..")
	c := assert.Must(config.Load("examples/digits.yaml", nil))(t)
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	defer log.Close()
	report, _, err := pipeline.Train(t.Context(), log, kernel.Gonum(), c.Job(), dispatch.TrainOptions{}, nil)
	assert.NoError(t, err)
	assert.Equal(t, report.WeightsDigest, want, "weights with digest")
}
