// Package model turns the weights of a finished version into predictions:
//
//	manifest, weights ──New──▶ Model ──Predictor──▶ labels and probabilities
//	file ──Read──▶ Model ──WriteTo, Exports──▶ file
//
// A Model is all that predictions need, without a log. The workers that train
// the next stage compute their blocks and scores with the same code: see [Stage].
package model

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
)

// Model is a finished version: everything that predictions need. [New] and [Read] make models. A model is immutable and safe
// for concurrent use.
type Model struct {
	// Manifest describes the version, its training, and its errors. It must not be changed.
	Manifest *schemas.Manifest

	preparation wire.Tensors[float32]
	prepared    *stages.Preparation
	stages      []fittedStage
	predictors  sync.Pool // of *Predictor, for Predict and Probabilities

	contributor func() (*contributor, error) // makes it once
}

type fittedStage struct {
	*Stage
	fitted *sink.Fitted
}

// New returns the model of a finished version: its manifest, the survey's result, and for each stage of the manifest's plan the
// published weights in the order of their visits. Errors name what is missing or does not fit. They are a
// *[wire.ShapeError] or a *[stages.SizeError], or wrap [wire.ErrDamaged].
func New(manifest *schemas.Manifest, preparation wire.Tensors[float32], weights [][]*schemas.Weights) (*Model, error) {
	plan := manifest.Plan
	if err := CheckPlan(plan); err != nil {
		return nil, err
	}
	prepared, err := stages.NewPreparation(plan.Prepare, preparation)
	if err != nil {
		return nil, err
	}
	if n := manifest.Columns.Features(); manifest.Columns != nil && n != prepared.TableWidth() {
		return nil, fmt.Errorf("%w: %d features, the columns of the manifest have %d", wire.ErrDamaged, prepared.TableWidth(), n)
	}
	if numbers := plan.Task() == examples.Numbers; numbers != (prepared.TargetCenter != nil) || numbers && !slices.Equal(plan.Targets,
		prepared.Labels.Text()) {
		return nil, fmt.Errorf("%w: the survey's result is for %q, the plan predicts %q", wire.ErrDamaged, prepared.Labels.Text(), plan.Targets)
	}
	m := &Model{Manifest: manifest, preparation: preparation, prepared: prepared}
	m.contributor = sync.OnceValues(m.newContributor)
	for t := range plan.Stages {
		stage, err := NewStage(plan, t, prepared)
		if err != nil {
			return nil, err
		}
		if stage.Features.Leaves() > 0 {
			if stage, err = stage.Grow(structureOf(weights[t])); err != nil {
				return nil, fmt.Errorf("stage %d: %w", t, err)
			}
		}
		fitted, err := stage.Fitted(nil, weights[t])
		if err != nil {
			return nil, err
		}
		if err := stage.checkWhole(fitted); err != nil {
			return nil, fmt.Errorf("stage %d: %w", t, err)
		}
		m.stages = append(m.stages, fittedStage{stage, fitted})
	}
	return m, nil
}

// First returns the model with only the given number of first stages. It panics if m averages, as its members are trained independently.
func (m *Model) First(stages int) *Model {
	if m.Manifest.Plan.Members() > 1 {
		panic("model: the first stages of a model that averages")
	}
	manifest, plan := *m.Manifest, *m.Manifest.Plan
	plan.Stages, manifest.Plan = plan.Stages[:stages], &plan
	first := &Model{Manifest: &manifest, preparation: m.preparation, prepared: m.prepared, stages: m.stages[:stages]}
	first.contributor = sync.OnceValues(first.newContributor)
	return first
}

// SharesInputs reports whether two versions have the same preparation, and so the same inputs for a row. Then they also
// have the same labels, or the same unit of their numbers.
func (m *Model) SharesInputs(other *Model) bool {
	return m.Manifest.Plan.Prepare == other.Manifest.Plan.Prepare && m.preparation.Same(other.preparation)
}

// WeightsOn returns the weights of a stage for another preparation of sparse rows that has all inputs of the model's: those of other inputs
// are 0. The slice must not be changed.
func (m *Model) WeightsOn(stage int, prepared *stages.Preparation) []float32 {
	w, inputs := m.stages[stage].fitted.W.Dense, m.prepared.Inputs()
	if prepared.Inputs() == inputs {
		return w.Data
	}
	others := make([]float32, (w.Rows-inputs+prepared.Inputs())*w.Cols)
	columns := m.prepared.Factors.Kept()
	for i := 0; i < len(columns); {
		from, end := int(prepared.Factors.Input(columns[i])), i+1
		for end < len(columns) && int(prepared.Factors.Input(columns[end])) == from+end-i {
			end++
		}
		copy(others[from*w.Cols:], w.Data[i*w.Cols:end*w.Cols])
		i = end
	}
	copy(others[prepared.Inputs()*w.Cols:], w.Data[inputs*w.Cols:])
	return others
}

