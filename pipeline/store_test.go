package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages/prepare"
)

// storedRun is what a run over a topic gives, and how many messages of the examples it has read.
type storedRun struct {
	digest wire.Digest
	sent   map[string]string // what it has sent to the statistics topic
	read   int64
	report string
}

// runWithStore makes a run of a job without files, whose plan change may change, with a worker that has a store.
func runWithStore(t *testing.T, log *kafkalog.Log, job topics.Job, store *partition.Store, change func(*schemas.Plan)) storedRun {
	t.Helper()
	p := topics.Open(log, job.Name, arrowtest.Allocator(t))
	if err := topics.Create(t.Context(), p, &job); err != nil {
		t.Fatal(err)
	}
	l := readLedger(t, p)
	plan, err := planning.Plan(t.Context(), p, job, planning.Arithmetic(openBLAS(t)), nil, l, topics.ExamplesRetention{})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(plan)
	}
	if plan, l, err = dispatch.Enqueue(t.Context(), p, plan, l, false, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	var read atomic.Int64
	client := *p.Client
	client.Log = readCounter{client.Log, p.Topics.Examples, &read, one}
	m := newSoleMembers(t, &topics.Pipeline{Client: &client, Admin: p.Admin, Extend: p.Extend, Memory: p.Memory}, job, event.Ignore{})
	m.Store = store
	report, err := m.Execute(t.Context(), plan, l)
	if err != nil {
		t.Fatal(err)
	}
	r := storedRun{digest: report.WeightsDigest, sent: map[string]string{}, read: read.Load()}
	r.report = fmt.Sprint(report.Rows, report.Labels, report.Quarantined, report.PassedOver, string(wire.DigestJSON(report.Splits)))
	for _, message := range readTopic(t, log, p.Topics.Statistics) {
		m := protocol.FromKafka(message)
		if m.Kind() == statistics.KindSeal || m.Kind() == schemas.KindClaim { // a seal says where residuals are, a claim says whose it is
			continue
		}
		if key, mine := strings.CutPrefix(m.Key, plan.Run()+"/"); mine {
			r.sent[key] = fmt.Sprint(m.Get("covered"), m.Get("quarantined"), m.Get("passed_over"), wire.DigestJSON(m.Value))
		}
	}
	return r
}

// readCounter counts what is read of a topic by ranges: of each message what of says.
type readCounter struct {
	protocol.Log
	topic string
	read  *atomic.Int64
	of    func(protocol.Message) int
}

// one counts messages.
func one(protocol.Message) int { return 1 }

func (l readCounter) Range(topic string, partition int, from, to int64) protocol.Reader {
	r := l.Log.Range(topic, partition, from, to)
	if topic != l.topic {
		return r
	}
	return countedReader{r, l}
}

type countedReader struct {
	protocol.Reader
	by readCounter
}

func (r countedReader) Next(ctx context.Context) (protocol.Message, error) {
	m, err := r.Reader.Next(ctx)
	if err == nil {
		r.by.read.Add(int64(r.by.of(m)))
	}
	return m, err
}

