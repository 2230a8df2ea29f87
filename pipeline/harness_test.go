package pipeline

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// openEmbedded opens an embedded broker with an empty log, for one test.
func openEmbedded(t testing.TB) *kafkalog.Log {
	t.Helper()
	return openAt(t, t.TempDir())
}

// openAt opens an embedded broker on a directory. Other connections reach it too: see connect.
func openAt(t testing.TB, dir string) *kafkalog.Log {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: dir, Listen: "127.0.0.1:0"}))(t)
	closeAfter(t, log)
	return log
}

// openAlone opens an embedded broker that no other process can reach: what no longer counts is removed at once.
func openAlone(t *testing.T) *kafkalog.Log {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	closeAfter(t, log)
	return log
}

// connect opens another connection to an embedded broker, as another process has one.
func connect(t *testing.T, log *kafkalog.Log) *kafkalog.Log {
	t.Helper()
	other := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: log.Addr()}))(t)
	closeAfter(t, other)
	return other
}

func closeAfter(t testing.TB, log *kafkalog.Log) {
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
}

func openBLAS(t testing.TB) *kernel.BLAS {
	t.Helper()
	return assert.Must(kernel.Open(os.Getenv("STAGEWISE_BLAS")))(t)
}

// table is examples in memory.
type table struct {
	rows    [][]float32
	labels  []string
	weights []float32 // nil: every row weighs 1
}

// rings returns classes that no linear function of the features separates. In the first two features, class c is a circle of
// radius 1 + c around the origin; the other features are noise.
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

// writeCSV writes the table to a file: the label, the weight if there are weights, and the features.
func (d table) writeCSV(t testing.TB, dir, name string) string {
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
	assert.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// exampleRows returns the table, without weights, as rows of a message.
func (d table) exampleRows() examples.Rows {
	rows := examples.Rows{Rows: len(d.rows), Cols: len(d.rows[0]), Words: d.labels}
	for _, row := range d.rows {
		rows.Floats = append(rows.Floats, row...)
	}
	return rows
}

// exampleMessage encodes rows as an examples message of another producer.
func exampleMessage(t *testing.T, rows examples.Rows) kafkalog.Message {
	t.Helper()
	mem := assert.Allocator(t)
	record := rows.Record(mem)
	defer record.Release()
	return kafkalog.Message{Value: assert.Must(examples.Encode(record, mem))(t)}
}

// newJob returns a small job that trains on one table, and tests on another unless that is empty.
func newJob(t testing.TB, train, test table, list ...schemas.Stage) topics.Job {
	t.Helper()
	dir, options := t.TempDir(), ingest.Defaults()
	options.Train, options.BatchRows = []string{train.writeCSV(t, dir, "train.csv")}, 64
	if len(test.rows) > 0 {
		options.Test = []string{test.writeCSV(t, dir, "test.csv")}
	}
	if train.weights != nil {
		options.Weight = "1"
	}
	return topics.Job{
		Name: "test", Examples: options, Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Stages: list,
		Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 2, Memory: 1 << 30,
		Group: 1, // work for several workers
	}
}

// newMultiStageJob returns a job of four stages, with every link, over four partitions.
func newMultiStageJob(t *testing.T) topics.Job {
	return newJob(t, rings(400, 3, 3, 1), rings(50, 3, 3, 2),
		rffStage(link.Softmax, 20, 3), rffStage(link.Calibrated, 20, 2), rffStage(link.Identity, 20, 1), rffStage(link.Softmax, 8, 2))
}

// newForeignJob returns a job without files, over one partition that other producers write to.
func newForeignJob(t *testing.T, list ...schemas.Stage) topics.Job {
	t.Helper()
	job := newJob(t, rings(1, 4, 3, 1), table{}, list...)
	job.Examples.Train, job.Examples.Partitions = nil, 1
	return job
}

// newStreamJob is newForeignJob for a chain of so many rows an update, without full runs after the first.
func newStreamJob(t *testing.T, rows int64, list ...schemas.Stage) topics.Job {
	t.Helper()
	job := newForeignJob(t, list...)
	job.Keep, job.Retrain = 1000, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = rows, topics.FullOptions{}
	return job
}

// rffStage returns a stage of random Fourier features.
func rffStage(l schemas.Link, size, passes int) schemas.Stage {
	s := solve.Defaults()
	s.Features = stages.Defaults()
	s.Features.Size, s.Features.BandwidthScale = size, 0.5
	s.Link, s.Passes = l, passes
	return s
}

// ignore is a recorder for which notices are formatted, unlike nil.
func ignore(event.Event) {}

// eventRecorder keeps all events, and calls on, if it is set, with each.
type eventRecorder struct {
	mutex  sync.Mutex
	events []event.Event
	on     func(event.Event)
}

func (r *eventRecorder) Record(e event.Event) {
	r.mutex.Lock()
	r.events = append(r.events, e)
	on := r.on
	r.mutex.Unlock()
	if on != nil {
		on(e)
	}
}

// eventsOf returns the recorded events of one type, in order.
func eventsOf[E event.Event](r *eventRecorder) (found []E) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// train runs a job to its end.
func train(t *testing.T, log *kafkalog.Log, job topics.Job) (*schemas.Report, *model.Model) {
	t.Helper()
	return trainRecorded(t, log, job, ignore)
}

// trainRecorded runs a job to its end, and records its events.
func trainRecorded(t *testing.T, log *kafkalog.Log, job topics.Job, rec event.Recorder) (*schemas.Report, *model.Model) {
	t.Helper()
	report, model, err := Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{Allocator: assert.Allocator(t)}, rec)
	assert.NoError(t, err)
	return report, model
}

