package stages

import (
	"errors"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages/prepare"
)

// ErrNoImages means that features require images, but the shape of the examples is unknown.
var ErrNoImages = errors.New("features of kind patches need images, but neither the examples nor the configuration " +
	"has their shape: set examples.image to height, width and channels, such as [28, 28, 1]")

// Learner is the input of features that learn from data: the survey's sample of examples. Package pipeline provides it.
type Learner struct {
	BLAS *kernel.BLAS
	Seed uint64
	Rows kernel.Dense // the sample, prepared (n × m)
	// Whiten returns (C + ridge·I)^−½ (n × n) of the lower triangle of a covariance C (n × n, row-major).
	Whiten func(covariance []float64, n int, ridge float64) ([]float32, error)
}

// Learns reports whether features depend on the survey's sample.
func Learns(f schemas.Features) bool {
	k, ok := find(f.Kind)
	return ok && k.learn != nil
}

// Learn returns what the features of a stage learn from the survey's sample, for the survey's result; nil for features
// that learn nothing. prepared need not have the tensors of any stage. f must pass [Check].
func (l Learner) Learn(f schemas.Features, stage int, prepared *prepare.Preparation) (wire.Tensors[float32], error) {
	k, ok := find(f.Kind)
	if !ok {
		panic("stages: unknown kind of features " + f.Kind)
	}
	if k.learn == nil {
		return nil, nil
	}
	return k.learn(l, f, stage, prepared)
}