// A run with what earlier runs have left in memory gives the same bits as one without, whatever has changed since and however
// little memory there is. With enough memory it reads only what is new, and one message of each partition.
func TestStoreChangesNoBits(t *testing.T) {
	const partitions, messages = 2, 7
	example := func(seed uint64) kafkalog.Message { return exampleMessage(t, rings(30, 3, 3, seed).exampleRows()) }
	bad := kafkalog.Message{Value: []byte("hello")}
	write := func(t *testing.T, log *kafkalog.Log, job topics.Job, first uint64, count int) {
		for p := range partitions {
			for i := range count {
				m := example(first + uint64(10*p+i))
				if i == 2 {
					m = bad
				}
				produce(t, log, job, p, m)
			}
		}
	}
	anew := func(first uint64) func(t *testing.T, log *kafkalog.Log, job *topics.Job) {
		return func(t *testing.T, log *kafkalog.Log, job *topics.Job) {
			if err := log.Delete(t.Context(), protocol.TopicsOf(job.Name).Examples); err != nil {
				t.Fatal(err)
			}
			write(t, log, *job, first, 3)
			for p := range partitions { // the same messages again at the same offsets
				for i := 3; i < messages; i++ {
					produce(t, log, *job, p, example(100+uint64(10*p+i)))
				}
			}
		}
	}
	from := func(offset int64) func(*schemas.Plan) {
		return func(p *schemas.Plan) {
			for i := range p.Spans {
				p.Spans[i].From = offset
			}
		}
	}
	one := []schemas.Stage{rffStage(link.Softmax, 20, 3)}
	other := []schemas.Stage{rffStage(link.Softmax, 20, 3)}
	other[0].Features.BandwidthScale = 3
	for name, test := range map[string]struct {
		between func(t *testing.T, log *kafkalog.Log, job *topics.Job)
		change  func(*schemas.Plan) // the plan of the second run
		stages  []schemas.Stage     // of the first run, if not two
		read    int64               // by the second run, beside one message of each partition
	}{
		"the same spans": {},
		"a grown topic":  {between: func(t *testing.T, log *kafkalog.Log, job *topics.Job) { write(t, log, *job, 200, 4) }, read: 4 * partitions},
		"a grown topic and a moved start": {
			between: func(t *testing.T, log *kafkalog.Log, job *topics.Job) { write(t, log, *job, 200, 4) }, change: from(4), read: 4 * partitions,
		},
		"a start within a segment": {change: from(1), read: 1*partitions + 1},
		"an earlier end": {
			change: func(p *schemas.Plan) {
				for i := range p.Spans {
					p.Spans[i].To = 5
				}
			}, read: 1 * partitions,
		},
		"another preparation": {between: func(_ *testing.T, _ *kafkalog.Log, job *topics.Job) {
			job.Prepare.Scale, job.Prepare.PCA = prepare.ScaleStandard, 2
		}},
		"another seed":    {between: func(_ *testing.T, _ *kafkalog.Log, job *topics.Job) { job.Seed = 7 }},
		"another holdout": {between: func(_ *testing.T, _ *kafkalog.Log, job *topics.Job) { job.Examples.Holdout = 0.3 }},
		"other classes": {
			between: func(_ *testing.T, _ *kafkalog.Log, job *topics.Job) {
				job.Examples.Classes = []string{"ring2", "ring1", "ring0"}
			},
		},
		"a warm start":                  {between: func(_ *testing.T, _ *kafkalog.Log, job *topics.Job) { job.Warm = protocol.Latest }},
		"one stage":                     {stages: one},
		"one stage with other features": {stages: one, between: func(_ *testing.T, _ *kafkalog.Log, job *topics.Job) { job.Stages = other }},
		"one stage, a grown topic": {
			stages: one, between: func(t *testing.T, log *kafkalog.Log, job *topics.Job) { write(t, log, *job, 200, 4) }, read: 4 * partitions,
		},
		"one stage and a warm start": {stages: one, between: func(_ *testing.T, _ *kafkalog.Log,
			job *topics.Job) {
			job.Warm = protocol.Latest
		}},
		"a topic made anew":               {between: anew(300), read: messages*partitions + 1},
		"a topic made anew with the same": {between: anew(100), read: messages*partitions + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want [2]storedRun
			for i, bytes := range []int64{-1, 0, 3000, 20_000, 1 << 30} {
				log := openEmbedded(t)
				job := newJob(t, rings(10, 3, 3, 1), table{}, rffStage(link.Softmax, 20, 3), rffStage(link.Identity, 10, 1))
				job.Examples.Train, job.Examples.Partitions = nil, partitions
				if test.stages != nil {
					job.Stages = slices.Clone(test.stages)
				}
				write(t, log, job, 100, messages)
				var store *partition.Store
				if bytes >= 0 {
					store = partition.NewStore(bytes)
				}
				var got [2]storedRun
				got[0] = runWithStore(t, log, job, store, nil)
				if test.between != nil {
					test.between(t, log, &job)
				}
				got[1] = runWithStore(t, log, job, store, test.change)
				if i == 0 {
					want = got
					continue
				}
				for j := range got {
					if got[j].digest != want[j].digest || got[j].report != want[j].report || !maps.Equal(got[j].sent, want[j].sent) {
						t.Errorf("%d bytes, run %d: weights %s, report %s, %d records; without a store %s, %s, %d", bytes, j,
							got[j].digest.Short(), got[j].report, len(got[j].sent), want[j].digest.Short(), want[j].report, len(want[j].sent))
					}
				}
				if !store.Budget().Has(bytes) || bytes > 0 && store.Budget().Has(bytes+1) {
					t.Errorf("%d bytes: after the runs the budget has not its bytes", bytes)
				}
				if most := test.read + partitions; bytes == 1<<30 && got[1].read > most {
					t.Errorf("the second run has read %d messages, expected at most %d", got[1].read, most)
				}
			}
		})
	}
}

// A worker that may not know whether messages have gone from the topic reads all of it again.
func TestStoreOfACompactedTopic(t *testing.T) {
	log := openEmbedded(t)
	job, message := newForeignJob(t, rings(20, 2, 2, 1))
	if err := log.Create(t.Context(), kafkalog.Topic{Name: protocol.TopicsOf(job.Name).Examples, Partitions: 1, Compact: true}); err != nil {
		t.Fatal(err)
	}
	message.Key = []byte("key")
	produce(t, log, job, 0, slices.Repeat([]kafkalog.Message{message}, 3)...)
	store := partition.NewStore(1 << 30)
	p := topics.Open(log, job.Name, arrowtest.Allocator(t))
	first := runWithStore(t, log, job, store, nil)
	dispatch.CheckStore(t.Context(), p, store)
	if again := runWithStore(t, log, job, store, nil); again.read < 3 || again.digest != first.digest {
		t.Errorf("the second run has read %d messages, expected 3; weights %s, first %s", again.read, again.digest.Short(), first.digest.Short())
	}
}
