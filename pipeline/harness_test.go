package pipeline

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// openEmbedded is a log of its own for one test.
func openEmbedded(t testing.TB) *kafkalog.Log {
	t.Helper()
	return openAt(t, t.TempDir())
}

func openAt(t testing.TB, dir string) *kafkalog.Log {
	t.Helper()
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func openBLAS(t testing.TB) *kernel.BLAS {
	t.Helper()
	blas, err := kernel.Open(os.Getenv("STAGEWISE_BLAS"))
	if err != nil {
		t.Fatal(err)
	}
	return blas
}

// table is examples in memory: what a test writes into files.
type table struct {
	rows    [][]float32
	labels  []string
	weights []float32 // nil: none
}

// rings are classes that no linear function of two features tells apart:
// circles around the origin, class c of radius 1 + c, in so many features.
func rings(rows, features, classes int, seed uint64) table {
	random, data := rand.New(rand.NewPCG(seed, 1)), table{}
	for range rows {
		class := random.IntN(classes)
		row := make([]float32, features)
		angle, radius := random.Float64()*2*math.Pi, 1+float64(class)+0.15*random.NormFloat64()
		row[0], row[1] = float32(radius*math.Cos(angle)), float32(radius*math.Sin(angle))
		for j := 2; j < features; j++ {
			row[j] = float32(0.3 * random.NormFloat64())
		}
		data.rows, data.labels = append(data.rows, row), append(data.labels, fmt.Sprint("ring", class))
	}
	return data
}

// csv writes the table, label first, then the weight if there is one.
func (d table) csv(t testing.TB, dir, name string) string {
	t.Helper()
	var text strings.Builder
	for i, row := range d.rows {
		text.WriteString(d.labels[i])
		if d.weights != nil {
			fmt.Fprintf(&text, ",%g", d.weights[i])
		}
		for _, v := range row {
			fmt.Fprintf(&text, ",%g", v)
		}
		text.WriteByte('\n')
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// jobOn is a small job over the files of two tables.
func jobOn(t testing.TB, train, test table, list ...schemas.Stage) Job {
	t.Helper()
	dir, options := t.TempDir(), ingest.Defaults()
	options.Train, options.BatchRows = []string{train.csv(t, dir, "train.csv")}, 64
	if len(test.rows) > 0 {
		options.Test = []string{test.csv(t, dir, "test.csv")}
	}
	if train.weights != nil {
		options.Weight = "1"
	}
	return Job{
		Name: "test", Examples: options, Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Stages: list,
		Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 2, Memory: 1 << 30,
	}
}

// stage is one of random Fourier features.
func stage(l schemas.Link, size, passes int) schemas.Stage {
	s := solve.Defaults()
	s.Features = stages.Defaults()
	s.Features.Size, s.Features.BandwidthScale = size, 0.5
	s.Link, s.Passes = l, passes
	return s
}

// events is a recorder that keeps everything, and may act on it.
type events struct {
	mutex sync.Mutex
	all   []event.Event
	on    func(event.Event)
}

func (e *events) Record(event event.Event) {
	e.mutex.Lock()
	e.all = append(e.all, event)
	on := e.on
	e.mutex.Unlock()
	if on != nil {
		on(event)
	}
}

// of are the events of one type, in order.
func of[E event.Event](e *events) (found []E) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, event := range e.all {
		if event, ok := event.(E); ok {
			found = append(found, event)
		}
	}
	return found
}

// train runs the job to its end.
func train(t *testing.T, log *kafkalog.Log, job Job) (*schemas.Report, *model.Model) {
	t.Helper()
	report, model, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{})
	if err != nil {
		t.Fatal(err)
	}
	return report, model
}

// aloneOn is a worker and a solver that own everything.
func aloneOn(t *testing.T, d *pipeline, job Job, rec event.Recorder) *members {
	t.Helper()
	return &members{pipeline: d, blas: openBLAS(t), bytes: job.Memory, rec: rec, works: run.NewAlone(job.Examples.Partitions), solves: run.NewAlone(1), leave: func() {}}
}

// failing runs a job that has to fail, and answers with its error.
func failing(t *testing.T, log *kafkalog.Log, job Job) error {
	t.Helper()
	report, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{})
	if err == nil {
		t.Fatalf("the run is done: %+v", report)
	}
	return err
}

// accept appends messages of another producer to a partition of examples.
func accept(t *testing.T, log *kafkalog.Log, job Job, partition int, messages ...kafkalog.Message) {
	t.Helper()
	if err := log.Create(t.Context(), Topics(job)...); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), run.TopicsOf(job.Name).Examples, partition, messages...); err != nil {
		t.Fatal(err)
	}
}

// header returns the value of a message's first header with the key, or "".
func header(m kafkalog.Message, key string) string { return run.FromKafka(m).Get(key) }

// read is all messages that a topic has.
func read(t *testing.T, log *kafkalog.Log, topic string) (messages []kafkalog.Message) {
	t.Helper()
	partitions, err := log.Partitions(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		first, end, err := log.Bounds(t.Context(), topic, p)
		if err != nil {
			t.Fatal(err)
		}
		r := log.Range(topic, p, first, end)
		for {
			m, err := r.Next(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, m)
		}
		r.Close()
	}
	return messages
}

// probabilities of a table's rows.
func probabilities(t testing.TB, m *model.Model, data table) kernel.Dense {
	t.Helper()
	x := kernel.NewDense(len(data.rows), m.Width())
	for i, row := range data.rows {
		copy(x.Row(i), row)
	}
	return m.Predictor(openBLAS(t)).Probabilities(x)
}

func cancelled(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(t.Context())
}

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)
