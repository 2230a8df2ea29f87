package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

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
	"github.com/stagewise/stagewise/schemas/wire"
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
	if err := log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: 5}); err != nil {
		t.Fatal(err)
	}
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
		if _, err := log.Append(t.Context(), topic, partition%5, kafkalog.Message{Value: []byte(value.String())}); err != nil {
			t.Fatal(err)
		}
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
		examples, err := examples.Decode(m.Value, mem)
		if err != nil {
			t.Fatal(err)
		}
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
	if err := source.Follow(t.Context(), log, job, true, recorder); err != nil {
		t.Fatal(err)
	}
	return recorder
}

// What a topic has is counted once, however often it is followed, and a run without files trains on it.
func TestFollowToTheEnd(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 100)
	for _, rows := range []int{100, 100, 130} {
		if rows > 100 {
			click(t, log, 100, rows)
		}
		followToEnd(t, log, job)
		checkCounted(t, log, job, rows)
	}
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		if value := protocol.FromKafka(m); value.Get("stagewise-source") != "topic:clicks/1" {
			t.Errorf("a message is of %s", value.Get("stagewise-source"))
		}
	}
	if report, _ := train(t, log, job); report.Rows != 130 || report.Classes != 2 || len(report.PassedOver) > 0 {
		t.Errorf("%d rows of %d classes, passed over %v; expected 130 of 2", report.Rows, report.Classes, report.PassedOver)
	}
}

// A chain counts the rows of a topic once, and goes on where the version before it ended.
func TestChainOnAFollowedTopic(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows = 100
	learnt := int64(0)
	for _, rows := range []int{200, 400} {
		click(t, log, rows-200, rows)
		followToEnd(t, log, job)
		messages := readTopic(t, log, protocol.TopicsOf(job.Name).Examples)
		last := messages[len(messages)-1]
		if _, err := log.Append(t.Context(), protocol.TopicsOf(job.Name).Examples, last.Partition, last); err != nil { // a repeated write
			t.Fatal(err)
		}
		result, err := Retrain(t.Context(), log, openBLAS(t), job, true, &eventRecorder{})
		if err != nil {
			t.Fatal(err)
		}
		learnt += result.Rows
	}
	if learnt != 400 {
		t.Errorf("%d rows were learnt, expected 400", learnt)
	}
}

// A message of a topic that was counted once is never counted again, though full runs go over the window anew, and though its first copy
// has left the window.
func TestChainCountsRepeatedRowsOfATopicOnce(t *testing.T) {
	long(t)
	for _, increments := range []int{0, 2} {
		log := openEmbedded(t)
		job := clicks(t, log, 0)
		job.Retrain = topics.DefaultRetrain()
		job.Retrain.Rows, job.Retrain.Full, job.Retrain.Window.Increments = 64, topics.FullOptions{Every: 2}, increments
		learnt, full, window := int64(0), 0, int64(0)
		for rows := 150; rows <= 450; rows += 150 {
			click(t, log, rows-150, rows)
			followToEnd(t, log, job)
			for range 2 { // before and after full runs
				for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
					if m.Offset < 6 {
						produce(t, log, job, m.Partition, m)
					}
				}
				result, err := Retrain(t.Context(), log, openBLAS(t), job, true, &eventRecorder{})
				if err != nil {
					t.Fatal(err)
				}
				learnt += result.Rows
				for _, u := range result.Updates {
					if window = u.WindowRows; u.Kind == schemas.RunFull {
						full++
					}
				}
			}
		}
		if learnt != 450 || full < 3 || increments == 0 && window != 450 || increments > 0 && window > 2*80 {
			t.Errorf("a window of %d increments: %d rows were learnt, %d are in the window after %d full runs; expected 450 rows",
				increments, learnt, window, full)
		}
	}
}

// Without an end, rows that come later are written too, those of a quiet topic after a while.
func TestFollowWithoutEnd(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 20)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	written, ended := make(chan int64, 100), make(chan error, 1)
	go func() {
		ended <- source.Follow(ctx, log, job, false, &eventRecorder{on: func(e event.Event) {
			if i, ok := e.(event.Ingested); ok {
				written <- i.Rows
			}
		}})
	}()
	for rows := int64(0); rows < 20; rows = <-written {
	}
	click(t, log, 20, 43)
	for rows := int64(0); rows < 43; rows = <-written {
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, expected an interruption", err)
	}
	checkCounted(t, log, job, 43)
}

