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
)

// clicks is a job whose examples come from a topic of five partitions, and the log that has the topic. Row i is a line of CSV, and its
// second feature is i.
func clicks(t *testing.T, log *kafkalog.Log, rows int) topics.Job {
	t.Helper()
	return clicksOn(t, log, "clicks", rows)
}

// clicksOn is clicks on a topic of another name.
func clicksOn(t *testing.T, log *kafkalog.Log, topic string, rows int) topics.Job {
	t.Helper()
	job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.Train, job.Examples.FromTopic, job.Examples.Format = nil, topic, "csv"
	job.Examples.Partitions, job.Examples.BatchRows = 2, 8
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: 5}))
	clickOn(t, log, topic, 0, rows)
	return job
}

// click writes the rows from to to (excluded), one or three in a message.
func click(t *testing.T, log *kafkalog.Log, from, to int) {
	t.Helper()
	clickOn(t, log, "clicks", from, to)
}

func clickOn(t *testing.T, log *kafkalog.Log, topic string, from, to int) {
	t.Helper()
	for partition := 0; from < to; partition++ {
		var value strings.Builder
		for range min(1+2*(partition%2), to-from) {
			fmt.Fprintf(&value, "%c,%d,%d\n", 'a'+rune(from%2), from%2, from)
			from++
		}
		must(log.Append(t.Context(), topic, partition%5, kafkalog.Message{Value: []byte(value.String())}))(t)
	}
}

// countedRows returns the second features of the rows that a run without files counts, sorted.
func countedRows(t *testing.T, log *kafkalog.Log, job topics.Job) (rows []int) {
	t.Helper()
	mem := arrowtest.Allocator(t)
	replays := map[int]*protocol.SpanCounting{}
	counting := protocol.NewCounting(&schemas.Plan{Foreign: true})
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		if replays[m.Partition] == nil {
			replays[m.Partition] = counting.Replay(coverage.Span{Partition: m.Partition})
		}
		if replays[m.Partition].Accept(protocol.FromKafka(m)) != "" {
			continue
		}
		examples := must(examples.Decode(m.Value, mem))(t)
		features := make([]float32, examples.Rows*examples.Width)
		examples.Features(features, examples.Width)
		for i := range examples.Rows {
			rows = append(rows, int(features[i*examples.Width+1]))
		}
		examples.Release()
	}
	slices.Sort(rows)
	return rows
}

func checkCounted(t *testing.T, log *kafkalog.Log, job topics.Job, rows int) {
	t.Helper()
	want := make([]int, rows)
	for i := range want {
		want[i] = i
	}
	if got := countedRows(t, log, job); !slices.Equal(got, want) {
		t.Errorf("the rows that count are %v, expected 0 to %d, each once", got, rows-1)
	}
}

func followToEnd(t *testing.T, log *kafkalog.Log, job topics.Job) *eventRecorder {
	t.Helper()
	recorder := &eventRecorder{}
	noError(t, source.Follow(t.Context(), log, job, true, recorder))
	return recorder
}

// A value that can't be used goes into quarantine with its place and the reason, or ends ingest if the job says so. The others count.
func TestFollowQuarantines(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 30)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traced := func(value string) []kafkalog.Header {
		return []kafkalog.Header{{Key: "traceparent", Value: []byte(value)}}
	}
	must(log.Append(t.Context(), "clicks", 3, kafkalog.Message{Key: []byte("k"), Value: []byte("a,0,x"), Headers: traced(trace)},
		kafkalog.Message{Headers: traced("none")}))(t)
	click(t, log, 30, 60)
	strict := job
	strict.OnBadMessage = schemas.StopOnBadMessage
	if err := source.Follow(t.Context(), log, strict, true, &eventRecorder{}); err == nil || !strings.HasPrefix(err.Error(),
		"clicks[3]@") || !strings.Contains(err.Error(), `: column 2: … is not a number: `) {
		t.Errorf("got error %v, expected one about the value", err)
	}
	recorder := followToEnd(t, log, job)
	checkCounted(t, log, job, 60)
	var reasons []string
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		bad := protocol.FromKafka(m)
		if bad.Get("topic") != "clicks" || bad.Get("partition") != "3" || !strings.HasPrefix(bad.Key, "clicks/3/") {
			t.Errorf("a message in quarantine has the key %s and the headers %v", bad.Key, bad.Headers)
		}
		if want := map[bool]string{true: trace}[bad.Get("key") == "k"]; bad.Get("traceparent") != want {
			t.Errorf("traceparent %q, expected %q", bad.Get("traceparent"), want)
		}
		reasons = append(reasons, bad.Get("reason"))
	}
	if want := []string{`column 2: "x" is not a number: examples.categorical accepts columns of words, examples.columns.drop excludes a column, ` +
		"examples.missing_values lists the words for a missing value",
		"an empty value: expected one example a line, without a header"}; !slices.Equal(reasons, want) {
		t.Errorf("in quarantine because of %q, expected %q", reasons, want)
	}
	if events := eventsOf[event.Quarantined](recorder); len(events) != 2 || events[0].Topic != "clicks" {
		t.Errorf("recorded %v", events)
	}
}

