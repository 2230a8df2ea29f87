package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
)

// Model is a finished version: everything that predicts with it.
type Model struct {
	Manifest *schemas.Manifest

	prepared *stages.Preparation
	blocks   []fittedBlock
	tensors  schemas.Tensors[float32]
}

type fittedBlock struct {
	link     link.Link
	features *stages.Map
	fitted   *sink.Fitted
}

// LoadModel reads a version of a pipeline: a number, a run, or Latest.
func LoadModel(ctx context.Context, log *kafkalog.Log, name, version string) (*Model, error) {
	return newDesk(log, name, nil).model(ctx, version)
}

func (d desk) model(ctx context.Context, version string) (*Model, error) {
	manifest, err := d.version(ctx, version)
	if err != nil {
		return nil, err
	}
	c := newChain(manifest.Plan, d.codec, ignored{})
	if _, err := c.read(ctx, d); err != nil {
		return nil, err
	}
	if c.prepared == nil {
		return nil, fmt.Errorf("version %d: the survey's result is no longer on %s", manifest.Version, d.weights)
	}
	for t, block := range manifest.Blocks {
		if final, digest := c.final(t); final == nil || digest != block.Digest {
			return nil, fmt.Errorf("version %d: the weights of stage %d are no longer on %s", manifest.Version, t, d.weights)
		}
	}
	return modelOf(c, manifest)
}

// ignored is a recorder for whom nothing is of interest.
type ignored struct{}

func (ignored) Record(Event) {}

// modelOf takes the final weights of a chain that has come to its end.
func modelOf(c *chain, manifest *schemas.Manifest) (*Model, error) {
	tensors := schemas.Tensors[float32]{}
	for t := range c.plan.Stages {
		m, err := c.featureMap(t)
		if err != nil {
			return nil, err
		}
		f, err := c.fitted(t, c.shape(m))
		if err != nil {
			return nil, err
		}
		name := func(i int, what string) string { return fmt.Sprintf("%d/%d/%s", t, i, what) }
		if !link.Named(c.plan.Stages[t].Link).Learnt {
			tensors = append(tensors, schemas.Matrix(name(0, schemas.TensorW), f.W.Rows, f.W.Cols, f.W.Data))
		}
		for i, pass := range f.Passes {
			tensors = append(tensors, schemas.Matrix(name(i, schemas.TensorW), pass.W.Rows, pass.W.Cols, pass.W.Data),
				schemas.Matrix(name(i, schemas.TensorCalibration), pass.Calibration.Rows, pass.Calibration.Cols, pass.Calibration.Data))
		}
	}
	tensors = append(tensors, c.survey.Preparation...)
	return newModel(manifest, tensors)
}

// newModel makes a model of the tensors of its file.
func newModel(manifest *schemas.Manifest, tensors schemas.Tensors[float32]) (*Model, error) {
	plan := manifest.Plan
	if err := sound(plan); err != nil {
		return nil, err
	}
	prepared, err := stages.NewPreparation(plan.Prepare, tensors)
	if err != nil {
		return nil, err
	}
	c := newChain(plan, nil, ignored{})
	c.prepared = prepared
	model := &Model{Manifest: manifest, prepared: prepared, tensors: tensors}
	for t, s := range plan.Stages {
		m, err := c.featureMap(t)
		if err != nil {
			return nil, err
		}
		f, chosen, shape := &sink.Fitted{}, link.Named(s.Link), c.shape(m)
		matrix := func(i int, what string, rows int) (kernel.Dense, error) {
			data, err := tensors.Shaped(fmt.Sprintf("%d/%d/%s", t, i, what), rows, shape.Classes)
			return kernel.Dense{Rows: rows, Cols: shape.Classes, Data: data}, err
		}
		if !chosen.Learnt {
			w, err := matrix(0, schemas.TensorW, shape.Columns)
			if err != nil {
				return nil, err
			}
			f.W = kernel.NewWeights(w)
		} else if t < len(manifest.Blocks) {
			for i := range manifest.Blocks[t].Passes {
				w, err := matrix(i, schemas.TensorW, shape.Columns)
				if err != nil {
					return nil, err
				}
				pass := sink.CalibratedPass{W: kernel.NewWeights(w)}
				if pass.Calibration, err = matrix(i, schemas.TensorCalibration, 3*shape.Classes); err != nil {
					return nil, err
				}
				f.Passes = append(f.Passes, pass)
			}
		}
		model.blocks = append(model.blocks, fittedBlock{chosen, m, f})
	}
	return model, nil
}