// A value that can't be used goes into quarantine with its place and the reason, or ends ingest if the job says so. The others count.
func TestFollowQuarantines(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 30)
	if _, err := log.Append(t.Context(), "clicks", 3, kafkalog.Message{Key: []byte("k"), Value: []byte("a,0,x")},
		kafkalog.Message{}); err != nil {
		t.Fatal(err)
	}
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
	if err := log.Delete(t.Context(), "clicks"); err != nil {
		t.Fatal(err)
	}
	if err := log.Create(t.Context(), kafkalog.Topic{Name: "clicks", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
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
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
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

// A topic that is made anew while it is followed, with as many messages as it had and more, is not taken for the one before it.
func TestFollowTopicMadeAnewMeanwhile(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	job.Examples.Partitions = 1
	clicksAt(t, log, 100, 0, 0)
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- source.Follow(t.Context(), log, job, false, &eventRecorder{on: func(e event.Event) {
			if _, ok := e.(event.Following); ok {
				close(begun)
			}
		}})
	}()
	<-begun
	awaitRows(t, log, job, 100)
	clicksAt(t, log, 0, 200, 330)
	if err := <-ended; !errors.As(err, new(*source.ChangedTopicError)) {
		t.Errorf("following ended with %v, expected that the topic has changed", err)
	}
	checkCounted(t, log, job, 100)
}

// What is written to a topic after it has lost messages counts once, if ingest goes on behind them.
func TestFollowBehindWhatWasLost(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	job.Examples.Partitions = 1
	clicksAt(t, log, 100, 0, 0)
	followToEnd(t, log, job)
	clicksAt(t, log, 90, 0, 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	written, ended := make(chan int64, 100), make(chan error, 1)
	job.Examples.OnChangedTopic = ingest.ChangedTopicBehind
	go func() {
		ended <- source.Follow(ctx, log, job, false, &eventRecorder{on: func(e event.Event) {
			switch e := e.(type) {
			case event.Following:
				written <- 0
			case event.Ingested:
				written <- e.Rows
			}
		}})
	}()
	<-written
	for i := range 20 {
		if _, err := log.Append(t.Context(), "clicks", 0, kafkalog.Message{Value: fmt.Appendf(nil, "a,0,%d", 100+i)}); err != nil {
			t.Fatal(err)
		}
	}
	for rows := int64(0); rows < 20; rows = <-written {
	}
	stop()
	<-ended
	checkCounted(t, log, job, 120)
}

// If one partition of a topic has lost something, the others are read on where they were, also by a process that begins
// before all partitions of the examples have got rows since.
func TestFollowBehindWhatOnePartitionHasLost(t *testing.T) {
	long(t)
	t.Parallel()
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	clicksAgain(t, log, 5, upTo(0, 100), 100)
	followToEnd(t, log, job)
	clicksAgain(t, log, 5, append(upTo(0, 95), upTo(96, 100)...), 100) // partition 0 has lost its last
	job.Examples.OnChangedTopic = ingest.ChangedTopicBehind
	add := func(partition int, rows ...int) {
		t.Helper()
		for _, i := range rows {
			if _, err := log.Append(t.Context(), "clicks", partition, kafkalog.Message{Value: fmt.Appendf(nil, "a,0,%d", i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(2, 100, 101) // of the first partition of the examples, as the one that has lost something
	followToEnd(t, log, job)
	checkCounted(t, log, job, 102)
	job.Examples.OnChangedTopic = ingest.ChangedTopicStop
	followToEnd(t, log, job)
	checkCounted(t, log, job, 102)
	add(0, 102)
	add(4, 103)
	followToEnd(t, log, job)
	checkCounted(t, log, job, 104)
	add(1, 104)
	add(3, 105)
	for range 2 {
		followToEnd(t, log, job)
	}
	checkCounted(t, log, job, 106)
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
			if _, err := log.Append(t.Context(), "clicks", 0, kafkalog.Message{Value: fmt.Appendf(nil, "a,0,%d", 100+i)}); err != nil {
				t.Fatal(err)
			}
		}
		deleteRecords(t, log, "clicks", 0, first)
		rec := followToEnd(t, log, job)
		if rows := countedRows(t, log, job); len(rows) != want {
			t.Errorf("without the offsets before %d: %d rows count, expected %d", first, len(rows), want)
		}
		said := slices.ContainsFunc(eventsOf[event.Noticed](rec), func(n event.Noticed) bool {
			return strings.HasPrefix(n.Text, "10 offsets of clicks[0] were deleted before they were read: 100 to 109")
		})
		if said != (first == 110) {
			t.Errorf("without the offsets before %d: notices %v", first, eventsOf[event.Noticed](rec))
		}
	}
}

// following follows a topic in a goroutine until stop, which checks how it has ended. begun is closed once it has found how far the topic
// was read.
func following(t *testing.T, log *kafkalog.Log, job topics.Job) (begun <-chan struct{}, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	found, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- source.Follow(ctx, log, job, false, &eventRecorder{on: func(e event.Event) {
			if _, ok := e.(event.Following); ok {
				close(found)
			}
		}})
	}()
	return found, func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("following ended with %v", err)
		}
	}
}

// awaitRows reads the examples until as many messages of the followed topic count as have rows up to want, in any partition.
func awaitRows(t *testing.T, log *kafkalog.Log, job topics.Job, want int) {
	t.Helper()
	examples, from := protocol.TopicsOf(job.Name).Examples, []protocol.Position(nil)
	spans, err := topics.Open(log, job.Name, nil).Log.Spans(t.Context(), examples)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range spans {
		from = append(from, protocol.Position{Topic: examples, Partition: s.Partition, Offset: s.To})
	}
	subscription := topics.Open(log, job.Name, nil).Log.Subscribe(t.Context(), nil, from...)
	defer subscription.Close()
	for len(countedRows(t, log, job)) < want {
		if _, _, err := subscription.Next(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// A topic keeps its partitions of the examples when these get more, also while processes that have begun before and
// after that share it. Rows are neither lost nor doubled, whatever they take to be the number of partitions.
func TestFollowWhilePartitionsAreAdded(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 20)
	begun, stop := following(t, log, job)
	<-begun
	awaitRows(t, log, job, 20)
	addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, 4)
	click(t, log, 20, 40)
	other := connect(t, log)
	begun, stopOther := following(t, other, job) // the next process of a rolling restart
	<-begun
	click(t, log, 40, 100)
	awaitRows(t, log, job, 100)
	stop()
	click(t, log, 100, 140)
	awaitRows(t, log, job, 140)
	stopOther()
	addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, 7)
	click(t, log, 140, 200)
	followToEnd(t, log, job)
	checkCounted(t, log, job, 200)
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		if o, ok := schemas.OriginOf(protocol.FromKafka(m)); !ok || o.Partitions != 2 || m.Partition >= 2 {
			t.Fatalf("a message in partition %d has the origin %+v, expected one of the first two partitions, of 2", m.Partition, o)
		}
	}
}

// Two processes that begin to follow a topic before and after partitions were added, both before there is a row, divide it in one way.
func TestFollowDividesATopicOnce(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	begun, stop := following(t, log, job)
	<-begun
	addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, 3)
	begun, stopOther := following(t, connect(t, log), job)
	<-begun
	click(t, log, 0, 60)
	awaitRows(t, log, job, 60)
	stop()
	click(t, log, 60, 120)
	awaitRows(t, log, job, 120)
	stopOther()
	followToEnd(t, log, job)
	checkCounted(t, log, job, 120)
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		if o, ok := schemas.OriginOf(protocol.FromKafka(m)); !ok || o.Partitions != 2 || m.Partition >= 2 {
			t.Fatalf("a message in partition %d has the origin %+v, expected one of the first two partitions, of 2", m.Partition, o)
		}
	}
}

