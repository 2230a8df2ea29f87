package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// However many runs there were, a run reads as much of the topics before it begins as the tenth did, and makes the next version; the
// latest versions stay, and all of them can be read.
func TestManyRuns(t *testing.T) {
	long(t)
	const runs, keep = 60, 3
	job, message := newForeignJob(t, rings(20, 2, 2, 1))
	job.Stages, job.Keep = job.Stages[:1], keep
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}) // it listens nowhere: no other process needs the past
	noError(t, err)
	closeAfter(t, log)
	produce(t, log, job, 0, message)
	p := topics.Open(log, job.Name, arrowtest.Allocator(t))
	read := func() (n int) { // the offsets that a process reads after a run
		client := *p.Client
		client.Log = countingLog{client.Log, &n}
		must(client.ReadLedger(t.Context()))(t)
		return n
	}
	most := 0
	for i := range runs {
		report, m := train(t, log, job)
		if report.Version != i+1 || m.Manifest.Version != i+1 {
			t.Fatalf("run %d made version %d, its model is of version %d", i+1, report.Version, m.Manifest.Version)
		}
		most = max(most, read())
	}
	if limit := 2 * 64; most > limit {
		t.Errorf("%d offsets are read after a run, expected at most %d after any number of runs", most, limit)
	}
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	if err != nil || len(versions) != keep {
		t.Fatalf("%d versions, %v; expected %d", len(versions), err, keep)
	}
	for i, v := range versions {
		if v.Version != runs-keep+1+i {
			t.Errorf("version %d stays, expected %d", v.Version, runs-keep+1+i)
		}
		if _, err := topics.Open(log, job.Name, nil).Model(t.Context(), v.Run); err != nil {
			t.Error(err)
		}
	}
	live := func(topic string) (n int) { // messages that compaction does not remove
		keys := map[string]bool{}
		for _, m := range readTopic(t, log, topic) {
			keys[string(m.Key)] = m.Value != nil
		}
		for _, is := range keys {
			if is {
				n++
			}
		}
		return n
	}
	if n := live(p.Topics.Versions); n%keep != 0 || n/keep > 4 {
		t.Errorf("%d messages of the versions topic stay, expected those of %d versions", n, keep)
	}
	if n := live(p.Topics.Plans); n > 3*64+2 {
		t.Errorf("%d messages of the plans topic stay, expected a plan, an end and a removal of 64 runs", n)
	}
	job.Warm = "1"
	if err := trainError(t, log, job); !errors.As(err, new(*protocol.NoVersionError)) {
		t.Errorf("warm start from a version that was removed: %v", err)
	}
}

// countingLog counts the messages that are read.
type countingLog struct {
	protocol.Log
	read *int
}

func (l countingLog) Range(topic string, partition int, from, to int64) protocol.Reader {
	*l.read += int(to - from)
	return l.Log.Range(topic, partition, from, to)
}

// Two runs of the same content have different ids, whatever was pruned. A run that is submitted again before it has ended is the same.
func TestRunIDs(t *testing.T) {
	job := newJob(t, rings(100, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	log, seen := openEmbedded(t), map[string]bool{}
	for range 3 {
		report, _ := train(t, log, job)
		if seen[report.Run] {
			t.Errorf("two runs have the id %s", report.Run)
		}
		seen[report.Run] = true
	}
	_, first := submitJob(t, log, job, event.Ignore{})
	_, again := submitJob(t, log, job, event.Ignore{})
	if first.Run() != again.Run() || seen[first.Run()] {
		t.Errorf("submitted twice, the run has the ids %s and %s", first.Run(), again.Run())
	}
	recorder := &eventRecorder{}
	report, _ := trainRecorded(t, log, job, recorder)
	if began := eventsOf[event.Began](recorder); report.Run != first.Run() || !began[0].Resumed {
		t.Errorf("run %s, %+v; expected to resume %s", report.Run, began, first.Run())
	}
}

// A manifest and a report longer than a message make a version all the same.
func TestLongLabels(t *testing.T) {
	data := table{}
	for i := range 940 {
		data.rows = append(data.rows, []float32{float32(i), float32(i * i % 7)})
		data.labels = append(data.labels, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 997)))
	}
	log, job := openEmbedded(t), newJob(t, data, table{}, rffStage(link.Identity, 10, 1))
	job.Examples.Label = "0"
	report, m := train(t, log, job)
	if report.Classes != 940 || len(m.Labels()) != 940 || report.Version != 1 {
		t.Errorf("version %d of %d classes, its model has %d", report.Version, report.Classes, len(m.Labels()))
	}
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	if err != nil || len(versions) != 1 || versions[0].Labels[939] != data.labels[939] {
		t.Errorf("%d versions, %v", len(versions), err)
	}
}

