package score

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
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
	plan := &schemas.Plan{Name: "p", Segment: 16, Missing: layout.MissingError, Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Seed: 3,
		Stages: []schemas.Stage{{Features: features, Link: link.Softmax}}}
	manifest := &schemas.Manifest{Name: "p", Version: version, Run: fmt.Sprint("run", version), Plan: plan, Labels: labels,
		Blocks: []schemas.BlockDigest{{}}}
	m := assert.Must(model.New(manifest, wire.Tensors[float32]{
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
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	for _, name := range []string{"p.examples", "p.predictions"} {
		assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: name, Partitions: partitions}))
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
			assert.NoError(t, err)
			message = wire.Message{Value: value, Headers: []wire.Header{{Key: wire.HeaderTrace, Value: traceOf(i%partitions, int64(i/partitions))}}}
		}
		at := assert.Must(all.client.Log.Append(t.Context(), "p.examples", i%partitions, message))(t)
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
			assert.NoError(t, err)
			want := traceOf(n, p.Offset)
			assert.True(t, p.Reason != "" || p.Trace == want, "%d@%d: trace %q, expected %q", n, p.Offset, p.Trace, want)
			all = append(all, p)
			at := [2]int64{int64(n), p.Offset}
			features, known := a.rows[at]
			assert.Need(t, p.Partition == n && p.Topic == "p.examples" && known && p.Row == seen[at], "%+v, after %d rows", at, seen[at])
			if seen[at] = p.Until; features == nil {
				seen[at] = -1
				assert.Need(t, p.Reason != "" && p.Until == 0, "offset %d of partition %d: %d predictions, reason %q", p.Offset, n, p.Until, p.Reason)
				continue
			}
			by := slices.IndexFunc(models, func(m *model.Model) bool { return m.Manifest.Version == p.Version })
			assert.Need(t, by >= 0 && models[by].Manifest.Run == p.Run, "version %d, run %s", p.Version, p.Run)
			k, predictor := len(p.Labels), models[by].Predictor(nil)
			assert.Need(t, (p.Contributions != nil) == (a.contributions > 0 && p.Until > p.Row),
				"row %d of offset %d has contributions %q", p.Row, p.Offset, p.Contributions)
			for i, text := range p.Contributions {
				row := features[(p.Row+i)*width : (p.Row+i+1)*width]
				assert.NoError(t, predictor.Contributions(&examples.Rows{Rows: 1, Cols: width, Floats: row}, a.contributions,
					func(_ int, want []model.Contributions) {
						assert.Need(t, text == string(wire.JSON(want)), "row %d of offset %d: contributions %s, expected %v", p.Row+i, p.Offset, text, want)
					}))
			}
			for i := range p.Classes {
				label, want := predictor.Predict(features[(p.Row+i)*width : (p.Row+i+1)*width])
				for c, v := range want {
					assert.Near(t, float64(v), float64(p.Probabilities[i*k+c]), 1e-6, "row %d of offset %d: class %d", p.Row+i, p.Offset, c)
				}
				assert.Need(t, p.Labels[p.Classes[i]] == label,
					"row %d of offset %d: label %s, expected %s", p.Row+i, p.Offset, p.Labels[p.Classes[i]], label)
			}
		}
	}
	for at, features := range a.rows {
		assert.Need(t, features != nil && seen[at] == len(features)/width || features == nil && seen[at] == -1,
			"%d rows of offset %d of partition %d have predictions", seen[at], at[1], at[0])
	}
	return all
}

func (a *topic) run(ctx context.Context, untilEnd bool, m *model.Model, rec event.Recorder) error {
	o := Options{From: "p.examples", To: "p.predictions", UntilEnd: untilEnd, Contributions: a.contributions}
	return Run(ctx, a.client, o, Fixed(m), protocol.NewSoleOwner(a.partitions), rec)
}

// sizes are numbers of rows of which some take several messages of predictions of 3000 or 5000 classes.
var sizes = []int{1, 63, 64, 65, 130, -1, 7, 0, 200, 3, 65, 2, 90, -1, 64, 1, 1, 150, 5, 63}

