//go:build kafka

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

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
	messages := storm(rand.New(rand.NewPCG(3, 7)), 300, partitions, partitions, true)
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
	if got, want := labelled(t, log, job), naively(t, job, messages); !maps.Equal(got, want) {
		t.Errorf("the examples are %v, expected %v", got, want)
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