// Digest is the sha256 over the final weights (little-endian float32,
// row-major, p × k), the calibrations and the survey's result, in the order of
// the stages and, for a calibrated one, of its chain; last the labels' text.
func (m *Model) Digest() schemas.Digest {
	h, buffer := sha256.New(), []byte(nil)
	for _, t := range m.tensors {
		buffer = buffer[:0]
		for _, v := range t.Data {
			buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
		}
		h.Write(buffer)
		h.Write([]byte(strings.Join(t.Text, "\n")))
	}
	return schemas.Digest(hex.EncodeToString(h.Sum(nil)))
}

// WriteTo writes the model's file.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	return schemas.WriteModel(w, m.Manifest, m.tensors, memory.DefaultAllocator)
}

// ReadModel reads a model's file. Its digest is checked.
func ReadModel(r io.Reader) (*Model, error) {
	m, err := readModel(r)
	if err != nil {
		return nil, err
	}
	if got, want := m.Digest(), m.Manifest.WeightsDigest; got != want {
		return nil, fmt.Errorf("%w: the weights have digest %s, the manifest says %s", schemas.ErrDamaged, got.Short(), want.Short())
	}
	return m, nil
}

func readModel(r io.Reader) (*Model, error) {
	manifest, tensors, err := schemas.ReadModel(r, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	return newModel(manifest, tensors)
}

// Labels are the classes, in the order of the probabilities.
func (m *Model) Labels() []string { return m.prepared.Labels.Text() }

// Width is the number of raw features.
func (m *Model) Width() int { return m.prepared.Width() }

// Examples is how the files that the model was trained on were read.
func (m *Model) Examples() ingest.Options {
	o, in := ingest.Defaults(), m.Manifest.Plan.Input
	o.Format, o.Label, o.Weight, o.Header = in.Format, ingest.Column(in.Label), ingest.Column(in.Weight), in.Header
	o.Missing = m.Manifest.Plan.Missing
	return o
}

// Predictor predicts with a model; it keeps buffers between batches and is not
// safe for concurrent use.
type Predictor struct {
	model                       *Model
	blas                        *kernel.BLAS
	inputs, score, next         kernel.Dense
	block, scratch, predictions kernel.Dense
	workspace                   sink.Workspace
	links                       link.Scratch
}

// Predictor is a new one.
func (m *Model) Predictor(blas *kernel.BLAS) *Predictor { return &Predictor{model: m, blas: blas} }

// Probabilities of each class for each row of raw features (n × Width, missing
// values as NaN), which are overwritten. The result (n × k) is good until the
// next call.
func (p *Predictor) Probabilities(raw kernel.Dense) kernel.Dense {
	m, n, k := p.model, raw.Rows, p.model.prepared.Labels.Len()
	p.inputs.Reshape(n, m.prepared.Inputs())
	m.prepared.Apply(p.blas, p.inputs, raw)
	p.score.Reshape(n, k)
	clear(p.score.Data)
	for t, b := range m.blocks {
		if t > 0 {
			link.Convert(p.score, m.blocks[t-1].link, b.link, &p.links)
		}
		p.next.Reshape(n, k)
		shown := t == len(m.blocks)-1 && b.link.Learnt
		for from, to := range tiles(n) {
			p.through(b, p.next.Slice(from, to), p.score.Slice(from, to), p.inputs.Slice(from, to), shown)
		}
		p.score, p.next = p.next, p.score
	}
	last := m.blocks[len(m.blocks)-1].link
	last.Predict(p.score)
	last.Probabilities(p.score, &p.links)
	return p.score
}

// through writes into dst the scores of a tile of rows after a block, or what a
// calibrated one shows in the end.
func (p *Predictor) through(b fittedBlock, dst, score, inputs kernel.Dense, shown bool) {
	var before kernel.Dense
	if b.features.Scores() > 0 {
		p.predictions.Reshape(score.Rows, score.Cols)
		copy(p.predictions.Data, score.Data)
		b.link.Predict(p.predictions)
		before = p.predictions
	}
	b.features.Expand(p.blas, &p.block, &p.scratch, inputs, before)
	if shown {
		b.fitted.Shown(p.blas, &p.workspace, dst, score, p.block)
	} else {
		b.fitted.Scores(p.blas, dst, score, p.block)
	}
}
