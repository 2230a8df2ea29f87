package model

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// WriteTo writes the model's file, and returns how many bytes it wrote. schemas/FORMAT.md describes the format.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	return schemas.WriteModel(w, m.Manifest, m.Tensors(), memory.DefaultAllocator)
}

// Read reads a model's file and checks its digest. It wraps errors of r. Other errors say what is wrong with the file, and
// are those of [New].
func Read(r io.Reader) (*Model, error) {
	m, err := read(r)
	if err != nil {
		return nil, err
	}
	if got, want := m.Digest(), m.Manifest.WeightsDigest; got != want {
		return nil, fmt.Errorf("%w: the weights have digest %s, the manifest says %s", schemas.ErrDamaged, got.Short(), want.Short())
	}
	return m, nil
}

// read is Read without the check of the digest, which fuzzing would not get past.
func read(r io.Reader) (*Model, error) {
	manifest, tensors, err := schemas.ReadModel(r, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	if err := CheckPlan(manifest.Plan); err != nil {
		return nil, err
	}
	weights := make([][]*schemas.Weights, len(manifest.Plan.Stages))
	for t := range weights {
		weights[t] = stageOf(manifest, t, tensors)
	}
	return New(manifest, preparationOf(tensors), weights)
}

// stageOf returns the weights of a stage in a file, as its records on a topic would have them.
func stageOf(manifest *schemas.Manifest, stage int, tensors schemas.Tensors[float32]) (weights []*schemas.Weights) {
	passes := 1
	if link.Named(manifest.Plan.Stages[stage].Link).Learnt {
		passes = 0
		if stage < len(manifest.Blocks) {
			passes = manifest.Blocks[stage].Passes
		}
	}
	for i := range passes {
		w := &schemas.Weights{Identity: schemas.Identity{Kind: schemas.KindWeights, Run: manifest.Run, Stage: stage, Visit: i}}
		for _, name := range []string{schemas.TensorW, schemas.TensorCalibration} {
			if t, ok := tensors.Find(schemas.FileTensor(stage, i, name)); ok {
				t.Name = name
				w.Tensors = append(w.Tensors, t)
			}
		}
		if len(w.Tensors) == 0 {
			break // the manifest counts more passes than the file has: the digest will differ
		}
		weights = append(weights, w)
	}
	return weights
}

// preparationOf returns the tensors of a file that are the survey's result, in the order of the file, which the digest depends on.
func preparationOf(tensors schemas.Tensors[float32]) (preparation schemas.Tensors[float32]) {
	for _, t := range tensors {
		if schemas.OfPreparation(t.Name) {
			preparation = append(preparation, t)
		}
	}
	return preparation
}