// A run over many sources on many partitions is planned with few requests, and trains on all of them.
func TestManySources(t *testing.T) {
	long(t)
	const sources, partitions = 5000, 100
	job, message := newForeignJob(t, table{rows: [][]float32{{0, 1}, {1, 0}}, labels: []string{"a", "b"}})
	job.Examples.Partitions, job.Stages = partitions, job.Stages[:1]
	log := openEmbedded(t)
	p := topics.Open(log, job.Name, arrowtest.Allocator(t))
	noError(t, topics.Create(t.Context(), p, &job))
	var seals []wire.Message
	written := make([][]wire.Message, partitions)
	for i := range sources {
		// Of each source the last message is there; the others, which would be in other partitions, are gone.
		seal := schemas.SourceSeal{ID: fmt.Sprintf("%064d", i), Attempt: "1", Split: "train", Partitions: partitions,
			Messages: int64(i%partitions) + 1, Rows: 2}
		seal.Spans = coverage.Spans{{Partition: i % partitions, From: int64(len(written[i%partitions])),
			To: int64(len(written[i%partitions])) + 1}}
		seals = append(seals, seal.Message())
		written[i%partitions] = append(written[i%partitions], wire.Message{Value: message.Value, Headers: []wire.Header{
			{Key: "stagewise-source", Value: seal.Name()}, {Key: "stagewise-sequence", Value: fmt.Sprint(i % partitions)}}})
	}
	for n, messages := range written {
		must(p.Log.Append(t.Context(), p.Topics.Examples, n, messages...))(t)
	}
	must(p.Log.Append(t.Context(), p.Topics.Plans, 0, seals...))(t)
	l := readLedger(t, p)
	calls := 0
	client := *p.Client
	client.Log = requestCounter{client.Log, &calls}
	counted := &topics.Pipeline{Client: &client, Admin: p.Admin, Extend: p.Extend, Memory: p.Memory}
	plan := must(dispatch.Plan(t.Context(), counted, job, dispatch.Arithmetic(openBLAS(t)), nil, l, topics.ExamplesRetention{}))(t)
	if len(plan.Sources) != sources || len(plan.Spans) != partitions || calls > 8 {
		t.Errorf("%d sources, %d spans, %d calls of the log; expected %d, %d and at most 8", len(plan.Sources), len(plan.Spans), calls,
			sources, partitions)
	}
	if messages, err := plan.Messages(); err != nil || len(messages) < 2 {
		t.Errorf("the plan has %d messages, %v; expected several", len(messages), err)
	}
	report, _ := train(t, log, job)
	if report.Rows != 2*sources {
		t.Errorf("%d rows, expected %d", report.Rows, 2*sources)
	}
}

// requestCounter counts the calls of a log.
type requestCounter struct {
	protocol.Log
	calls *int
}

func (l requestCounter) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	*l.calls++
	return l.Log.Bounds(ctx, topic, partition)
}

func (l requestCounter) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	*l.calls++
	return l.Log.Spans(ctx, topic)
}

func (l requestCounter) Range(topic string, partition int, from, to int64) protocol.Reader {
	*l.calls++
	return l.Log.Range(topic, partition, from, to)
}

// What retention may delete before a run has ended is left out, and the report says so.
func TestExpiringExamples(t *testing.T) {
	hour := int64(3600)
	bounds := []coverage.Span{{Partition: 0, From: 0, To: 100}, {Partition: 1, From: 40, To: 100}, {Partition: 2, From: 7, To: 7}}
	for name, test := range map[string]struct {
		config map[string]string
		before func(age time.Duration) []int64
		want   []int64
	}{
		"for ever":  {map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}, nil, []int64{0, 40, 7}},
		"compacted": {map[string]string{"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"}, nil, []int64{0, 40, 7}},
		"an hour": {
			map[string]string{"cleanup.policy": "delete", "retention.ms": fmt.Sprint(hour * 1000)},
			func(age time.Duration) []int64 { // a message a minute in partition 0
				if age != 45*time.Minute {
					t.Errorf("asked for the age %v, expected three quarters of the retention", age)
				}
				return []int64{55, 30, 7}
			}, []int64{55, 40, 7},
		},
		"all is old": {
			map[string]string{"cleanup.policy": "delete", "retention.ms": "60000"},
			func(time.Duration) []int64 { return []int64{100, 100, 7} }, []int64{100, 100, 7},
		},
		// Of 60 messages, 10 came in the last hour, and a segment is a tenth of the partition.
		"bytes": {
			map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "1000", "segment.bytes": "100"},
			func(time.Duration) []int64 { return []int64{90, 90, 7} }, []int64{0, 40 + 10 + 6, 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &topics.Pipeline{Client: &protocol.Client{Log: agedLog{before: test.before}}}
			got := must(topics.Staying(t.Context(), p, topics.RetentionOf(test.config), bounds))(t)
			var from []int64
			for _, span := range got {
				from = append(from, span.From)
			}
			if !slices.Equal(from, test.want) {
				t.Errorf("the spans begin at %v, expected %v", from, test.want)
			}
		})
	}
}

// agedLog is a log that only knows how old its messages are.
type agedLog struct {
	protocol.Log
	before func(age time.Duration) []int64
}

func (l agedLog) Before(_ context.Context, _ string, age time.Duration) ([]int64, error) {
	return l.before(age), nil
}

// Partitions belong to who can work on them: a process that ingests is no member of the group of workers, and one that trains is.
func TestIngestIsNoMember(t *testing.T) {
	job := newJob(t, rings(3000, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.BatchRows = 8
	log := openEmbedded(t)
	client := must(kgo.NewClient(kgo.SeedBrokers(log.Addr()...)))(t)
	defer client.Close()
	members := func() int {
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups = []string{protocol.TopicsOf(job.Name).Workers()}
		response := must(request.RequestWith(t.Context(), client))(t)
		return len(response.Groups[0].Members)
	}
	ingesting, training, asked := 0, 0, 0
	recorder := &eventRecorder{on: func(e event.Event) {
		switch e.(type) {
		case event.Ingested:
			asked++
			ingesting = max(ingesting, members())
		case event.Passed:
			training = max(training, members())
		}
	}}
	if _, _, err := Train(t.Context(), connect(t, log), openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)},
		recorder); err != nil {
		t.Fatal(err)
	}
	if asked < 100 || ingesting != 0 || training != 1 {
		t.Errorf("asked %d times, the group of workers has %d members during ingest and %d during the run; expected 0 and 1", asked,
			ingesting, training)
	}
}
