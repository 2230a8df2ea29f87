package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
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
	kinds, price, days := `["book", "paper"]`, "1.5", 3
	if kind == "film" {
		kinds, price, days = "[]", "-0.1", 0
	}
	return timed{buys, partition, key, fmt.Sprintf(`{"view": %q, "kind": %q, "kinds": %s, "price": %s, "days": %d}`, key, kind, kinds, price, days), at}
}

// says returns what an outcome of a kind says in a job, as labelled has it.
func says(job topics.Job, kind string) string {
	switch task := job.Examples.Task(); {
	case task == examples.SeveralLabels && kind == "book":
		return "book paper"
	case task == examples.SeveralLabels && kind == "film":
		return ""
	case task == examples.Numbers && kind == "book":
		return "1.5 3"
	case task == examples.Numbers && kind == "film":
		return "-0.1 0"
	case task == examples.Numbers:
		return kind + " " + kind // of rows without an outcome
	}
	return kind
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

// labelled returns the labels of the rows that a run counts, or their targets, by their second feature. It is an error if one counts twice.
func labelled(t *testing.T, log *kafkalog.Log, job topics.Job) map[int]string {
	t.Helper()
	mem := arrowtest.Allocator(t)
	labels, replays, counting := map[int]string{}, map[int]*protocol.SpanCounting{}, protocol.NewCounting(&schemas.Plan{Foreign: true})
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		if replays[m.Partition] == nil {
			replays[m.Partition] = counting.Replay(coverage.Span{Partition: m.Partition})
		}
		if replays[m.Partition].Accept(protocol.FromKafka(m)) != "" {
			continue
		}
		batch := must(examples.Decode(m.Value, mem))(t)
		features := make([]float32, batch.Rows*batch.Width)
		batch.Features(features, batch.Width)
		for i := range batch.Rows {
			n := int(features[i*batch.Width+1])
			if before, twice := labels[n]; twice {
				t.Errorf("row %d counts twice, first with %s", n, before)
			}
			labels[n] = predictedOf(t, job, batch, i)
		}
		batch.Release()
	}
	return labels
}

// predictedOf returns the label, the labels or the targets of a row.
func predictedOf(t *testing.T, job topics.Job, batch *examples.Batch, row int) string {
	t.Helper()
	targets := job.Examples.Targets
	if len(targets) == 0 {
		return strings.Join(slices.Collect(batch.Labels(row)), " ")
	}
	numbers, known := make([]float64, batch.Rows*len(targets)), make([]bool, batch.Rows)
	if err := batch.Targets(numbers, known, targets); err != nil || !known[row] {
		t.Fatalf("the targets of row %d: known %v, %v", row, known[row], err)
	}
	return strings.Trim(fmt.Sprint(numbers[row*len(targets):(row+1)*len(targets)]), "[]")
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

// naively returns the labels that rows of a job have by the definition, if the outcomes are past all rows.
func naively(t *testing.T, job topics.Job, messages []timed) map[int]string {
	t.Helper()
	type row struct {
		key        string
		n          int
		at, latest int64
	}
	type outcome struct {
		key, kind  string
		p, offset  int
		at, latest int64
	}
	o := job.Examples.Outcome
	var rows []row
	var outcomes []outcome
	latest, offsets := map[string]int64{}, map[string]int{}
	for _, m := range messages {
		place := fmt.Sprint(m.topic, m.partition)
		if last, ok := latest[place]; !ok || last < m.time {
			latest[place] = m.time
		}
		offsets[place]++
		var value struct {
			ID, View, Kind string
			N              int
		}
		if m.value != "" {
			noError(t, json.Unmarshal([]byte(m.value), &value))
		}
		key := m.key
		switch {
		case m.topic == views:
			if job.Examples.JoinKey != "" {
				key = value.ID
			}
			rows = append(rows, row{key, value.N, m.time, latest[place]})
		case m.value != "":
			if o.Key != "" {
				key = value.View
			}
			outcomes = append(outcomes, outcome{key, value.Kind, m.partition, offsets[place], m.time, latest[place]})
		}
	}
	slices.SortFunc(outcomes, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.latest, b.latest), cmp.Compare(a.p, b.p), cmp.Compare(a.offset, b.offset))
	})
	labels, byKey := map[int]string{}, map[string][]outcome{}
	for _, out := range outcomes {
		byKey[out.key] = append(byKey[out.key], out)
	}
	for _, r := range rows {
		if o.Absent[0] != "skip" {
			labels[r.n] = says(job, o.Absent[0])
		}
		for _, out := range byKey[r.key] {
			within, early, grace := o.Within.Milliseconds(), o.Early.Milliseconds(), o.Grace.Milliseconds()
			if out.at >= r.at-early && out.at <= r.at+within && out.latest <= r.at+within+grace && out.latest >= r.latest-early-grace {
				labels[r.n] = says(job, out.kind)
				break
			}
		}
	}
	return labels
}

