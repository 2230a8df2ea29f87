package worker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"go.uber.org/goleak"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// memoryLog is a Log in memory. It can't be followed.
type memoryLog struct {
	mutex      sync.Mutex
	partitions map[topicPartition][]wire.Message
	first      map[topicPartition]int64 // offsets before it are deleted
}

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int
}

func (*memoryLog) DeleteBefore(context.Context, string, int, int64) error { panic("not called") }

func (l *memoryLog) Append(_ context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	p := topicPartition{topic, partition}
	base := len(l.partitions[p])
	l.partitions[p] = append(l.partitions[p], messages...)
	return int64(base), nil
}

func (l *memoryLog) Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) (offsets []int64, err error) {
	base, err := l.Append(ctx, topic, partition, messages...)
	for i := range messages {
		offsets = append(offsets, base+int64(i))
	}
	return offsets, err
}

func (l *memoryLog) Bounds(_ context.Context, topic string, partition int) (first, end int64, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	p := topicPartition{topic, partition}
	return l.first[p], int64(len(l.partitions[p])), nil
}

func (l *memoryLog) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	first, end, err := l.Bounds(ctx, topic, 0)
	return []coverage.Span{{From: first, To: end}}, err
}

func (l *memoryLog) Before(context.Context, string, time.Duration) ([]int64, error) {
	return []int64{0}, nil
}

func (l *memoryLog) Partitions(context.Context, string) (int, error) { return 1, nil }

func (l *memoryLog) Range(_ context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	return func(yield func(protocol.Message, error) bool) {
		for ; from < to; from++ {
			m, err := l.at(topicPartition{topic, partition}, from)
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// at returns the message at an offset.
func (l *memoryLog) at(p topicPartition, offset int64) (m protocol.Message, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if first := l.first[p]; offset < first {
		return m, &kafkalog.DeletedError{Topic: p.topic, Partition: p.partition, Wanted: offset, First: first}
	}
	return protocol.Message{Message: l.partitions[p][offset], Offset: offset}, nil
}

func (l *memoryLog) Subscribe(context.Context, <-chan struct{}, ...protocol.Position) protocol.Subscription {
	panic("a memoryLog can't be followed")
}

const (
	testPartitions = 2
	testMessages   = 5 // of each partition
	testRows       = 7 // of each message
	testClasses    = 3
)

// finalWeights writes examples and the weights of a run of three stages, with three links, to the topics of a new log, and
// returns the run's plan and a client of the log.
func finalWeights(t *testing.T) (*schemas.Plan, *protocol.Client) {
	t.Helper()
	log := &memoryLog{partitions: map[topicPartition][]wire.Message{}, first: map[topicPartition]int64{}}
	client := &protocol.Client{Log: log, Topics: protocol.TopicsOf("test"), Memory: memory.DefaultAllocator}
	attempt := 0
	client.Fresh = func() string { attempt++; return fmt.Sprint("attempt ", attempt) }
	plan := &schemas.Plan{
		Name: "test", Foreign: true, Missing: "error", Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Segment: 2, Seed: 1,
		Since: schemas.Since{Statistics: []int64{0}},
	}
	for _, l := range []schemas.Link{link.Softmax, link.Calibrated, link.Identity} {
		stage := solve.Defaults()
		stage.Features, stage.Link = stages.DefaultsOf("columns"), l
		plan.Stages = append(plan.Stages, stage)
	}
	random := rand.New(rand.NewPCG(1, 1))
	draw := func(n int) []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		return values
	}
	covered := make([]coverage.Coverage, testPartitions)
	for n := range covered {
		span := coverage.Span{Partition: n, To: testMessages}
		plan.Spans, covered[n].Spans = append(plan.Spans, span), coverage.Spans{span}
		for offset := range int64(testMessages) {
			rows := examples.Rows{Rows: testRows, Cols: 2, Floats: draw(2 * testRows)}
			for range testRows {
				rows.Words = append(rows.Words, string('a'+rune(random.IntN(testClasses))))
			}
			record := rows.Record(memory.DefaultAllocator)
			value, err := examples.Encode(record, memory.DefaultAllocator)
			record.Release()
			assert.NoError(t, err)
			m := protocol.Message{Offset: offset, Message: wire.Message{Value: value}}
			covered[n].Count(testRows, visit.Checksum(m, n, testRows))
			assert.Must(client.Log.Append(t.Context(), client.Topics.Examples, n, m.Message))(t)
		}
	}
	parent := plan.Digest()
	publish := func(r *wire.Record[float32]) {
		assert.Must(protocol.WriteRecord(t.Context(), client, client.Topics.Weights, 0, r))(t)
		parent = r.Digest()
	}
	survey := statistics.SurveyResult{
		Identity: wire.Identity{Kind: statistics.KindPrepare, Run: plan.Run(), Stage: wire.Survey, Parent: parent},
		Covered:  covered,
		Preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, []float32{0, 0}), wire.Vector(statistics.TensorScale, []float32{1, 1}),
			wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b", "c"}),
		},
	}
	survey.Rows[examples.Train] = testPartitions * testMessages * testRows
	publish(wire.RecordOf[float32](&survey))
	for stage := range 2 {
		w := schemas.Weights{
			Identity: wire.Identity{Kind: schemas.KindWeights, Run: plan.Run(), Stage: stage, Visit: 1, Parent: parent},
			Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 2, testClasses, draw(2*testClasses))},
			Final:    &schemas.Final{},
		}
		if plan.Stages[stage].Link == link.Calibrated {
			w.Final.Passes = 1
			w.Tensors = append(w.Tensors, wire.Matrix(statistics.TensorCalibration, 3*testClasses, testClasses, draw(3*testClasses*testClasses)))
		}
		publish(wire.RecordOf[float32](&w))
	}
	return plan, client
}

