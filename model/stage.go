package model

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
)

// Stage is one stage of a version, or of a run that is under way: how its block is made, and what its weights must be.
// [NewStage] makes stages. A stage is immutable and safe for concurrent use.
type Stage struct {
	Link     link.Link
	Features *stages.Map // makes the block, p columns
	Classes  int         // k
	Basis    link.Basis  // of a link that is learnt
}

// NewStage returns the stage of a plan with a number, counted from 0, for inputs of a preparation. The plan must pass
// [CheckPlan]. The error is a *[stages.SizeError] if there are too few inputs for the features, or a *[stages.DenseError] if
// the inputs are sparse and the stage needs dense ones.
func NewStage(plan *schemas.Plan, number int, prepared *stages.Preparation) (*Stage, error) {
	options, scores := plan.Stages[number], 0
	if options.Scores {
		scores = prepared.Labels.Len()
	}
	features, err := stages.NewMap(options.Features, plan.Seed, number, prepared, scores, plan.Intercept && plan.BeginsMember(number))
	if err != nil {
		return nil, fmt.Errorf("draw stage %d: %w", number, err)
	}
	features.After(options.Drawn)
	s := &Stage{Link: LinkOf(plan, number), Features: features, Classes: prepared.Labels.Len(), Basis: options.Basis}
	if features.Sparse() && s.Link.Learnt {
		known := linksThat(func(l link.Link) bool { return !l.Learnt })
		dense := &stages.DenseError{What: "link: " + s.Link.Name, Want: "it to " + strings.Join(known, " or ")}
		return nil, fmt.Errorf("stage %d: %w", number, dense)
	}
	return s, nil
}

// Grow returns the stage with the trees of a record of kind structure. Errors are those of [stages.Map.Grow].
func (s *Stage) Grow(structure wire.Tensors[float32]) (*Stage, error) {
	features, err := s.Features.Grow(structure)
	if err != nil {
		return nil, err
	}
	return &Stage{Link: s.Link, Features: features, Classes: s.Classes, Basis: s.Basis}, nil
}

// structureOf returns the tensors of trees in a stage's records; nil if there are none.
func structureOf(published []*schemas.Weights) (structure wire.Tensors[float32]) {
	for _, w := range published {
		for _, name := range statistics.StructureTensors() {
			if tensor, ok := w.Tensors.Find(name); ok {
				structure = append(structure, tensor)
			}
		}
		if structure != nil {
			break
		}
	}
	return structure
}

// Fitted returns the weights that the stage has after its published records, which are in the order of their visits and may be
// none: those of the last record, or if the link is learnt those of all passes that count. initial is the W (p × k) that the
// stage begins at in a warm start; nil for zeros. Errors name the record. They are a *[wire.ShapeError] or wrap
// [wire.ErrDamaged].
func (s *Stage) Fitted(initial []float32, published []*schemas.Weights) (*sink.Fitted, error) {
	f := &sink.Fitted{Region: s.Link.Region(), Basis: s.Basis}
	if initial != nil && !s.Link.Learnt {
		f.W = s.laidOut(kernel.Dense{Rows: s.Features.Size(), Cols: s.Classes, Data: initial})
	}
	for i, w := range published {
		if i == len(published)-1 {
			if err := s.overlay(f, w); err != nil {
				return nil, fmt.Errorf("read %v: %w", w.Identity, err)
			}
		}
		if err := s.add(f, w); err != nil {
			return nil, fmt.Errorf("read %v: %w", w.Identity, err)
		}
	}
	return f, nil
}

// overlay applies a record of an update on sparse rows, which has the weights of columns that occur. All other weights are the previous
// ones, plus a shift if there is one.
func (s *Stage) overlay(f *sink.Fitted, w *schemas.Weights) error {
	p, k := s.Features.Size(), s.Classes
	columns, rows, err := statistics.RowsOf(w.Tensors, p, k)
	if err != nil || columns == nil {
		return err
	}
	if len(f.W.Data) != p*k {
		return &wire.ShapeError{Tensor: statistics.TensorW, Got: []int{f.W.Rows, f.W.Cols}, Want: []int{p, k}}
	}
	all := slices.Clone(f.W.Data)
	shift, err := w.Tensors.Optional(statistics.TensorShift, k)
	if err != nil {
		return err
	}
	if shift != nil {
		for i := range all[:s.Features.Penalised()*k] {
			all[i] += shift[i%k]
		}
	}
	for i, column := range columns {
		copy(all[int(column)*k:][:k], rows[i*k:])
	}
	f.W = s.laidOut(kernel.Dense{Rows: p, Cols: k, Data: all})
	return nil
}