// mortal is a log of a process that is killed at one of its calls. A write may have been applied or not.
type mortal struct {
	protocol.Log
	mu     sync.Mutex
	random *rand.Rand
	left   int // calls
}

// dies reports whether the process ends with this call.
func (m *mortal) dies() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	return m.left <= 0
}

func (m *mortal) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	if !m.dies() {
		return m.Log.Append(ctx, topic, partition, messages...)
	}
	m.mu.Lock()
	applied := m.random.IntN(2) == 0
	m.mu.Unlock()
	if applied {
		if _, err := m.Log.Append(ctx, topic, partition, messages...); err != nil {
			return 0, err
		}
	}
	return 0, errKilled
}

func (m *mortal) Range(topic string, partition int, from, to int64) protocol.Reader {
	return &mortalReader{m.Log.Range(topic, partition, from, to), m}
}

type mortalReader struct {
	protocol.Reader
	of *mortal
}

func (r *mortalReader) Next(ctx context.Context) (protocol.Message, error) {
	if r.of.dies() {
		return protocol.Message{}, errKilled
	}
	return r.Reader.Next(ctx)
}

// storm draws rows and outcomes: keys recur now and then, outcomes come several times, early, late or never, and some messages move the
// time on alone. Some messages come later than their times. At the end each partition of the outcomes is past all rows.
func storm(random *rand.Rand, rows, rowPartitions, outcomePartitions int, byKey bool) (messages []timed) {
	type due struct {
		at int64
		m  timed
	}
	var later []due
	place := func(key string, partitions int) int {
		if byKey {
			sum := 0
			for _, c := range key {
				sum = sum*31 + int(c)
			}
			return sum % partitions
		}
		return random.IntN(partitions)
	}
	now := int64(0)
	for n := range rows {
		now += random.Int64N(2000)
		key := fmt.Sprint("view-", n)
		if n > 0 && random.IntN(20) == 0 {
			key = fmt.Sprint("view-", random.IntN(n))
		}
		later = append(later, due{now, view(place(key, rowPartitions), key, n, now)})
		for range []int{0, 0, 1, 1, 1, 2}[random.IntN(6)] {
			at := max(0, now-6000+random.Int64N(80_000))
			later = append(later, due{at, buy(place(key, outcomePartitions), key, []string{"book", "film"}[random.IntN(2)], at)})
		}
		if random.IntN(10) == 0 {
			later = append(later, due{now, timed{buys, random.IntN(outcomePartitions), "tick", "", now}})
		}
	}
	slices.SortStableFunc(later, func(a, b due) int { return cmp.Compare(a.at, b.at) })
	for _, d := range later {
		if random.IntN(6) == 0 {
			d.m.time = max(0, d.m.time-random.Int64N(30_000))
		}
		messages = append(messages, d.m)
	}
	for p := range outcomePartitions {
		messages = append(messages, timed{buys, p, "tick", "", now + 200_000})
	}
	return messages
}

