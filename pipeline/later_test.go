package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
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
	return viewJobOf(t, log, "", rowPartitions, outcomePartitions)
}

// viewJobOf is viewJob with topics whose names begin so.
func viewJobOf(t *testing.T, log *kafkalog.Log, prefix string, rowPartitions, outcomePartitions int) topics.Job {
	t.Helper()
	job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	o := &job.Examples
	o.Train, o.FromTopic, o.Format = nil, prefix+views, "json"
	o.Partitions, o.BatchRows = 2, 8
	o.Columns.Use = []string{"x", "n"}
	o.Outcome = ingest.Defaults().Outcome
	o.Outcome.Topic, o.Outcome.Label, o.Outcome.Absent = prefix+buys, "kind", []string{"none"}
	o.Outcome.Within, o.Outcome.Early, o.Outcome.Grace = time.Minute, 5*time.Second, 10*time.Second
	if problems := o.Check(); len(problems) > 0 {
		t.Fatal(problems)
	}
	for topic, partitions := range map[string]int{prefix + views: rowPartitions, prefix + buys: outcomePartitions} {
		noError(t, log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: partitions}))
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
	client := must(kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
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
	noError(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

// While a row waits, an outcome that can't be used says nothing of the rows. If none of the outcomes can be used, that is an error of their
// topic.
func TestOutcomesThatCannotBeUsed(t *testing.T) {
	log := openEmbedded(t)
	job := viewJob(t, log, 1, 1)
	send(t, log, view(0, "a", 1, 1000), timed{buys, 0, "", `{"kind": "book"}`, 1500})
	p := topics.Open(log, job.Name, nil)
	noError(t, topics.Create(t.Context(), p, &job))
	err := source.FollowTopic(t.Context(), p, job, true, event.Ignore{})
	if nothing, ok := errors.AsType[*source.NothingUsableError](err); !ok || nothing.Topic != buys || nothing.Messages != 1 {
		t.Errorf("no outcome can be used: got error %v", err)
	}
	send(t, log, buy(0, "b", "book", 2000), timed{buys, 0, "", `{"kind": "film"}`, 2500})
	if err := source.FollowTopic(t.Context(), p, job, true, event.Ignore{}); err != nil {
		t.Errorf("one outcome can be used, and the row waits: got error %v", err)
	}
}

// Rows find outcomes whose keys have another encoding, in whatever partition. If most outcomes find none, no version is offered, and both
// keys are shown.
func TestKeysOfOutcomes(t *testing.T) {
	long(t)
	text := func(n int) []byte { return fmt.Append(nil, 1000+n) }
	long := func(n int) []byte { return []byte{0, 0, 0, 0, 0, 0, byte((1000 + n) >> 8), byte(1000 + n)} }
	for name, test := range map[string]struct {
		row, outcome func(n int) []byte
		late         time.Duration // of outcomes, beside their own time
		alone, come  int64         // outcomes without a row, and those that come too late
	}{
		"JSON":    {text, func(n int) []byte { return fmt.Appendf(nil, `"%d"`, 1000+n) }, 0, 0, 0},
		"Avro":    {text, func(n int) []byte { return fmt.Appendf([]byte{0, 0, 0, 0, 7, 8}, "%d", 1000+n) }, 0, 0, 0},
		"long":    {long, text, 0, 0, 0},
		"spelt":   {text, func(n int) []byte { return fmt.Appendf(nil, "id %d", 1000+n) }, 0, 200, 0},
		"mixed":   {text, func(n int) []byte { return fmt.Appendf(nil, []string{"K%d", "%d"}[n/2%2], 1000+n) }, 0, 100, 0},
		"seconds": {text, text, -1000 * time.Hour, 200, 0},
		"late":    {text, text, 0, 0, 65},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := viewJob(t, log, 2, 2)
			job.Examples.Targets, job.Examples.Outcome.Label, job.Examples.Outcome.Absent = []string{"price"}, "", []string{"0"}
			job.Retrain = topics.DefaultRetrain()
			begin := time.Now().Add(-time.Hour)
			var records []*kgo.Record
			for i := range 400 {
				at := begin.Add(time.Duration(i) * time.Second)
				records = append(records, &kgo.Record{Topic: views, Partition: int32(i % 2), Key: test.row(i), Value: fmt.Appendf(nil, `{"x": %d, "n": %d}`, i%2, i), Timestamp: at})
				if i%2 == 1 {
					partition := int32(1)
					if slices.Contains([]string{"JSON", "Avro", "long"}, name) { // another hash of other bytes
						partition = int32(i / 2 % 2)
					}
					records = append(records, &kgo.Record{Topic: buys, Partition: partition, Key: test.outcome(i), Value: []byte(`{"price": 2}`), Timestamp: at.Add(time.Second + test.late)})
				}
			}
			for p := range int32(2) {
				tick := kgo.Record{Topic: buys, Partition: p, Key: []byte("tick"), Timestamp: begin.Add(time.Hour)}
				records = append(records, &tick)
				if test.come > 0 {
					early := tick
					early.Timestamp = begin.Add(200 * time.Second)
					records = slices.Insert(records, 0, &early)
				}
			}
			noError(t, clientOf(t, log).ProduceSync(t.Context(), records...).FirstErr())
			report, rec := retrainToEnd(t, log, job)
			last := report.Updates[len(report.Updates)-1]
			if o := last.Outcomes; o == nil || o.Rows != 400 || o.Outcomes != 200 || o.Alone != test.alone || o.Late != test.come ||
				o.Absent != 200+test.alone+test.come ||
				last.Offered != (2*test.alone <= 200) {
				t.Fatalf("offered %v with %+v, expected %d outcomes without a row", last.Offered, o, test.alone)
			}
			joined := eventsOf[event.Joined](rec)
			if c := joined[len(joined)-1].Counts; c.Outcomes != 200 || c.Alone() != test.alone {
				t.Errorf("ingest has counted %+v", c)
			} else if text := schemas.JoinText(c); test.come > 0 && !strings.Contains(text, "65 after their row was decided: messages are out of order by up to 3m18s, and examples.outcome.grace: 4m0s") {
				t.Errorf("the disorder is not shown: %s", text)
			}
			said := slices.DeleteFunc(eventsOf[event.Noticed](rec), func(n event.Noticed) bool { return !strings.Contains(n.Text, "have no row") })
			if len(said) != min(1, int(test.alone)) || len(said) > 0 && strings.Count(said[0].Text, ", read as ") != 2 ||
				name == "mixed" && !strings.Contains(said[0].Text, `read as "K`) {
				t.Errorf("%d outcomes have no row, and the notices are %q", test.alone, said)
			}
			if why := last.Outcomes.Why(); !last.Offered && !strings.Contains(why, `its key has the bytes 31 33 39 39, read as "1399"`) {
				t.Errorf("the keys are not shown: %s", why)
			}
		})
	}
}