// clicksAgain makes the topic of clicks anew, with the rows in turn on its partitions. Each has a time of its own,
// which is later from the row later on.
func clicksAgain(t *testing.T, log *kafkalog.Log, partitions int, rows []int, later int) {
	t.Helper()
	noError(t, log.Delete(t.Context(), "clicks"))
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "clicks", Partitions: partitions}))
	client := must(kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	defer client.Close()
	for _, i := range rows {
		at := time.UnixMilli(1_700_000_000_000)
		if i >= later {
			at = time.UnixMilli(1_800_000_000_000)
		}
		r := &kgo.Record{
			Topic: "clicks", Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%c,%d,%d\n", 'a'+rune(i%2), i%2, i),
			Timestamp: at.Add(time.Duration(i) * time.Second),
		}
		noError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
}

// upTo returns the numbers from from to to (excluded).
func upTo(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// clicksAt makes the topic of clicks anew with one partition, and with the rows from 0 to before, and later those from from to to.
func clicksAt(t *testing.T, log *kafkalog.Log, before, from, to int) {
	t.Helper()
	clicksAgain(t, log, 1, append(upTo(0, before), upTo(from, to)...), max(from, before))
}

// If a topic no longer has what was read last, ingest stops until the operator has said whether to go on behind that or
// to read another topic. No row counts twice unless it is another topic.
func TestFollowTopicThatHasChanged(t *testing.T) {
	for name, test := range map[string]struct {
		before, from, to int    // of clicksAt, after 100 rows were read
		why              string // "" if it is the same topic
		behind           []int  // the rows that count then beside the first 100, if reading goes on behind, first and end
	}{
		"it has more":                    {before: 100, from: 100, to: 130, behind: []int{100, 130}},
		"it has lost the last":           {before: 99, why: "it ends at offset 99"},
		"it has lost some":               {before: 40, why: "it ends at offset 40"},
		"it has lost all":                {why: "it ends at offset 0"},
		"it has lost some and got more":  {before: 80, from: 100, to: 150, why: "another message is there", behind: []int{120, 150}},
		"it has lost some and got fewer": {before: 80, from: 100, to: 110, why: "it ends at offset 90"},
		"it was made anew":               {from: 200, to: 300, why: "another message is there"},
		"it was made anew with more":     {from: 200, to: 310, why: "another message is there", behind: []int{300, 310}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // who decides waits for a while, lest a leader has more to say
			for _, choice := range []string{ingest.ChangedTopicBehind, ingest.ChangedTopicAnew} {
				log := openEmbedded(t)
				job := clicks(t, log, 0)
				job.Examples.Partitions = 1
				clicksAt(t, log, 100, 0, 0)
				followToEnd(t, log, job)
				checkCounted(t, log, job, 100)
				clicksAt(t, log, test.before, test.from, test.to)
				err := source.Follow(t.Context(), log, job, true, event.Ignore{})
				changed, ok := errors.AsType[*source.ChangedTopicError](err)
				if ok != (test.why != "") || err != nil && !ok {
					t.Fatalf("got error %v, expected one because of %q", err, test.why)
				}
				if ok && (changed.Why != test.why || changed.Last != 99 || !strings.Contains(err.Error(), "examples.on_changed_topic to behind")) {
					t.Errorf("got error %v, expected %s", err, test.why)
				}
				job.Examples.OnChangedTopic = choice
				want := upTo(0, 100)
				switch {
				case choice == ingest.ChangedTopicAnew && ok:
					want = slices.Concat(want, upTo(0, test.before), upTo(test.from, test.to))
				case len(test.behind) > 0:
					want = append(want, upTo(test.behind[0], test.behind[1])...)
				}
				followToEnd(t, log, job)
				if len(want) > 100 { // the choice is on the topic
					followToEnd(t, log, job)
					job.Examples.OnChangedTopic = ingest.ChangedTopicStop
					followToEnd(t, log, job)
				}
				slices.Sort(want)
				if got := countedRows(t, log, job); !slices.Equal(got, want) {
					t.Errorf("%s: the rows %v count, expected %v", choice, got, want)
				}
			}
		})
	}
}

// What retention has deleted of a topic, read or not, is no change of the topic. What was not read is said.
func TestFollowTopicThatForgets(t *testing.T) {
	for first, want := range map[int64]int{50: 130, 100: 130, 110: 120} {
		log := openEmbedded(t)
		job := clicks(t, log, 0)
		job.Examples.Partitions = 1
		clicksAt(t, log, 100, 0, 0)
		followToEnd(t, log, job)
		for i := range 30 {
			must(log.Append(t.Context(), "clicks", 0, kafkalog.Message{Value: fmt.Appendf(nil, "a,0,%d", 100+i)}))(t)
		}
		deleteRecords(t, log, "clicks", 0, first)
		rec := followToEnd(t, log, job)
		if rows := countedRows(t, log, job); len(rows) != want {
			t.Errorf("without the offsets before %d: %d rows count, expected %d", first, len(rows), want)
		}
		said := slices.ContainsFunc(eventsOf[event.Lost](rec), func(e event.Lost) bool {
			return e == event.Lost{Topic: "clicks", From: 100, To: 110}
		})
		if said != (first == 110) {
			t.Errorf("without the offsets before %d: notices %v", first, eventsOf[event.Noticed](rec))
		}
	}
}

// A pipeline does not follow a topic that is missing, or one of its own.
func TestFollowTopicsThatCantBe(t *testing.T) {
	long(t)
	log := openEmbedded(t)
	job := clicks(t, log, 1)
	job.Examples.FromTopic = job.Name + ".examples"
	if err := source.Follow(t.Context(), log, job, true, &eventRecorder{}); !errors.As(err, new(*source.OwnTopicError)) {
		t.Errorf("its own topic: %v", err)
	}
	job.Examples.FromTopic = "visits"
	if err := source.Follow(t.Context(), log, job, true, &eventRecorder{}); !errors.Is(err, kafkalog.ErrUnknownTopic) {
		t.Errorf("a topic that is missing: %v", err)
	}
}
