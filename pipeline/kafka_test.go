//go:build kafka

package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// openKafka connects to real Kafka, and returns a pipeline's name that nobody uses there.
func openKafka(t *testing.T) (*kafkalog.Log, string) {
	t.Helper()
	brokers := os.Getenv("STAGEWISE_KAFKA")
	if brokers == "" {
		t.Fatal("STAGEWISE_KAFKA is not set: start Kafka with make kafka-up, which prints the value")
	}
	log := must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: strings.Split(brokers, ",")}))(t)
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	t.Cleanup(func() {
		ctx := context.Background()
		all, err := log.Topics(ctx, name+".")
		if err != nil {
			t.Error(err)
		}
		for _, topic := range all {
			if err := log.Delete(ctx, topic.Name); err != nil {
				t.Error(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log, name
}

// A run on real Kafka has the same bits as on the embedded broker, even if it is interrupted and resumed.
func TestKafkaRunHasTheSameDigest(t *testing.T) {
	want, _ := train(t, openEmbedded(t), newMultiStageJob(t))
	log, name := openKafka(t)
	job := newMultiStageJob(t)
	job.Name = name
	trainUntil(t, log, job, func(e event.Event) bool { s, ok := e.(event.StageEnded); return ok && s.Stage == 1 })
	recorder := &eventRecorder{}
	first, _ := trainRecorded(t, log, job, recorder)
	if began := eventsOf[event.Began](recorder); len(began) != 1 || !began[0].Resumed {
		t.Errorf("got events %+v, expected one run that is resumed", began)
	}
	second, model := train(t, log, job)
	for _, r := range []*schemas.Report{first, second} {
		if r.WeightsDigest != want.WeightsDigest || r.Rows != want.Rows {
			t.Errorf("version %d: digest %s, %d rows; on the embedded broker %s, %d", r.Version, r.WeightsDigest, r.Rows, want.WeightsDigest,
				want.Rows)
		}
	}
	if first.Version != 1 || second.Version != 2 || model.Manifest.Version != 2 {
		t.Errorf("versions %d and %d, model version %d; expected 1, 2, 2", first.Version, second.Version, model.Manifest.Version)
	}
}

// The program of Kafka Streams in examples/streams writes the rows and labels that examples.outcome joins, each once, also where another
// process with nothing on its disk goes on.
func TestKafkaStreamsJoinsAsOutcomeDoes(t *testing.T) {
	const partitions, joined = 2, "joined"
	log, name := openKafka(t)
	job := viewJobOf(t, log, name+".", partitions, partitions)
	job.Name = name
	other, reads := openKafka(t)
	of := viewJobOf(t, other, reads+".", 1, 1)
	of.Name = reads
	of.Examples.FromTopic, of.Examples.Label, of.Examples.Outcome = name+"."+joined, "kind", ingest.Defaults().Outcome
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: of.Examples.FromTopic, Partitions: partitions}))
	messages := storm(rand.New(rand.NewPCG(3, 7)), 300, partitions)
	since := time.Now().Add(-2*time.Hour).UnixMilli() - day // brokers delete what is older than a week
	written := make([]timed, len(messages))
	for i, m := range messages {
		m.topic, m.time = name+"."+m.topic, m.time+since
		written[i] = m
	}
	var first, second []timed // some outcomes come before their rows, as the rows' producer was down
	for i, m := range written {
		if 3*i < len(written) || 3*i < 2*len(written) && strings.HasSuffix(m.topic, buys) {
			first = append(first, m)
		} else {
			second = append(second, m)
		}
	}
	for i, chunk := range [][]timed{first, second} {
		send(t, log, chunk...)
		followToEnd(t, log, job)
		want := labelled(t, log, job)
		joinByStreams(t, log, job.Name, of.Examples.FromTopic, len(want))
		followToEnd(t, other, of)
		if got := labelled(t, other, of); len(want) < 80+200*i || !maps.Equal(got, want) {
			t.Errorf("Kafka Streams has joined %d rows, expected the %d of examples.outcome:\n%v\n%v", len(got), len(want), got, want)
		}
	}
}

// joinByStreams runs the program of examples/streams, as it is configured there but for names and times, until its topic has so many rows.
func joinByStreams(t *testing.T, log *kafkalog.Log, name, joined string, rows int) {
	t.Helper()
	configuration := must(os.ReadFile("../examples/streams/join.properties"))(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "join.properties")
	// A later key stands in place of an earlier one. The group waits for the process before until its session is over.
	text := string(configuration) + fmt.Sprintf("join.rows=%s\njoin.outcomes=%s\njoin.joined=%s\njoin.within=PT1M\njoin.early=PT5S\njoin.grace=PT10S\n"+
		"application.id=%s\nbootstrap.servers=%s\nstate.dir=%s\nsession.timeout.ms=6000\n", name+"."+views, name+"."+buys, joined,
		name+".join", strings.Join(log.Addr(), ","), folder)
	noError(t, os.WriteFile(file, []byte(text), 0o600))
	program, output := exec.Command("../scripts/streams.sh", file), &strings.Builder{}
	program.Env = append(os.Environ(), "JAVA_OPTS=-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
	program.Stdout, program.Stderr = output, output
	noError(t, program.Start())
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	counted := make(chan error, 1)
	go func() { counted <- countRows(ctx, log, joined, rows) }()
	var failed error
	select {
	case failed = <-ended:
		failed = fmt.Errorf("it has ended: %w", errors.Join(failed, errors.New(output.String())))
		cancel()
		<-counted
	case failed = <-counted:
		cancel()
		if err := program.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-ended // with the status of the signal
	}
	if failed != nil {
		t.Fatalf("join by Kafka Streams: %v\n%s", failed, output)
	}
}

// countRows waits until a topic has so many messages, without those of transactions that are open or aborted.
func countRows(ctx context.Context, log *kafkalog.Log, topic string, rows int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer client.Close()
	for read := 0; read < rows; {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return fmt.Errorf("%d of %d rows were written: %w", read, rows, err)
		}
		read += fetched.NumRecords()
	}
	return nil
}

// storm draws rows and outcomes: keys recur now and then, outcomes come several times, early, late or never, and some messages move the
// time on alone. Some messages come later than their times. At the end each partition of the outcomes is past all rows.
func storm(random *rand.Rand, rows, partitions int) (messages []timed) {
	type due struct {
		at int64
		m  timed
	}
	var later []due
	place := func(key string) int {
		sum := 0
		for _, c := range key {
			sum = sum*31 + int(c)
		}
		return sum % partitions
	}
	now := int64(0)
	for n := range rows {
		now += random.Int64N(2000)
		key := fmt.Sprint("view-", n)
		if n > 0 && random.IntN(20) == 0 {
			key = fmt.Sprint("view-", random.IntN(n))
		}
		later = append(later, due{now, view(place(key), key, n, now)})
		for range []int{0, 0, 1, 1, 1, 2}[random.IntN(6)] {
			at := max(0, now-6000+random.Int64N(80_000))
			later = append(later, due{at, buy(place(key), key, []string{"book", "film"}[random.IntN(2)], at)})
		}
		if random.IntN(10) == 0 {
			later = append(later, due{now, timed{buys, random.IntN(partitions), "tick", "", now}})
		}
	}
	slices.SortStableFunc(later, func(a, b due) int { return cmp.Compare(a.at, b.at) })
	for _, d := range later {
		if random.IntN(6) == 0 {
			d.m.time = max(0, d.m.time-random.Int64N(30_000))
		}
		messages = append(messages, d.m)
	}
	for p := range partitions {
		messages = append(messages, timed{buys, p, "tick", "", now + 200_000})
	}
	return messages
}

// labelled returns the labels of the rows that a run counts by their second feature. It is an error if one counts twice.
func labelled(t *testing.T, log *kafkalog.Log, job topics.Job) map[int]string {
	t.Helper()
	labels := map[int]string{}
	eachCounted(t, log, job, func(row int, label string) {
		if before, twice := labels[row]; twice {
			t.Errorf("row %d counts twice, first with %s", row, before)
		}
		labels[row] = label
	})
	return labels
}