// Stage returns a stage, counted from 0, without its weights.
func (m *Model) Stage(stage int) *Stage { return m.stages[stage].Stage }

// CheckPlan returns an error that wraps [wire.ErrDamaged] if no version can have been trained with the plan. It checks what
// predictions depend on, and leaves out what only training needs.
func CheckPlan(p *schemas.Plan) error {
	if len(p.Stages) == 0 {
		return fmt.Errorf("%w: a plan without stages", wire.ErrDamaged)
	}
	problems := stages.CheckPrepare(p.Prepare)
	for t, s := range p.Stages {
		if err := stages.CheckDrawn(s, t); err != nil {
			return err
		}
		problems = append(problems, stages.Check(s.Features)...)
		problems = append(problems, stages.CheckStage(s, p.Prepare, p.Task())...)
		problems = append(problems, CheckLink(p.Task(), s.Link)...)
		problems = append(problems, CheckTemperature(s)...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: plan: %w", wire.ErrDamaged, problems[0])
	}
	return nil
}

// Task returns the prediction task of the model.
func (m *Model) Task() examples.Task { return m.Manifest.Plan.Task() }

// Labels returns the classes, in the order of the probabilities; of a model of numbers, the names of the numbers. The
// slice must not be changed.
func (m *Model) Labels() []string { return m.prepared.Labels.Text() }

// LabelType returns the type of the labels; text for a model of numbers.
func (m *Model) LabelType() examples.LabelType { return m.Manifest.LabelType }

// Standardize writes numbers (n × k) into dst (n × k) as the stages of a model of numbers predict them: minus their means, divided by their
// standard deviations.
func (m *Model) Standardize(dst kernel.Dense, targets []float64) {
	m.prepared.Standardize(dst, targets)
}

// TargetScale returns the standard deviations (k) that standardised numbers are multiples of; nil if the model predicts
// labels. The slice must not be changed.
func (m *Model) TargetScale() []float32 { return m.prepared.TargetScale }

// Width returns the number of raw features, d.
func (m *Model) Width() int { return m.prepared.Width() }

// Inputs returns the number of prepared inputs, m.
func (m *Model) Inputs() int { return m.prepared.Inputs() }

// Image returns the shape of the images that the model was trained on; zero if its examples were not images.
func (m *Model) Image() examples.Image { return m.prepared.Image }

// Sparse reports whether the model was trained on sparse rows. A dense row then stands for its nonzero features.
func (m *Model) Sparse() bool { return m.prepared.Factors != nil }

// Lacking appends those of the given columns of sparse rows that the model does not have.
func (m *Model) Lacking(dst, columns []int32) []int32 {
	for _, column := range columns {
		if m.prepared.Factors.Input(column) < 0 {
			dst = append(dst, column)
		}
	}
	return dst
}

// Columns returns the columns of the table that the model was trained on, in the order of the raw features; nil if they are not known.
// The slice must not be changed.
func (m *Model) Columns() examples.Columns { return m.Manifest.Columns }

// Preparation returns the survey's result: centre, scale, basis, spread and labels. A run that starts from this version keeps
// them. The tensors must not be changed.
func (m *Model) Preparation() wire.Tensors[float32] { return m.preparation }

// Weights returns W (p × k, row-major) of a stage, counted from 0: a run that starts from this version begins the stage there.
// It returns nil if the stage's link is learnt, as Algorithm 2 then starts from the beginning. The slice must not be changed.
func (m *Model) Weights(stage int) []float32 { return m.stages[stage].fitted.W.Data }

// Tensors returns the tensors of the model's file, for [Model.Digest]: for each stage its weights, or the weights and the calibration of
// each pass, and at the end the preparation. schemas/FORMAT.md has names and shapes. The tensors must not be changed.
func (m *Model) Tensors() (tensors wire.Tensors[float32]) {
	for t, s := range m.stages {
		for _, tensor := range s.Features.Structure() {
			tensor.Name = schemas.FileTensor(t, 0, tensor.Name)
			tensors = append(tensors, tensor)
		}
		if !s.Link.Learnt {
			w := s.fitted.W
			tensors = append(tensors, wire.Matrix(schemas.FileTensor(t, 0, statistics.TensorW), w.Rows, w.Cols, w.Data))
		}
		for i, pass := range s.fitted.Passes {
			w, c := pass.W, pass.Calibration
			tensors = append(tensors, wire.Matrix(schemas.FileTensor(t, i, statistics.TensorW), w.Rows, w.Cols, w.Data),
				wire.Matrix(schemas.FileTensor(t, i, statistics.TensorCalibration), c.Rows, c.Cols, c.Data))
		}
	}
	return append(tensors, m.preparation...)
}

// Digest returns the sha256 over the final weights (little-endian float32, row-major, p × k), the calibrations and the survey's
// result, in the order of the stages and, if a link is learnt, of its passes. The labels' text comes last.
func (m *Model) Digest() wire.Digest { return schemas.WeightsDigest(m.Tensors()) }