// So do two of which the first has listed the partitions before one was added, and the second decides over how many the topic is divided.
func TestFollowHeedsADivisionOverMorePartitions(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 30)
	names := protocol.TopicsOf(job.Name)
	beside := connect(t, log)
	p := topics.Open(log, job.Name, nil)
	if err := topics.Create(t.Context(), p, &job); err != nil {
		t.Fatal(err)
	}
	p.Log = &writesFirst{p.Log, names.Plans, func(ctx context.Context) error {
		addPartitions(t, log, names.Examples, 3)
		if err := source.Follow(ctx, beside, job, true, event.Ignore{}); err != nil {
			return err
		}
		click(t, log, 30, 60)
		return nil
	}}
	if err := source.FollowTopic(t.Context(), p, job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	followToEnd(t, log, job)
	checkCounted(t, log, job, 60)
	for _, m := range readTopic(t, log, names.Examples) {
		if o, ok := schemas.OriginOf(protocol.FromKafka(m)); !ok || o.Partitions != 3 {
			t.Fatalf("a message in partition %d has the origin %+v, expected one of a division over 3", m.Partition, o)
		}
	}
}

// A process that does not know yet that the topic has changed writes behind one that goes on behind the change: what it
// has read counts, and counts once.
func TestFollowBesideAProcessThatKnowsNoChange(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	job.Examples.Partitions = 1
	clicksAt(t, log, 100, 0, 0)
	followToEnd(t, log, job)
	batch := protocol.TopicsOf(job.Name).Examples
	clicksAt(t, log, 98, 100, 102) // the last two are others now
	stale := readTopic(t, log, "clicks")[99]
	p := topics.Open(log, job.Name, nil)
	f := &source.Feed{Following: &source.Following{Pipeline: p, Topic: "clicks", Job: job, Partitions: 1, Recorder: event.Ignore{},
		Bounds: []coverage.Span{{To: 100}}}}
	var err error
	if f.Seen, err = protocol.ReadTopicProgress(t.Context(), f.Client, f.Topic, coverage.Span{To: int64(len(readTopic(t, log, batch)))}, 16); err != nil {
		t.Fatal(err)
	}
	job.Examples.OnChangedTopic = ingest.ChangedTopicBehind
	faults := &writesFirst{Log: p.Log, topic: batch, write: func(ctx context.Context) error {
		origin := schemas.Origin{Source: schemas.TopicSource("clicks"), Attempt: "1", Sequence: f.Seen.Next, Partitions: 1}
		positions := []schemas.TopicPosition{{Next: 105, Last: source.DigestOf(protocol.Message{Message: protocol.FromKafka(stale),
			Time: stale.Time})}}
		rows := &examples.Rows{Rows: 5, Cols: 2, Words: slices.Repeat([]string{"a"}, 5)}
		for i := range 5 {
			rows.Floats = append(rows.Floats, 0, float32(102+i))
		}
		m, err := origin.TopicMessage(positions, rows, p.Memory)
		if err == nil {
			_, err = p.Log.Append(ctx, batch, 0, m)
		}
		return err
	}}
	for i := range 5 { // at the offsets 100 to 104, which the process that knows no change reads too
		if _, err := log.Append(t.Context(), "clicks", 0, kafkalog.Message{Value: fmt.Appendf(nil, "a,0,%d", 102+i)}); err != nil {
			t.Fatal(err)
		}
	}
	other := topics.Open(log, job.Name, nil)
	other.Log = faults
	if err := source.FollowTopic(t.Context(), other, job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	rows := countedRows(t, log, job)
	if twice := len(rows) - len(slices.Compact(slices.Clone(rows))); twice > 0 || len(rows) != 105 {
		t.Errorf("%d rows count, %d of them twice, expected 105", len(rows), twice)
	}
}

// writesFirst is a log to a topic of which another process writes once before the first write.
type writesFirst struct {
	protocol.Log
	topic string
	write func(context.Context) error
}

func (w *writesFirst) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	if topic == w.topic && w.write != nil {
		write := w.write
		w.write = nil
		if err := write(ctx); err != nil {
			return 0, err
		}
	}
	return w.Log.Append(ctx, topic, partition, messages...)
}