func TestEachMessageHasPredictions(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		a, m := newTopic(t, partitions, sizes...), newModel(t, 4, 3)
		a.contributions = partitions - 1
		var rows int64
		var messages, bad int
		rec := func(e event.Event) {
			if e, ok := e.(event.Scored); ok {
				rows, messages, bad = rows+e.Rows, messages+e.Messages, bad+e.Bad
			}
		}
		for range 2 { // there is nothing to do the second time
			assert.NoError(t, a.run(t.Context(), true, m, rec))
		}
		a.counted(t, m)
		assert.True(t, messages == len(sizes) && bad == 2 && rows == 974, "%d messages, %d bad, %d rows", messages, bad, rows)
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
					err := a.run(ctx, true, models[random.IntN(2)], func(e event.Event) {
						if _, ok := e.(event.Scored); ok {
							if left--; left == 0 {
								cancel()
							}
						}
					})
					cancel()
					assert.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
				}
			})
		}
		running.Wait()
		assert.NoError(t, a.run(t.Context(), true, models[0], nil))
		a.counted(t, models...)
	}
}

// A service makes predictions for what comes.
func TestMessagesThatCome(t *testing.T) {
	a, m := newTopic(t, 1, 2, 3), newModel(t, 1, 3)
	ctx, cancel := context.WithCancel(t.Context())
	scored, ended := make(chan event.Scored, 9), make(chan error, 1)
	go func() {
		ended <- a.run(ctx, false, m, func(e event.Event) {
			if e, ok := e.(event.Scored); ok {
				scored <- e
			}
		})
	}()
	for messages := 0; messages < 3; {
		e := <-scored
		if messages += e.Messages; messages == 2 {
			assert.Must(a.client.Log.Append(t.Context(), "p.examples", 0, wire.Message{Value: []byte("bad")}))(t)
			a.rows[[2]int64{0, 2}] = nil
		}
	}
	cancel()
	assert.Fails(t, <-ended, context.Canceled)
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
		assert.Must(a.client.Log.Append(t.Context(), "p.predictions", 0, assert.Must(last.Encode(memory.DefaultAllocator))(t)))(t)
		assert.Fails(t, a.run(t.Context(), true, m, nil), want)
	}
	few := newTopic(t, 2, 1)
	assert.NoError(t, few.Create(t.Context(), kafkalog.Topic{Name: "few", Partitions: 1}))
	err := Run(t.Context(), few.client, Options{From: "p.examples", To: "few"}, Fixed(m), protocol.NewSoleOwner(2), nil)
	assert.Fails(t, err, "few has 1 partitions, p.examples has 2: add partitions")
}

// A message with forgotten rows gets no predictions, and the reason says why. Others get theirs.
func TestForgottenRowsHaveNoPredictions(t *testing.T) {
	a, m := newTopic(t, 1, 4, 5, 6, 7), newModel(t, 4, 3)
	o := Options{From: "p.examples", To: "p.predictions", UntilEnd: true, Forgotten: func(context.Context) (coverage.Forgotten, error) {
		return coverage.Forgotten{{Partition: 0, From: 1, To: 2}, {Partition: 0, From: 3, To: 4, First: 2, End: 3}}, nil
	}}
	assert.NoError(t, Run(t.Context(), a.client, o, Fixed(m), protocol.NewSoleOwner(1), nil))
	a.rows[[2]int64{0, 1}], a.rows[[2]int64{0, 3}] = nil, nil
	for _, p := range a.counted(t, m) {
		forgotten := p.Offset%2 == 1
		assert.True(t, forgotten == (p.Reason == "rows of the message were forgotten") && (!forgotten || len(p.Probabilities) == 0),
			"offset %d has %d probabilities, reason %q", p.Offset, len(p.Probabilities), p.Reason)
	}
}

// member is an owner whose partitions come and go.
type member struct {
	mu      sync.Mutex
	owned   []int
	changed chan struct{}
}

func newMember() *member { return &member{changed: make(chan struct{}, 1)} }

func (m *member) own(partitions []int) {
	m.mu.Lock()
	m.owned = partitions
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default: // it will look
	}
}

func (m *member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.owned)
}

func (m *member) Changed() <-chan struct{}              { return m.changed }
func (m *member) Commit(map[int]int64, func(err error)) {}
func (m *member) Err() error                            { return nil }

