package model

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/signature"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// WriteTo writes the model's file, and returns the number of bytes written. schemas/FORMAT.md describes the format.
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
		return nil, fmt.Errorf("%w: the weights have digest %s, the manifest says %s", wire.ErrDamaged, got.Short(), want.Short())
	}
	return m, nil
}

// read is Read without the check of the digest, which fuzzing would not get past.
func read(r io.Reader) (*Model, error) {
	whole := bufio.NewReader(r)
	first, _ := whole.Peek(512) // which determine the format; ReadModel returns the error
	other := notModel(first)
	manifest, tensors, err := schemas.ReadModel(whole, memory.DefaultAllocator)
	if other != "" && errors.Is(err, wire.ErrDamaged) {
		return nil, foreignError(other)
	}
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

// notModel describes a file that does not begin like a model file, which is an Arrow stream; "" if it may be a model file.
func notModel(first []byte) string {
	switch form, known := signature.Of(first); {
	case len(first) == 0:
		return "an empty file"
	case form.Name == "an Arrow stream":
		return ""
	case known:
		return form.Name
	case signature.LooksLikeText(first):
		return "text"
	}
	return "other bytes"
}

// foreignError describes a file that is not a model file.
type foreignError string

func (e foreignError) Error() string {
	return "not a model file, but " + string(e) + ": `stagewise train --model FILE` and `stagewise weights export` write one"
}

func (e foreignError) Unwrap() error { return wire.ErrDamaged }

// stageOf returns the weights of a stage in a file, as its records on a topic would have them.
func stageOf(manifest *schemas.Manifest, stage int, tensors wire.Tensors[float32]) (weights []*schemas.Weights) {
	passes := 1
	if link.Named(manifest.Plan.Stages[stage].Link).Learnt {
		passes = 0
		if stage < len(manifest.Blocks) {
			passes = manifest.Blocks[stage].Passes
		}
	}
	record := func(kind wire.Kind, pass int, names ...string) bool {
		w := &schemas.Weights{Identity: wire.Identity{Kind: kind, Run: manifest.Run, Stage: stage, Visit: pass}}
		for _, name := range names {
			if t, ok := tensors.Find(schemas.FileTensor(stage, pass, name)); ok {
				t.Name = name
				w.Tensors = append(w.Tensors, t)
			}
		}
		if len(w.Tensors) > 0 {
			weights = append(weights, w)
		}
		return len(w.Tensors) > 0
	}
	record(schemas.KindStructure, 0, statistics.StructureTensors()...)
	for i := range passes {
		if !record(schemas.KindWeights, i, statistics.TensorW, statistics.TensorCalibration) {
			break // the manifest counts more passes than the file has: the digest will differ
		}
	}
	return weights
}

// preparationOf returns the tensors of a file that are the survey's result, in the order of the file, which the digest depends on.
func preparationOf(tensors wire.Tensors[float32]) (preparation wire.Tensors[float32]) {
	for _, t := range tensors {
		if statistics.OfPreparation(t.Name) {
			preparation = append(preparation, t)
		}
	}
	return preparation
}
