package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/counting"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// views and buys are the topics of rows and of their outcomes.
const (
	views = "views"
	buys  = "buys"
)

// timed is a message with a time, in milliseconds since the beginning of the test's day.
type timed struct {
	topic     string
	partition int
	key       string
	value     string
	time      int64
}

// day is when the times of timed begin.
const day = 1_764_000_000_000

// viewJob is a job whose rows of JSON wait for outcomes, on a log that has both topics.
func viewJob(t *testing.T, log *kafkalog.Log, rowPartitions, outcomePartitions int) topics.Job {
	t.Helper()
	job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	o := &job.Examples
	o.Train, o.FromTopic, o.Format = nil, views, "json"
	o.Partitions, o.BatchRows = 2, 8
	o.Columns.Use = []string{"x", "n"}
	o.Outcome = ingest.Defaults().Outcome
	o.Outcome.Topic, o.Outcome.Label, o.Outcome.Absent = buys, "kind", "none"
	o.Outcome.Within, o.Outcome.Early = time.Minute, 5*time.Second
	if problems := o.Check(); len(problems) > 0 {
		t.Fatal(problems)
	}
	for topic, partitions := range map[string]int{views: rowPartitions, buys: outcomePartitions} {
		if err := log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
	}
	return job
}

// view is a row: n tells it from others.
func view(partition int, key string, n int, at int64) timed {
	return timed{views, partition, key, fmt.Sprintf(`{"id": %q, "x": %d, "n": %d}`, key, n%7, n), at}
}

// buy is an outcome.
func buy(partition int, key, kind string, at int64) timed {
	return timed{buys, partition, key, fmt.Sprintf(`{"view": %q, "kind": %q}`, key, kind), at}
}

// send writes messages in their order.
func send(t *testing.T, log *kafkalog.Log, messages ...timed) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for _, m := range messages {
		r := &kgo.Record{Topic: m.topic, Partition: int32(m.partition), Value: []byte(m.value), Timestamp: time.UnixMilli(day + m.time)}
		if m.key != "" {
			r.Key = []byte(m.key)
		}
		if m.value == "" {
			r.Value = nil
		}
		records = append(records, r)
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// labelled returns the labels of the rows that a run counts, by their second feature. It is an error if one counts twice.
func labelled(t *testing.T, log *kafkalog.Log, job topics.Job) map[int]string {
	t.Helper()
	mem := arrowtest.Allocator(t)
	labels, replays, counting := map[int]string{}, map[int]*counting.Replay{}, counting.New(&schemas.Plan{Foreign: true})
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		if replays[m.Partition] == nil {
			replays[m.Partition] = counting.Replay(coverage.Span{Partition: m.Partition})
		}
		if replays[m.Partition].Accept(protocol.FromKafka(m)) != "" {
			continue
		}
		batch, err := examples.Decode(m.Value, mem)
		if err != nil {
			t.Fatal(err)
		}
		features := make([]float32, batch.Rows*batch.Width)
		batch.Features(features, batch.Width)
		for i := range batch.Rows {
			n := int(features[i*batch.Width+1])
			if before, twice := labels[n]; twice {
				t.Errorf("row %d counts twice, with %s and %s", n, before, batch.Label(i))
			}
			labels[n] = batch.Label(i)
		}
		batch.Release()
	}
	return labels
}

// A row is an example with the label of its outcome, or with that of rows without one when its time is over.
func TestLabelsThatComeLater(t *testing.T) {
	log := openEmbedded(t)
	job := viewJob(t, log, 2, 2)
	send(t, log,
		view(0, "a", 1, 1000), view(0, "b", 2, 2000), view(1, "c", 3, 3000), view(1, "d", 4, 90_000),
		buy(0, "a", "book", 9000), buy(0, "a", "film", 9500), buy(1, "c", "film", 64_000), buy(0, "x", "film", 70_000), buy(1, "y", "film", 70_000))
	rec := followToEnd(t, log, job)
	want := map[int]string{1: "book", 2: "none", 3: "none"}
	if got := labelled(t, log, job); !maps.Equal(got, want) {
		t.Errorf("the examples are %v, expected %v", got, want)
	}
	if !slices.ContainsFunc(eventsOf[event.Noticed](rec), func(n event.Noticed) bool { return strings.HasPrefix(n.Text, "1 messages of views wait") }) {
		t.Errorf("notices %v", eventsOf[event.Noticed](rec))
	}
	send(t, log, buy(1, "d", "book", 91_000))
	followToEnd(t, log, job)
	want[4] = "book"
	if got := labelled(t, log, job); !maps.Equal(got, want) {
		t.Errorf("the examples are %v, expected %v", got, want)
	}
}

var (
	_ = cmp.Compare[int]
	_ = context.Canceled
	_ = errors.New
	_ = rand.IntN
	_ source.Feed
	_ wire.Message
)