// Two processes whose partitions move with each write, and may be with both or none for a while, leave what one process leaves.
func TestPartitionsThatMove(t *testing.T) {
	m := newModel(t, 1, 3000)
	for seed := range uint64(3) {
		a := newTopic(t, 3, sizes...)
		random := rand.New(rand.NewPCG(seed, 2))
		var mu sync.Mutex // of random
		members := []*member{newMember(), newMember()}
		move := func() {
			mu.Lock()
			defer mu.Unlock()
			owned := make([][]int, len(members))
			for n := range a.partitions {
				for i := range members {
					if random.IntN(2) == 0 {
						owned[i] = append(owned[i], n)
					}
				}
			}
			for i := range members {
				members[i].own(owned[i])
			}
		}
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for _, owner := range members {
			rec := func(e event.Event) {
				switch e.(type) {
				case event.Scored, event.ScoringLag: // the second comes also while nobody owns anything
					move()
				}
			}
			running.Go(func() {
				err := Run(ctx, a.client, Options{From: "p.examples", To: "p.predictions", UntilEnd: true}, Fixed(m), owner, rec)
				assert.Fails(t, err, nil)
			})
		}
		running.Wait()
		cancel()
		a.counted(t, m)
	}
}

// growing is a log whose topics of examples get another partition after the first look.
type growing struct {
	protocol.Log
	looked bool
}

func (g *growing) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	spans, err := g.Log.Spans(ctx, topic)
	if g.looked {
		spans = append(spans, coverage.Span{Partition: len(spans)})
	}
	g.looked = true
	return spans, err
}

// A service ends if there is a partition that nobody would predict for. Who predicts until the end has nothing to do with it.
func TestPartitionsThatAreAdded(t *testing.T) {
	for _, untilEnd := range []bool{false, true} {
		a, m := newTopic(t, 2, 1, 2), newModel(t, 1, 3)
		a.client.Log = &growing{Log: a.client.Log}
		err := a.run(t.Context(), untilEnd, m, nil)
		if untilEnd {
			assert.Fails(t, err, nil)
			a.counted(t, m)
		} else {
			assert.Fails(t, err, "p.examples has 3 partitions, but had 2 when scoring began: restart score")
		}
	}
}

// unwritable is a log to which nothing can be written until the context ends.
type unwritable struct{ protocol.Log }

func (unwritable) Append(ctx context.Context, _ string, _ int, _ ...wire.Message) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// The lag is told of a process that can't write, too.
func TestLagOfWhoCannotWrite(t *testing.T) {
	a, m := newTopic(t, 1, 1, 2, 3), newModel(t, 1, 3)
	a.client.Log = unwritable{a.client.Log}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = a.run(ctx, false, m, func(e event.Event) { // it ends with the context
		if e, ok := e.(event.ScoringLag); ok && e.Offsets[0] == 3 {
			cancel()
		}
	})
}

// removed has a model until the version is removed.
type removed struct {
	mu      sync.Mutex
	model   *model.Model
	changed chan struct{}
}

func (r *removed) Model() *model.Model {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.model
}

func (r *removed) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *removed) put(m *model.Model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.model = m
	close(r.changed)
	r.changed = make(chan struct{})
}