// trainError runs a job that must fail, and returns its error.
func trainError(t *testing.T, log *kafkalog.Log, job topics.Job) error {
	t.Helper()
	report, _, err := Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{Allocator: assert.Allocator(t)}, ignore)
	assert.Need(t, err != nil, "the run is done with report %+v, expected an error", report)
	return err
}

// trainUntil runs a job, and interrupts it at the first event for which stop returns true.
func trainUntil(t *testing.T, log *kafkalog.Log, job topics.Job, stop func(event.Event) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, _, err := Train(ctx, log, openBLAS(t), job, dispatch.TrainOptions{Allocator: assert.Allocator(t)},
		func(e event.Event) {
			if stop(e) {
				cancel()
			}
		})
	assert.Fails(t, err, context.Canceled)
}

// trainUntilOn is trainUntil on an embedded broker of its own in dir, which it stops. So nothing comes late: a broker may apply a write
// after the process that made it has been interrupted, and has gone.
func trainUntilOn(t *testing.T, dir string, job topics.Job, stop func(event.Event) bool) {
	t.Helper()
	log := openAt(t, dir)
	trainUntil(t, log, job, stop)
	assert.NoError(t, log.Close())
}

// submitJob ingests a job's files, and writes its plan, which may be that of a trigger, to the plans topic.
func submitJob(t *testing.T, log *kafkalog.Log, job topics.Job, rec event.Recorder, trigger bool) (*topics.Pipeline, *schemas.Plan) {
	t.Helper()
	p := topics.Open(log, job.Name, assert.Allocator(t))
	assert.NoError(t, topics.Create(t.Context(), p, &job))
	files := assert.Must(source.IngestFiles(t.Context(), p, job, rec))(t)
	l := assert.Must(p.ReadLedger(t.Context()))(t)
	plan, err := dispatch.Plan(t.Context(), p, job, dispatch.Arithmetic(openBLAS(t)), files.Seals, l, topics.ExamplesRetention{})
	assert.NoError(t, err)
	plan.Trigger = trigger
	plan, _, err = dispatch.Enqueue(t.Context(), p, plan, l, false, rec)
	assert.NoError(t, err)
	return p, plan
}

