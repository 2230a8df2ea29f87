package score

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

const width = 5

// newModel returns a version of random weights with that many classes.
func newModel(t *testing.T, version, classes int) *model.Model {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(version), 1))
	weights := make([]float32, 8*classes)
	for i := range weights {
		weights[i] = float32(random.NormFloat64())
	}
	labels := make([]string, classes)
	for i := range labels {
		labels[i] = fmt.Sprint("class ", i)
	}
	features := stages.DefaultsOf(stages.RFF)
	features.Size = 8
	plan := &schemas.Plan{Name: "p", Segment: 16, Missing: layout.MissingError, Prepare: schemas.Prepare{Scale: prepare.ScaleNone}, Seed: 3,
		Stages: []schemas.Stage{{Features: features, Link: link.Softmax}}}
	manifest := &schemas.Manifest{Name: "p", Version: version, Run: fmt.Sprint("run", version), Plan: plan, Labels: labels,
		Blocks: []schemas.BlockDigest{{}}}
	m := arrowtest.Must(model.New(manifest, wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, make([]float32, width)), wire.Vector(statistics.TensorScale, slices.Repeat([]float32{1}, width)),
		wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, labels),
	}, [][]*schemas.Weights{{{
		Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run"},
		Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 8, classes, weights)},
	}}}))(t)
	return m
}

// topic is a log with messages of examples on partitions of p.examples, and the features of their rows.
type topic struct {
	*kafkalog.Log
	client     *protocol.Client
	partitions int
	rows       map[[2]int64][]float32 // by partition and offset; nil: it can't be used

	contributions int // of each row's predictions
}

// newTopic returns a topic with messages of these numbers of rows; −1: one that can't be used.
func newTopic(t *testing.T, partitions int, sizes ...int) *topic {
	t.Helper()
	log := arrowtest.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"p.examples", "p.predictions"} {
		arrowtest.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: name, Partitions: partitions}))
	}
	all := &topic{log, protocol.NewClient(log, "p", nil), partitions, map[[2]int64][]float32{}, 0}
	random := rand.New(rand.NewPCG(7, 7))
	for i, n := range sizes {
		message, features := wire.Message{Value: []byte("no examples")}, []float32(nil)
		if n >= 0 {
			features = make([]float32, n*width)
			for i := range features {
				features[i] = float32(random.NormFloat64())
			}
			rows := &examples.Rows{Rows: n, Cols: width, Floats: slices.Clone(features)}
			record := rows.Record(memory.DefaultAllocator)
			value, err := examples.Encode(record, memory.DefaultAllocator)
			record.Release()
			arrowtest.NoError(t, err)
			message = wire.Message{Value: value, Headers: []wire.Header{{Key: wire.HeaderTrace, Value: traceOf(i%partitions, int64(i/partitions))}}}
		}
		at := arrowtest.Must(all.client.Log.Append(t.Context(), "p.examples", i%partitions, message))(t)
		all.rows[[2]int64{int64(i % partitions), at}] = features
	}
	return all
}

// traceOf returns a trace for the message at an offset of a partition.
func traceOf(partition int, offset int64) string {
	return fmt.Sprintf("00-%032x-%016x-01", partition+1, offset+1)
}

// counted returns the predictions that count, and fails the test unless each row of the topic has one, by one of some models.
func (a *topic) counted(t *testing.T, models ...*model.Model) (all []*schemas.Prediction) {
	t.Helper()
	seen := map[[2]int64]int{}
	for n := range a.partitions {
		for p, err := range Read(t.Context(), a.client.Log, "p.predictions", n, nil) {
			arrowtest.NoError(t, err)
			if want := traceOf(n, p.Offset); p.Reason == "" && p.Trace != want {
				t.Errorf("%d@%d: trace %q, expected %q", n, p.Offset, p.Trace, want)
			}
			all = append(all, p)
			at := [2]int64{int64(n), p.Offset}
			features, known := a.rows[at]
			if p.Partition != n || p.Topic != "p.examples" || !known || p.Row != seen[at] {
				t.Fatalf("%+v, after %d rows", at, seen[at])
			}
			if seen[at] = p.Until; features == nil {
				if seen[at] = -1; p.Reason == "" || p.Until != 0 {
					t.Fatalf("offset %d of partition %d can't be used, and has %d predictions, reason %q", p.Offset, n, p.Until, p.Reason)
				}
				continue
			}
			by := slices.IndexFunc(models, func(m *model.Model) bool { return m.Manifest.Version == p.Version })
			if by < 0 || models[by].Manifest.Run != p.Run {
				t.Fatalf("version %d, run %s", p.Version, p.Run)
			}
			k, predictor := len(p.Labels), models[by].Predictor(kernel.Gonum())
			if (p.Contributions != nil) != (a.contributions > 0 && p.Until > p.Row) {
				t.Fatalf("row %d of offset %d has contributions %q", p.Row, p.Offset, p.Contributions)
			}
			for i, text := range p.Contributions {
				row := features[(p.Row+i)*width : (p.Row+i+1)*width]
				arrowtest.NoError(t, predictor.Contributions(&examples.Rows{Rows: 1, Cols: width, Floats: row}, a.contributions,
					func(_ int, want []model.Contributions) {
						if text != string(wire.JSON(want)) {
							t.Fatalf("row %d of offset %d: contributions %s, expected %v", p.Row+i, p.Offset, text, want)
						}
					}))
			}
			for i := range p.Classes {
				label, want := predictor.Predict(features[(p.Row+i)*width : (p.Row+i+1)*width])
				for c, v := range want {
					if math.Abs(float64(v-p.Probabilities[i*k+c])) > 1e-6 {
						t.Fatalf("row %d of offset %d: class %d has %v, expected %v", p.Row+i, p.Offset, c, p.Probabilities[i*k+c], v)
					}
				}
				if p.Labels[p.Classes[i]] != label {
					t.Fatalf("row %d of offset %d: label %s, expected %s", p.Row+i, p.Offset, p.Labels[p.Classes[i]], label)
				}
			}
		}
	}
	for at, features := range a.rows {
		if want := len(features) / width; features != nil && seen[at] != want || features == nil && seen[at] != -1 {
			t.Fatalf("%d rows of offset %d of partition %d have predictions, expected %d", seen[at], at[1], at[0], want)
		}
	}
	return all
}