// While there is no version, messages wait; those of all partitions get predictions by the next one.
func TestMessagesWaitForVersion(t *testing.T) {
	a, m := newTopic(t, 3, sizes...), newModel(t, 1, 3)
	versions := &removed{changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, watched, scored := make(chan error, 1), make(chan bool, 9), make(chan event.Scored, len(sizes))
	go func() {
		o := Options{From: "p.examples", To: "p.predictions"}
		ended <- Run(ctx, a.client, o, versions, protocol.NewSoleOwner(a.partitions), func(e event.Event) {
			switch e := e.(type) {
			case event.ScoringLag:
				select {
				case watched <- true:
				default:
				}
			case event.Scored:
				scored <- e
			}
		})
	}()
	<-watched
	versions.put(m)
	first := <-scored
	versions.put(nil)
	for messages := first.Messages; messages < len(sizes); {
		select {
		case e := <-scored:
			messages += e.Messages
		case <-watched: // what was read before has predictions; the rest waits
			versions.put(m)
		}
	}
	cancel()
	assert.Fails(t, <-ended, context.Canceled)
	a.counted(t, m)
}

// A model of sparse rows predicts sparse examples as it predicts the same rows with their zeros. A model of dense rows refuses them.
func TestSparseExamples(t *testing.T) {
	plan := &schemas.Plan{Name: "p", Segment: 16, Missing: layout.MissingError, Prepare: schemas.Prepare{Scale: stages.ScaleUnit,
		Values: stages.ValuesLog}, Intercept: true,
		Stages: []schemas.Stage{{Features: stages.DefaultsOf(stages.Columns), Link: link.Softmax}}}
	manifest := &schemas.Manifest{Name: "p", Version: 1, Run: "run1", Plan: plan, Labels: []string{"a", "b"},
		Blocks: []schemas.BlockDigest{{}}}
	m := assert.Must(model.New(manifest, wire.Tensors[float32]{
		wire.Vector(statistics.TensorFactors, []float32{1, 0, 2, 0.5}), wire.Words[float32](statistics.TensorLabels, manifest.Labels),
	}, [][]*schemas.Weights{{{
		Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run"},
		Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 4, 2, []float32{1, 2, -3, 1, 0.5, 0, 0.1, -0.1})},
	}}}))(t)
	rows := &examples.Rows{Rows: 3, Sparse: &examples.SparseRows{Ends: []int{3, 3, 4}, Indices: []int32{0, 1, 3, 9},
		Values: []float32{2, 7, -1, 5}}}
	record := rows.Record(memory.DefaultAllocator)
	value, err := examples.Encode(record, memory.DefaultAllocator)
	record.Release()
	assert.NoError(t, err)
	examples := assert.Must(examples.Decode(value, memory.DefaultAllocator))(t)
	assert.Fails(t, check(newModel(t, 1, 2), examples), wire.ErrDamaged)
	assert.NoError(t, check(m, examples))
	predictor := m.Predictor(nil)
	got, _ := predictor.PredictRows(examples)
	first := slices.Clone(got)
	for i, row := range [][]float32{{2, 7, 0, -1}, {0, 0, 0, 0}, {0, 0, 0, 0}} {
		x, y := math.Log(3), -math.Log(2)/2
		if i > 0 {
			x, y = 0, 0
		} else {
			length := math.Hypot(x, y)
			x, y = x/length, y/length
		}
		want := 1 / (1 + math.Exp((2*x+0*y-0.1)-(x+0.5*y+0.1))) // of a: weights of the columns 0 and 3, and of the intercept
		_, dense := predictor.Predict(row)
		assert.True(t, math.Abs(float64(first[2*i])-want) <= 1e-6 && dense[0] == first[2*i],
			"row %d: %v, as a dense row %v, expected %v", i, first[2*i], dense[0], want)
	}
}

// shortenedLog is a log whose topic p.examples, of one partition, loses messages, as after an unclean election of a
// leader. Those that are written afterwards take their offsets.
type shortenedLog struct {
	protocol.Log
	mutex    sync.Mutex
	messages []protocol.Message
	changed  chan struct{} // closed when the messages change, and then replaced
}

// shorten puts a log that can lose messages in the place of the topic's.
func shorten(t *testing.T, a *topic) *shortenedLog {
	l := &shortenedLog{Log: a.client.Log, changed: make(chan struct{})}
	for m, err := range a.client.Remaining(t.Context(), "p.examples", 0, 0, math.MaxInt64) {
		assert.NoError(t, err)
		l.messages = append(l.messages, m)
	}
	a.client.Log = l
	return l
}

// replace loses the messages from an offset on, and writes others.
func (l *shortenedLog) replace(from int, messages ...protocol.Message) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.messages = slices.Clone(l.messages[:from])
	for _, m := range messages {
		m.Offset, m.Time = int64(len(l.messages)), m.Time.Add(time.Hour)
		l.messages = append(l.messages, m)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *shortenedLog) bounds() coverage.Span {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return coverage.Span{To: int64(len(l.messages))}
}

func (l *shortenedLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	if topic != "p.examples" {
		return l.Log.Bounds(ctx, topic, partition)
	}
	return 0, l.bounds().To, nil
}

func (l *shortenedLog) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	if topic != "p.examples" {
		return l.Log.Spans(ctx, topic)
	}
	return []coverage.Span{l.bounds()}, nil
}