// newTestWorker returns a worker that has read the weights of its run and owns all partitions.
func newTestWorker(t *testing.T, plan *schemas.Plan, client *protocol.Client, bytes int64) *Worker {
	t.Helper()
	w := New(client, kernel.Gonum(), plan, protocol.NewSoleOwner(testPartitions), Options{Cache: visit.NewRunCache(bytes)}, nil)
	assert.Must(w.chain.Read(t.Context(), client))(t)
	assert.NoError(t, w.adopt(t.Context()))
	return w
}

// scoresBeforeStage2 returns the scores of all rows before stage 2, from memory, or as read by a scan.
func scoresBeforeStage2(t *testing.T, w *Worker) (all []float32) {
	t.Helper()
	of := map[*visit.Share][]float32{}
	assert.NoError(t, w.executor.Run(t.Context(), &visit.Scan{
		Run: w.Run, Shares: w.shares, Scores: w.scoresBefore(2), Extent: recent,
		Processor: func() visit.Process {
			return func(context.Context, *visit.Load) (*visit.Outcome, error) { return nil, nil }
		},
		Collect: func(l *visit.Load, _ *visit.Outcome) (visit.Write, error) {
			for _, b := range l.Segment().Batches {
				of[l.Share] = append(of[l.Share], b.Score.Data...)
			}
			for _, score := range l.Scores {
				of[l.Share] = append(of[l.Share], score.Data...)
			}
			return nil, nil
		},
	}))
	for _, p := range w.shares {
		all = append(all, of[p]...)
	}
	return all
}