// readLedger returns the ledger of the plans topic as it is now.
func readLedger(t *testing.T, p *topics.Pipeline) *protocol.Ledger {
	t.Helper()
	return assert.Must(p.ReadLedger(t.Context()))(t)
}

// newSoleMembers returns a worker and a solver that own all partitions.
func newSoleMembers(t *testing.T, p *topics.Pipeline, job topics.Job, rec event.Recorder) *dispatch.Members {
	t.Helper()
	return &dispatch.Members{Pipeline: p, Process: dispatch.NewProcess(openBLAS(t)), Cache: visit.NewRunCache(job.Memory), Recorder: rec,
		Works: protocol.NewSoleOwner(job.Examples.Partitions), Solves: protocol.NewSoleOwner(1), JoinWorkers: func() {},
		LeaveWorkers: func() {}, Leave: func() {}}
}

// produce appends messages to a partition of the examples topic, as another producer does.
func produce(t *testing.T, log *kafkalog.Log, job topics.Job, partition int, messages ...kafkalog.Message) {
	t.Helper()
	assert.NoError(t, log.Create(t.Context(), topics.Topics(job)...))
	assert.Must(log.Append(t.Context(), protocol.TopicsOf(job.Name).Examples, partition, messages...))(t)
}

// readTopic returns all messages of a topic, partition by partition.
func readTopic(t *testing.T, log *kafkalog.Log, topic string) (messages []kafkalog.Message) {
	t.Helper()
	partitions := assert.Must(log.Partitions(t.Context(), topic))(t)
	for p := range partitions {
		first, end, err := log.Bounds(t.Context(), topic, p)
		assert.NoError(t, err)
		for m, err := range log.Range(t.Context(), topic, p, first, end) {
			assert.NoError(t, err)
			messages = append(messages, m)
		}
	}
	return messages
}

// live returns the messages of a topic that compaction does not remove, by their keys.
func live(t *testing.T, log *kafkalog.Log, topic string) map[string]kafkalog.Message {
	t.Helper()
	last := map[string]kafkalog.Message{}
	for _, m := range readTopic(t, log, topic) {
		last[string(m.Key)] = m
	}
	maps.DeleteFunc(last, func(_ string, m kafkalog.Message) bool { return m.Value == nil })
	return last
}

// probabilities returns the probabilities that a model predicts for a table, a row each.
func probabilities(t testing.TB, m *model.Model, data table) kernel.Dense {
	t.Helper()
	return predict(openBLAS(t), m, data)
}

func predict(blas *kernel.BLAS, m *model.Model, data table) kernel.Dense {
	x := kernel.NewDense(len(data.rows), m.Width())
	for i, row := range data.rows {
		copy(x.Row(i), row)
	}
	rows := &examples.Rows{Rows: x.Rows, Cols: x.Cols, Floats: x.Data}
	return kernel.Dense{Rows: x.Rows, Cols: len(m.Labels()), Data: m.Predictor(blas).Probabilities(rows)}
}

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// header returns the value of a message's first header with the key, or "".
func header(m kafkalog.Message, key string) string { return protocol.FromKafka(m).Get(key) }

// long skips a long test with -short: shorter tests start the same goroutines.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test")
	}
}

// deleteRecords deletes the messages of a partition before an offset, as retention does.
func deleteRecords(t *testing.T, log *kafkalog.Log, topic string, partition int32, before int64) {
	t.Helper()
	assert.NoError(t, log.DeleteBefore(t.Context(), topic, int(partition), before))
}

// TestMain fails if a goroutine is left when all tests have ended. STAGEWISE_VECTOR chooses the vector instructions of
// all tests, as it does for the program: `make test` has those of the machine.
func TestMain(m *testing.M) {
	if err := kernel.UseVector(os.Getenv("STAGEWISE_VECTOR")); err != nil {
		fmt.Fprintln(os.Stderr, "STAGEWISE_VECTOR:", err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}