// add applies the next record of the stage.
func (s *Stage) add(f *sink.Fitted, w *schemas.Weights) error {
	p, k := s.Features.Size(), s.Classes
	weights, err := w.Tensors.Optional(statistics.TensorW, p, k)
	if err != nil {
		return err
	}
	if matrix := (kernel.Dense{Rows: p, Cols: k, Data: weights}); weights != nil && s.Link.Learnt {
		f.Passes = append(f.Passes, sink.CalibratedPass{W: kernel.NewWeights(matrix)})
	} else if weights != nil {
		f.W = s.laidOut(matrix)
	}
	if s.Link.Learnt && len(f.Passes) > 0 {
		calibration, err := w.Tensors.Optional(statistics.TensorCalibration, s.Basis.Len()*k, k)
		if err != nil {
			return err
		}
		if calibration != nil {
			f.Passes[len(f.Passes)-1].Calibration = kernel.Dense{Rows: s.Basis.Len() * k, Cols: k, Data: calibration}
		}
	}
	if w.Final == nil || !s.Link.Learnt {
		return nil
	}
	if n := w.Final.Passes; n < 0 || n > len(f.Passes) {
		return fmt.Errorf("%w: the first %d passes count, but there are %d", wire.ErrDamaged, n, len(f.Passes))
	}
	f.Passes = f.Passes[:w.Final.Passes]
	return nil
}

// laidOut returns W (p × k) in the layout that products need. Products of sparse rows read the rows of W directly.
func (s *Stage) laidOut(w kernel.Dense) kernel.Weights {
	if s.Features.Sparse() {
		return kernel.Weights{Dense: w}
	}
	return kernel.NewWeights(w)
}

// checkWhole returns a *wire.ShapeError that names missing weights of a finished stage.
func (s *Stage) checkWhole(f *sink.Fitted) error {
	if !s.Link.Learnt && f.W.Rows == 0 {
		return &wire.ShapeError{Tensor: statistics.TensorW, Want: []int{s.Features.Size(), s.Classes}}
	}
	for _, pass := range f.Passes {
		if pass.Calibration.Rows == 0 {
			return &wire.ShapeError{Tensor: statistics.TensorCalibration, Want: []int{s.Basis.Len() * s.Classes, s.Classes}}
		}
	}
	return nil
}

// Workspace is memory that [Stage.Expand], weights and links reuse in every call. The zero value is ready to use. A workspace is not safe
// for concurrent use.
type Workspace struct {
	predictions, scratch kernel.Dense
	Sink                 sink.Workspace
	Link                 link.Scratch
}

// Expand writes the block of n rows into block, which it reshapes to n × p. inputs (n × m) are prepared, and score (n × k) is
// the score before the stage. Inputs or scores of another shape panic. It returns the rows that overflow: see [stages.Map.Expand].
func (s *Stage) Expand(blas *kernel.BLAS, w *Workspace, block *kernel.Dense, inputs, score kernel.Dense) (overflowed []int) {
	var before kernel.Dense
	if s.Features.Scores() > 0 {
		w.predictions.Reshape(score.Rows, score.Cols)
		copy(w.predictions.Data, score.Data)
		s.Link.Predict(w.predictions)
		before = w.predictions
	}
	return s.Features.Expand(blas, block, &w.scratch, inputs, before)
}

// tileRows is the number of rows for which expansion, scores, losses and the cross moment are computed together. A tile of 1024 columns is
// 256 KB, so the data of one product is still in the second-level cache when the next product reads it.
const tileRows = 64

// Tiles yields the ranges of rows, from (included) to to (excluded), that kernels are called with. The bits of a BLAS's
// results depend on the shapes, so training and prediction cut their rows in the same way.
func Tiles(rows int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < rows; from += tileRows {
			if !yield(from, min(from+tileRows, rows)) {
				return
			}
		}
	}
}