// Residuals that turn out to be wrong while their scores are read have no lasting effect: the republished residuals, and the initial scores
// of the next stage, are identical to the first ones. This does not depend on the error, or on what is in memory.
func TestWrongResidualsLeaveNothingBehind(t *testing.T) {
	plan, client := finalWeights(t)
	first := newTestWorker(t, plan, client, 1<<30)
	assert.NoError(t, first.loadScores(t.Context(), 2, first.shares)) // publishes stages 0 and 1
	want := scoresBeforeStage2(t, first)
	assert.Need(t, len(want) == testPartitions*testMessages*testRows*testClasses, "%d scores", len(want))
	// residuals returns a partition's residuals of a stage on the log.
	log, topic := client.Log.(*memoryLog), client.Topics.Residuals
	residuals := func(number, stage int) (of []*wire.Message) {
		for i := range log.partitions[topicPartition{topic, number}] {
			m := &log.partitions[topicPartition{topic, number}][i]
			if r, err := schemas.ResidualsHeader(*m); err == nil && r.Stage == stage {
				of = append(of, m)
			}
		}
		return of
	}
	for name, damage := range map[string]func(w *Worker, number int){
		"nothing":                 func(*Worker, int) {},
		"the digest of the seals": func(w *Worker, number int) { w.seals.of(number, 1).Parts[0].Scores = "wrong" },
		"the rows of the seals":   func(w *Worker, number int) { w.seals.of(number, 1).Parts[0].Rows-- },
		"seals that end early":    func(w *Worker, number int) { w.seals.of(number, 1).Parts[0].To -= 2 },
		"another score in the last message": func(w *Worker, number int) {
			m := residuals(number, 1)[testMessages-1]
			r := assert.Must(schemas.DecodeResiduals(*m, testClasses, client.Memory))(t)
			r.Score[0]++
			*m = assert.Must(r.Encode(memory.DefaultAllocator))(t)
		},
		"a message that can't be decoded": func(w *Worker, number int) { residuals(number, 1)[1].Value = []byte("none") },
		"deleted messages": func(w *Worker, number int) {
			log.first[topicPartition{topic, number}] = w.seals.of(number, 1).Parts[0].From + 1
		},
		"both stages": func(w *Worker, number int) {
			w.seals.of(number, 0).Parts[0].Scores, w.seals.of(number, 1).Parts[0].Scores = "wrong", "wrong"
		},
		"no seals": func(w *Worker, number int) {
			w.seals.Delete(sealed{number, 0})
			w.seals.Delete(sealed{number, 1})
		},
	} {
		for _, bytes := range []int64{0, 600, 1 << 30} { // nothing, one segment or two, and everything in memory
			saved := map[topicPartition][]wire.Message{}
			for p, messages := range log.partitions {
				saved[p] = slices.Clone(messages)
			}
			w := newTestWorker(t, plan, client, bytes)
			assert.NoError(t, w.visit(t.Context(), w.chain.Visits(1)[0], w.shares)) // loads batches into memory
			damage(w, 1)
			if err := w.withScores(t.Context(), 2, w.shares, func() error { return nil }); err != nil {
				t.Errorf("%s, %d bytes: %v", name, bytes, err)
				continue
			}
			for _, p := range w.shares {
				number := w.first(p)
				got, before := w.seals.of(number, 1), first.seals.of(number, 1)
				assert.True(t, got.Parts[0].Scores == before.Parts[0].Scores && got.Parts[0].Rows == before.Parts[0].Rows &&
					got.Covered.Checksum == before.Covered.Checksum, "%s, %d bytes: partition %d has %+v, first %+v", name, bytes, number, got, before)
				assert.Equal(t, got.Attempt != before.Attempt, name != "nothing" && number == 1,
					"%s, %d bytes: partition %d is published again", name, bytes, number)
				assert.Equal(t, p.Scores, 2, "%s, %d bytes: the stages in the scores of partition %d", name, bytes, number)
			}
			assert.True(t, slices.Equal(scoresBeforeStage2(t, w), want), "%s, %d bytes: stage 2 begins at other scores", name, bytes)
			log.partitions, log.first = saved, map[topicPartition]int64{}
		}
	}
}

// The seal of a partition without rows covers no residuals, so it stays valid after retention.
func TestSealOfNoResiduals(t *testing.T) {
	plan, client := finalWeights(t)
	w := newTestWorker(t, plan, client, 0)
	p, log := w.shares[0], client.Log.(*memoryLog)
	at := topicPartition{client.Topics.Residuals, w.first(p)}
	log.partitions[at], log.first[at] = make([]wire.Message, 7), 3 // of other runs
	_, parent := w.chain.Final(1)
	assert.NoError(t, w.seal(t.Context(), p, w.openSeal(protocol.Visit{Stage: 1, Parent: parent}, p, "attempt"), &accumulate.Sum{}))
	err := w.scoresBefore(2).Restore(t.Context(), p)
	assert.True(t, err == nil, "%v, expected no residuals", err)
}

// Repeated deletion of residuals ends the run, after a few repetitions.
func TestResidualsThatVanishAgainAndAgain(t *testing.T) {
	plan, client := finalWeights(t)
	w := newTestWorker(t, plan, client, 0)
	times := 0
	err := w.withScores(t.Context(), 1, w.shares, func() error {
		times++
		return fmt.Errorf("read residuals: %w", visit.ErrUnsealed)
	})
	assert.True(t, errors.Is(err, visit.ErrUnsealed) && times == maxRepetitions+1, "%d times, %v", times, err)
	other := errors.New("other")
	times = 0
	err = w.withScores(t.Context(), 1, w.shares, func() error { times++; return other })
	assert.True(t, err == other && times == 1, "another error: %d times, %v", times, err)
}

// No goroutine is left when the tests are done.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