func (l *shortenedLog) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	if topic != "p.examples" {
		return l.Log.Range(ctx, topic, partition, from, to)
	}
	return func(yield func(protocol.Message, error) bool) {
		for ; from < to; from++ {
			m, changed, err := l.at(from)
			if changed != nil {
				err = &kafkalog.DeletedError{Topic: "p.examples", Wanted: from, End: from}
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

func (l *shortenedLog) Subscribe(ctx context.Context, wake <-chan struct{}, from ...protocol.Position) protocol.Subscription {
	if from[0].Topic != "p.examples" {
		return l.Log.Subscribe(ctx, wake, from...)
	}
	return &shortenedSubscription{l, from[0].Offset, from[0].Compacted}
}

// at returns the message at an offset, and what is closed when there may be another.
func (l *shortenedLog) at(offset int64) (m protocol.Message, changed <-chan struct{}, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	end := int64(len(l.messages))
	switch {
	case offset > end:
		return m, nil, &kafkalog.DeletedError{Topic: "p.examples", Wanted: offset, End: end}
	case offset == end:
		return m, l.changed, nil
	}
	return l.messages[offset], nil, nil
}

// shortenedSubscription follows the topic.
type shortenedSubscription struct {
	log       *shortenedLog
	next      int64
	compacted bool // what is lost is no error
}

func (s *shortenedSubscription) Next(ctx context.Context, _ time.Duration) (*protocol.Delivery, bool, error) {
	for {
		m, changed, err := s.log.at(s.next)
		if changed == nil && (err == nil || !s.compacted) {
			s.next++
			return &protocol.Delivery{Topic: "p.examples", Message: m}, false, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

func (s *shortenedSubscription) Close() {}

// checkPredictions checks that the last predictions that count of each message are of the message that is there now,
// and that offsets before the first that was lost have been predicted once.
func (l *shortenedLog) checkPredictions(t *testing.T, kept int) {
	t.Helper()
	latest, times := map[int64]*schemas.Prediction{}, map[int64]int{}
	for p, err := range Read(t.Context(), l, "p.predictions", 0, nil) {
		assert.NoError(t, err)
		latest[p.Offset] = p
		times[p.Offset]++
	}
	for _, m := range l.messages {
		p := latest[m.Offset]
		assert.True(t, p != nil && p.Checksum == protocol.MarkOf(0, m).Checksum, "offset %d: the last prediction that counts is %+v", m.Offset, p)
		assert.True(t, m.Offset >= int64(kept) || times[m.Offset] == 1, "offset %d has %d predictions that count", m.Offset, times[m.Offset])
	}
}

// If the topic of examples has lost messages that had predictions, those that have taken their offsets get predictions,
// and then those after them. Others keep the predictions that they have. Nobody has to delete anything.
func TestLostExamplesAreGoneBehind(t *testing.T) {
	m := newModel(t, 1, 3)
	for name, test := range map[string]struct {
		kept, others []int // of each time that messages are lost: how many stay, and how many others come
	}{
		"none come":         {[]int{5}, []int{0}},
		"fewer":             {[]int{5}, []int{2}},
		"as many":           {[]int{5}, []int{3}},
		"more":              {[]int{5}, []int{9}},
		"again and again":   {[]int{5, 6, 3}, []int{4, 5, 2}},
		"then nothing lost": {[]int{5, 9}, []int{4, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTopic(t, 1, sizes[:8]...)
			log := shorten(t, a)
			other := log.messages[0]
			other.Value = []byte("no examples")
			assert.NoError(t, a.run(t.Context(), true, m, nil))
			for i, kept := range test.kept {
				log.replace(kept, slices.Repeat([]protocol.Message{other}, test.others[i])...)
				other.Time = other.Time.Add(time.Minute)
				for range 2 { // there is nothing to do the second time
					assert.NoError(t, a.run(t.Context(), true, m, nil))
				}
				log.checkPredictions(t, slices.Min(test.kept))
			}
		})
	}
}

// If no message that had predictions is there any more, it is another topic.
func TestNothingIsProved(t *testing.T) {
	a, m := newTopic(t, 1, 1, 2, 3), newModel(t, 1, 3)
	log := shorten(t, a)
	assert.NoError(t, a.run(t.Context(), true, m, nil))
	log.replace(0, log.messages...)
	assert.Fails(t, a.run(t.Context(), true, m, nil), "does not have predictions of")
}

// A service goes on by itself.
func TestServiceGoesOnBehindLostExamples(t *testing.T) {
	a, m := newTopic(t, 1, sizes[:8]...), newModel(t, 1, 3)
	log := shorten(t, a)
	other := log.messages[0]
	ctx, cancel := context.WithCancel(t.Context())
	messages := 0
	err := a.run(ctx, false, m, func(e event.Event) {
		scored, ok := e.(event.Scored)
		if !ok {
			return
		}
		switch messages += scored.Messages; messages {
		case 8:
			go log.replace(5, other) // from there on the service reads behind the end
		case 9:
			go log.replace(6, other, other)
		case 11:
			cancel()
		}
	})
	assert.Fails(t, err, context.Canceled)
	log.checkPredictions(t, 5)
}