// The examples and their labels are those of the naive join, each row once, whatever is written when, wherever processes are killed,
// however many there are, and however late they begin.
func TestLaterLabelsAreTheNaiveJoin(t *testing.T) {
	long(t)
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			rowPartitions := 1 + random.IntN(4)
			outcomePartitions := rowPartitions
			byKey := seed%3 != 0 // else outcomes of a key are in any partition
			if !byKey || random.IntN(2) == 0 {
				outcomePartitions = 1 + random.IntN(4)
			}
			log := openEmbedded(t)
			job := viewJob(t, log, rowPartitions, outcomePartitions)
			if !byKey {
				job.Examples.JoinKey, job.Examples.Outcome.Key = "id", "view"
			}
			switch o := &job.Examples; seed % 5 {
			case 1, 3:
				o.Labels, o.Outcome.Label = layout.LabelsSeveral, "kinds"
			case 2, 4:
				o.Targets, o.Outcome.Label, o.Outcome.Absent = []string{"price", "days"}, "", []string{"0"}
			}
			if seed%4 == 1 {
				job.Examples.Outcome.Absent = []string{"skip"}
			}
			if problems := job.Examples.Check(); len(problems) > 0 {
				t.Fatal(problems)
			}
			if seed%2 == 1 {
				job.Examples.Outcome.Memory = 1 << 13
				job.Examples = job.Examples.WithFolder(t.TempDir())
			}
			messages := storm(random, 300, rowPartitions, outcomePartitions, byKey)
			late := job
			late.Name = "late"
			var held []timed
			for rest := messages; ; {
				n := min(len(rest), random.IntN(300))
				chunk := append(held, rest[:n]...)
				held, rest = nil, rest[n:]
				if behind := []string{views, buys, ""}[random.IntN(3)]; len(rest) > 0 { // one topic has its messages later than the other
					for _, m := range chunk {
						if m.topic == behind {
							held = append(held, m)
						}
					}
					chunk = slices.DeleteFunc(chunk, func(m timed) bool { return m.topic == behind })
				}
				send(t, log, chunk...)
				kills := random.IntN(4)
				for range kills {
					p := topics.Open(log, job.Name, nil)
					noError(t, topics.Create(t.Context(), p, &job))
					p.Log = &mortal{Log: p.Log, random: rand.New(rand.NewPCG(seed, random.Uint64())), left: 1 + random.IntN(400)}
					if err := source.FollowTopic(t.Context(), p, job, true, event.Ignore{}); err != nil && !errors.Is(err, errKilled) {
						t.Fatal(err)
					}
				}
				both, _ := errgroup.WithContext(t.Context())
				for range 1 + random.IntN(2) {
					both.Go(func() error { return source.Follow(t.Context(), log, job, true, event.Ignore{}) })
				}
				noError(t, both.Wait())
				if len(rest) == 0 {
					break
				}
			}
			want := naively(t, job, messages)
			if got := labelled(t, log, job); !maps.Equal(got, want) {
				for n := range 300 {
					if got[n] != want[n] {
						t.Errorf("row %d is %q, expected %q", n, got[n], want[n])
					}
				}
			}
			followToEnd(t, log, late)
			if got := labelled(t, log, late); !maps.Equal(got, want) {
				t.Errorf("a process that begins late has %d examples, expected %d", len(got), len(want))
			}
		})
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
		"mixed":   {text, func(n int) []byte { return fmt.Appendf(nil, []string{"%d", "K%d"}[n/2%2], 1000+n) }, 0, 100, 0},
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
			if len(said) != min(1, int(test.alone)) || len(said) > 0 && strings.Count(said[0].Text, ", read as ") != 2 {
				t.Errorf("%d outcomes have no row, and the notices are %q", test.alone, said)
			}
			if why := last.Outcomes.Why(); !last.Offered && !strings.Contains(why, `its key has the bytes 31 33 39 39, read as "1399"`) {
				t.Errorf("the keys are not shown: %s", why)
			}
		})
	}
}
