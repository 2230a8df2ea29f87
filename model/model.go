package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
)

// Model is a finished version: everything that predictions need. It is made by [New] or [Read], immutable, and safe for
// concurrent use.
type Model struct {
	// Manifest says which version this is, how it was trained and what it is worth. It must not be changed.
	Manifest *schemas.Manifest

	preparation schemas.Tensors[float32]
	prepared    *stages.Preparation
	stages      []fittedStage
}

type fittedStage struct {
	*Stage
	fitted *sink.Fitted
}

// New makes a model of a version's manifest, the preparation of its survey, and the weights of each stage, in the order of
// their visits. Errors name what does not fit; they are typed, or wrap [schemas.ErrDamaged].
func New(manifest *schemas.Manifest, preparation schemas.Tensors[float32], weights [][]*schemas.Weights) (*Model, error) {
	plan := manifest.Plan
	if err := CheckPlan(plan); err != nil {
		return nil, err
	}
	prepared, err := stages.NewPreparation(plan.Prepare, preparation)
	if err != nil {
		return nil, err
	}
	m := &Model{Manifest: manifest, preparation: preparation, prepared: prepared}
	for t := range plan.Stages {
		stage, err := NewStage(plan, t, prepared)
		if err != nil {
			return nil, err
		}
		fitted, err := stage.Fitted(nil, weights[t])
		if err != nil {
			return nil, err
		}
		if !stage.Link.Learnt && fitted.W.Rows == 0 {
			return nil, fmt.Errorf("stage %d: %w", t, &schemas.ShapeError{Tensor: schemas.TensorW, Want: []int{stage.Features.Size(), stage.Classes}})
		}
		m.stages = append(m.stages, fittedStage{stage, fitted})
	}
	return m, nil
}

// CheckPlan returns an error that wraps [schemas.ErrDamaged] for a plan that no version can have been trained with. It does not
// look at what concerns training alone.
func CheckPlan(p *schemas.Plan) error {
	if len(p.Stages) == 0 {
		return fmt.Errorf("%w: a plan without stages", schemas.ErrDamaged)
	}
	problems := stages.CheckPrepare(p.Prepare)
	for _, s := range p.Stages {
		problems = append(problems, stages.Check(s.Features)...)
		if !slices.Contains(link.Names(), string(s.Link)) {
			problems = append(problems, schemas.Problem{Key: "link", Value: string(s.Link), Want: strings.Join(link.Names(), ", ")})
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: plan: %w", schemas.ErrDamaged, problems[0])
	}
	return nil
}

// Labels returns the classes, in the order of the probabilities. The slice must not be changed.
func (m *Model) Labels() []string { return m.prepared.Labels.Text() }

// Width returns the number of raw features, d.
func (m *Model) Width() int { return m.prepared.Width() }

// Preparation returns the survey's result as the version has it: centre, scale, basis, spread and labels. A warm start keeps
// it. The tensors must not be changed.
func (m *Model) Preparation() schemas.Tensors[float32] { return m.preparation }

// Weights returns W (p × k, row-major) of a stage, where a warm start of that stage begins; nil if its link is learnt, as
// Algorithm 2 begins anew. The slice must not be changed.
func (m *Model) Weights(stage int) []float32 { return m.stages[stage].fitted.W.Data }

// tensors are the content of the model's file, and what its digest is over: for each stage its weights, or each pass's weights
// and calibration, then the preparation.
func (m *Model) tensors() (tensors schemas.Tensors[float32]) {
	for t, s := range m.stages {
		if !s.Link.Learnt {
			w := s.fitted.W
			tensors = append(tensors, schemas.Matrix(tensorName(t, 0, schemas.TensorW), w.Rows, w.Cols, w.Data))
		}
		for i, pass := range s.fitted.Passes {
			w, c := pass.W, pass.Calibration
			tensors = append(tensors, schemas.Matrix(tensorName(t, i, schemas.TensorW), w.Rows, w.Cols, w.Data),
				schemas.Matrix(tensorName(t, i, schemas.TensorCalibration), c.Rows, c.Cols, c.Data))
		}
	}
	return append(tensors, m.preparation...)
}

// tensorName is the name of a tensor of a stage and pass in a model's file.
func tensorName(stage, pass int, name string) string {
	return fmt.Sprintf("%d/%d/%s", stage, pass, name)
}

// Digest is the sha256 over the final weights (little-endian float32, row-major, p × k), the calibrations and the survey's
// result, in the order of the stages and, if a link is learnt, of its passes; last the labels' text.
func (m *Model) Digest() schemas.Digest {
	h, buffer := sha256.New(), []byte(nil)
	for _, t := range m.tensors() {
		buffer = buffer[:0]
		for _, v := range t.Data {
			buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
		}
		h.Write(buffer)
		h.Write([]byte(strings.Join(t.Text, "\n")))
	}
	return schemas.Digest(hex.EncodeToString(h.Sum(nil)))
}
