package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// images is a model of ten blocks of 1024 features of the 50 components of 784 pixels, with random weights.
func images(b *testing.B) *model.Model {
	const d, m, p, k = 784, 50, 1024, 10
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		return values
	}
	features := stages.DefaultsOf(stages.RFF)
	features.Size = p
	plan := &schemas.Plan{Name: "images", Segment: 16, Missing: layout.MissingError, Prepare: schemas.Prepare{Scale: stages.ScaleNone,
		PCA: m}, Seed: 3,
		Stages: slices.Repeat([]schemas.Stage{{Features: features, Link: link.Softmax}}, 10)}
	manifest := &schemas.Manifest{Name: plan.Name, Version: 1, Run: "run", Plan: plan, Blocks: make([]schemas.BlockDigest, 10)}
	for class := range k {
		manifest.Labels = append(manifest.Labels, fmt.Sprint(class))
	}
	var weights [][]*schemas.Weights
	for stage := range plan.Stages {
		weights = append(weights, []*schemas.Weights{{Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Stage: stage},
			Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, p, k, draw(p*k))}}})
	}
	large := must(model.New(manifest, wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, draw(d)), wire.Vector(statistics.TensorScale, slices.Repeat([]float32{0.01}, d)),
		wire.Vector(statistics.TensorSpread, []float32{100}), wire.Words[float32](statistics.TensorLabels, manifest.Labels),
		wire.Matrix(statistics.TensorBasis, d, m, draw(d*m)),
	}, weights))(b)
	return large
}

// nowhere is a topic that discards messages.
type nowhere struct{}

func (nowhere) Partitions(context.Context, string) (int, error) { return 1, nil }

func (nowhere) Append(context.Context, string, int, ...kafkalog.Message) (int64, error) {
	return 0, nil
}

// BenchmarkPredict answers requests of images, without a network. "predictions" is the time relative to that of the
// predictions alone.
func BenchmarkPredict(b *testing.B) {
	m := images(b)
	for _, n := range []int{1, 64, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkPredict(b, m, n) })
	}
}

func benchmarkPredict(b *testing.B, m *model.Model, n int) {
	rows, random := make([][]float32, n), rand.New(rand.NewPCG(3, 4))
	for i := range rows {
		rows[i] = make([]float32, 784)
		for j := range rows[i] {
			if random.IntN(5) == 0 { // as many as in an image of a digit
				rows[i][j] = float32(random.IntN(256))
			}
		}
	}
	asJSON := must(json.Marshal(map[string]any{"rows": rows}))(b)
	for name, c := range map[string]struct {
		contentType string
		body        []byte
		log         bool // answers are written to a topic
	}{
		typeJSON: {typeJSON, asJSON, false}, typeArrow: {typeArrow, listsOf(b, rows, n), false},
		typeJSON + " and a topic": {typeJSON, asJSON, true}, typeArrow + " and a topic": {typeArrow, listsOf(b, rows, n), true},
	} {
		contentType, body := c.contentType, c.body
		b.Run(name, func(b *testing.B) {
			o := Defaults()
			o.Answers.Topic = "answers"
			s := newServer(b, o, Fixed(m))
			if c.log {
				noError(b, s.WriteAnswers(b.Context(), nowhere{}))
				defer s.closeAnswers(b.Context())
			}
			all, probabilities := denseOf(rows...), make([]float32, n*10)
			var predictions, answers time.Duration
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				m.Probabilities(probabilities, all)
				between := time.Now()
				if w := ask(s, "POST", "/predict", contentType, body); w.Code != http.StatusOK {
					b.Fatalf("%d: %s", w.Code, w.Body)
				}
				predictions += between.Sub(began)
				answers += time.Since(between)
			}
			b.ReportMetric(float64(answers)/float64(predictions), "predictions")
			b.ReportMetric(float64(b.N*n)/answers.Seconds(), "rows/s")
		})
	}
}