// listener calls a function with each event.
type listener func(event.Event)

func (l listener) Record(e event.Event) { l(e) }

func (a *topic) run(ctx context.Context, untilEnd bool, m *model.Model, rec event.Recorder) error {
	o := Options{From: "p.examples", To: "p.predictions", UntilEnd: untilEnd, Contributions: a.contributions}
	return Run(ctx, a.client, o, Fixed(m), protocol.NewSoleOwner(a.partitions), kernel.Gonum(), rec)
}

// sizes are numbers of rows of which some take several messages of predictions of 3000 or 5000 classes.
var sizes = []int{1, 63, 64, 65, 130, -1, 7, 0, 200, 3, 65, 2, 90, -1, 64, 1, 1, 150, 5, 63}

func TestEachMessageHasPredictions(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		a, m := newTopic(t, partitions, sizes...), newModel(t, 4, 3)
		a.contributions = partitions - 1
		var rows int64
		var messages, bad int
		rec := listener(func(e event.Event) {
			if e, ok := e.(event.Scored); ok {
				rows, messages, bad = rows+e.Rows, messages+e.Messages, bad+e.Bad
			}
		})
		for range 2 { // there is nothing to do the second time
			arrowtest.NoError(t, a.run(t.Context(), true, m, rec))
		}
		a.counted(t, m)
		if messages != len(sizes) || bad != 2 || rows != 974 {
			t.Errorf("%d messages, %d bad, %d rows", messages, bad, rows)
		}
	}
}

// However often scorers end, of which several have the same partitions and versions of their own, each row has one prediction that counts.
func TestEndedScorers(t *testing.T) {
	models := []*model.Model{newModel(t, 1, 1500), newModel(t, 2, 2500)}
	for seed := range uint64(2) {
		a := newTopic(t, 2, sizes...)
		var running sync.WaitGroup
		for i := range 2 {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			running.Go(func() {
				for range 8 {
					ctx, cancel := context.WithCancel(t.Context())
					left := 1 + random.IntN(3)
					err := a.run(ctx, true, models[random.IntN(2)], listener(func(e event.Event) {
						if _, ok := e.(event.Scored); ok {
							if left--; left == 0 {
								cancel()
							}
						}
					}))
					cancel()
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			})
		}
		running.Wait()
		arrowtest.NoError(t, a.run(t.Context(), true, models[0], event.Ignore{}))
		a.counted(t, models...)
	}
}

// A service makes predictions for what comes.
func TestMessagesThatCome(t *testing.T) {
	a, m := newTopic(t, 1, 2, 3), newModel(t, 1, 3)
	ctx, cancel := context.WithCancel(t.Context())
	scored, ended := make(chan event.Scored, 9), make(chan error, 1)
	go func() {
		ended <- a.run(ctx, false, m, listener(func(e event.Event) {
			if e, ok := e.(event.Scored); ok {
				scored <- e
			}
		}))
	}()
	for messages := 0; messages < 3; {
		e := <-scored
		if messages += e.Messages; messages == 2 {
			arrowtest.Must(a.client.Log.Append(t.Context(), "p.examples", 0, wire.Message{Value: []byte("bad")}))(t)
			a.rows[[2]int64{0, 2}] = nil
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	a.counted(t, m)
}

// Predictions of another topic, or of one that was made anew, are not gone on with.
func TestOtherTopics(t *testing.T) {
	m := newModel(t, 1, 3)
	for want, last := range map[string]schemas.Prediction{
		"p.predictions[0] does not have predictions of p.examples: the last one is of visits[0]": {Topic: "visits"},
		"the last one is of offset 2, and p.examples[0] ends at 2: it was recreated":             {Topic: "p.examples", Offset: 2, After: 2},
		"the last one is of another message at offset 1: the topic was recreated":                {Topic: "p.examples", Offset: 1, Checksum: "x"},
	} {
		a := newTopic(t, 1, 2, 3)
		last.Labels = []string{"a"}
		message := arrowtest.Must(last.Encode(memory.DefaultAllocator))(t)
		arrowtest.Must(a.client.Log.Append(t.Context(), "p.predictions", 0, message))(t)
		if err := a.run(t.Context(), true, m, event.Ignore{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %s", err, want)
		}
	}
	few := newTopic(t, 2, 1)
	arrowtest.NoError(t, few.Create(t.Context(), kafkalog.Topic{Name: "few", Partitions: 1}))
	err := Run(t.Context(), few.client, Options{From: "p.examples", To: "few"}, Fixed(m), protocol.NewSoleOwner(2), kernel.Gonum(),
		event.Ignore{})
	if want := "few has 1 partitions, p.examples has 2: add partitions"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected %s", err, want)
	}
}
