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

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// clicks is a job whose examples come from a topic of five partitions, and the log that has the topic. Row i is a line of CSV, and its
// second feature is i.
func clicks(t *testing.T, log *kafkalog.Log, rows int) Job {
	t.Helper()
	job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.Train, job.Examples.FromTopic, job.Examples.Format = nil, "clicks", "csv"
	job.Examples.Partitions, job.Examples.BatchRows = 2, 8
	if err := log.Create(t.Context(), kafkalog.Topic{Name: "clicks", Partitions: 5}); err != nil {
		t.Fatal(err)
	}
	click(t, log, 0, rows)
	return job
}

// click writes the rows from to to (excluded), one or three in a message.
func click(t *testing.T, log *kafkalog.Log, from, to int) {
	t.Helper()
	for partition := 0; from < to; partition++ {
		var value strings.Builder
		for range min(1+2*(partition%2), to-from) {
			fmt.Fprintf(&value, "%c,%d,%d\n", 'a'+rune(from%2), from%2, from)
			from++
		}
		if _, err := log.Append(t.Context(), "clicks", partition%5, kafkalog.Message{Value: []byte(value.String())}); err != nil {
			t.Fatal(err)
		}
	}
}

// countedRows returns the second features of the rows that a run without files counts, sorted.
func countedRows(t *testing.T, log *kafkalog.Log, job Job) (rows []int) {
	t.Helper()
	mem := checkedAllocator(t)
	replays := map[int]*ingest.Replay{}
	counting := ingest.NewCounting(&schemas.Plan{Foreign: true})
	for _, m := range readTopic(t, log, run.TopicsOf(job.Name).Examples) {
		if replays[m.Partition] == nil {
			replays[m.Partition] = counting.Replay(schemas.Span{Partition: m.Partition})
		}
		if replays[m.Partition].Accept(run.FromKafka(m)) != "" {
			continue
		}
		examples, err := schemas.DecodeExamples(m.Value, mem)
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

func checkCounted(t *testing.T, log *kafkalog.Log, job Job, rows int) {
	t.Helper()
	want := make([]int, rows)
	for i := range want {
		want[i] = i
	}
	if got := countedRows(t, log, job); !slices.Equal(got, want) {
		t.Errorf("the rows that count are %v, expected 0 to %d, each once", got, rows-1)
	}
}

func followToEnd(t *testing.T, log *kafkalog.Log, job Job) *eventRecorder {
	t.Helper()
	recorder := &eventRecorder{}
	if err := Follow(t.Context(), log, job, true, recorder); err != nil {
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
	for _, m := range readTopic(t, log, run.TopicsOf(job.Name).Examples) {
		if value := run.FromKafka(m); value.Get("stagewise-source") != "topic:clicks/1" {
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
	job.Retrain = DefaultRetrain()
	job.Retrain.Rows = 100
	learnt := int64(0)
	for _, rows := range []int{200, 400} {
		click(t, log, rows-200, rows)
		followToEnd(t, log, job)
		messages := readTopic(t, log, run.TopicsOf(job.Name).Examples)
		last := messages[len(messages)-1]
		if _, err := log.Append(t.Context(), run.TopicsOf(job.Name).Examples, last.Partition, last); err != nil { // a repeated write
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
	for _, increments := range []int{0, 2} {
		log := openEmbedded(t)
		job := clicks(t, log, 0)
		job.Retrain = DefaultRetrain()
		job.Retrain.Rows, job.Retrain.Full, job.Retrain.Window.Increments = 64, FullOptions{Every: 2}, increments
		learnt, full, window := int64(0), 0, int64(0)
		for rows := 150; rows <= 450; rows += 150 {
			click(t, log, rows-150, rows)
			followToEnd(t, log, job)
			for range 2 { // before and after full runs
				for _, m := range readTopic(t, log, run.TopicsOf(job.Name).Examples) {
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
			t.Errorf("a window of %d increments: %d rows were learnt, %d are in the window after %d full runs; expected 450 rows", increments, learnt, window, full)
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
		ended <- Follow(ctx, log, job, false, &eventRecorder{on: func(e event.Event) {
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
	if _, err := log.Append(t.Context(), "clicks", 3, kafkalog.Message{Key: []byte("k"), Value: []byte("a,0,x")}, kafkalog.Message{}); err != nil {
		t.Fatal(err)
	}
	click(t, log, 30, 60)
	strict := job
	strict.OnBadMessage = schemas.StopOnBadMessage
	if err := Follow(t.Context(), log, strict, true, &eventRecorder{}); err == nil || !strings.HasPrefix(err.Error(), "clicks[3]@") || !strings.HasSuffix(err.Error(), `: column 2: "x" is not a number`) {
		t.Errorf("got error %v, expected one about the value", err)
	}
	recorder := followToEnd(t, log, job)
	checkCounted(t, log, job, 60)
	var reasons []string
	for _, m := range readTopic(t, log, run.TopicsOf(job.Name).Quarantine) {
		bad := run.FromKafka(m)
		if bad.Get("topic") != "clicks" || bad.Get("partition") != "3" || !strings.HasPrefix(bad.Key, "clicks/3/") {
			t.Errorf("a message in quarantine has the key %s and the headers %v", bad.Key, bad.Headers)
		}
		reasons = append(reasons, bad.Get("reason"))
	}
	if want := []string{`column 2: "x" is not a number`, "an empty value: expected one example a line, without a header"}; !slices.Equal(reasons, want) {
		t.Errorf("in quarantine because of %q, expected %q", reasons, want)
	}
	if events := eventsOf[event.Quarantined](recorder); len(events) != 2 || events[0].Topic != "clicks" {
		t.Errorf("recorded %v", events)
	}
}

// A topic that was made anew is read from its beginning, and so is one of a name that the pipeline has not read.
func TestFollowTopicMadeAnew(t *testing.T) {
	for name, rows := range map[string]int{"longer": 150, "shorter": 30} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := clicks(t, log, 100)
			followToEnd(t, log, job)
			if err := log.Delete(t.Context(), "clicks"); err != nil {
				t.Fatal(err)
			}
			clicks(t, log, rows)
			for range 2 {
				followToEnd(t, log, job)
			}
			want := 100 + rows
			if got := countedRows(t, log, job); len(got) != want {
				t.Errorf("%d rows count, expected %d", len(got), want)
			}
		})
	}
}

// A pipeline does not follow a topic that is missing, or one of its own.
func TestFollowTopicsThatCantBe(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 1)
	job.Examples.FromTopic = job.Name + ".examples"
	if err := Follow(t.Context(), log, job, true, &eventRecorder{}); !errors.As(err, new(*OwnTopicError)) {
		t.Errorf("its own topic: %v", err)
	}
	job.Examples.FromTopic = "visits"
	if err := Follow(t.Context(), log, job, true, &eventRecorder{}); !errors.Is(err, kafkalog.ErrUnknownTopic) {
		t.Errorf("a topic that is missing: %v", err)
	}
}

// unreliable is a log whose writes to a topic fail: before or after they are applied, later, or twice.
type unreliable struct {
	run.Log
	topic string

	mutex  sync.Mutex
	random *rand.Rand
	late   map[int][]schemas.Message // by partition: what a client that was stopped is still going to write
}

var errDied = errors.New("killed")

func (u *unreliable) Append(ctx context.Context, topic string, partition int, messages ...schemas.Message) (int64, error) {
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
		faults := &unreliable{Log: open(log, job.Name, nil).Log, topic: run.TopicsOf(job.Name).Examples, random: rand.New(rand.NewPCG(seed, 1)), late: map[int][]schemas.Message{}}
		var processes errgroup.Group
		for range 1 + int(seed%3) {
			processes.Go(func() error {
				for {
					p := open(log, job.Name, nil)
					p.Log = faults
					if err := p.followTopic(t.Context(), job, true, &eventRecorder{}); !errors.Is(err, errDied) {
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