// A pipeline does not follow a topic that is missing, or one of its own.
func TestFollowTopicsThatCantBe(t *testing.T) {
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

// unreliable is a log whose writes to a topic fail: before or after they are applied, later, or twice.
type unreliable struct {
	protocol.Log
	topic string

	mutex  sync.Mutex
	random *rand.Rand
	late   map[int][]wire.Message // by partition: what a client that was stopped is still going to write
}

var errDied = errors.New("killed")

func (u *unreliable) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	if topic != u.topic {
		return u.Log.Append(ctx, topic, partition, messages...)
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.random.IntN(3) == 0 {
		if _, err := u.Log.Append(ctx, topic, partition, u.late[partition]...); err != nil {
			return 0, err
		}
		delete(u.late, partition)
	}
	switch u.random.IntN(8) {
	case 0:
		return 0, errDied
	case 1:
		u.late[partition] = append(u.late[partition], messages...)
		return 0, errDied
	case 2:
		if _, err := u.Log.Append(ctx, topic, partition, messages...); err != nil {
			return 0, err
		}
		return 0, errDied
	case 3:
		if _, err := u.Log.Append(ctx, topic, partition, messages...); err != nil {
			return 0, err
		}
	}
	return u.Log.Append(ctx, topic, partition, messages...)
}

// Several processes that follow a topic, and are killed at any write, count each row once: also those that did not see each other's
// writes, and those whose writes come late or twice.
func TestFollowCountsOnce(t *testing.T) {
	for seed := range uint64(6) {
		log := openEmbedded(t)
		job := clicks(t, log, 150)
		if err := topics.Create(t.Context(), topics.Open(log, job.Name, nil), &job); err != nil {
			t.Fatal(err)
		}
		faults := &unreliable{Log: topics.Open(log, job.Name, nil).Log, topic: protocol.TopicsOf(job.Name).Examples,
			random: rand.New(rand.NewPCG(seed, 1)), late: map[int][]wire.Message{}}
		var processes errgroup.Group
		for range 1 + int(seed%3) {
			processes.Go(func() error {
				for {
					p := topics.Open(log, job.Name, nil)
					p.Log = faults
					if err := source.FollowTopic(t.Context(), p, job, true, &eventRecorder{}); !errors.Is(err, errDied) {
						return err
					}
				}
			})
		}
		if err := processes.Wait(); err != nil {
			t.Fatal(err)
		}
		for partition, messages := range faults.late {
			if _, err := faults.Log.Append(t.Context(), faults.topic, partition, messages...); err != nil {
				t.Fatal(err)
			}
		}
		checkCounted(t, log, job, 150)
		click(t, log, 150, 160)
		followToEnd(t, log, job)
		checkCounted(t, log, job, 160)
	}
}
