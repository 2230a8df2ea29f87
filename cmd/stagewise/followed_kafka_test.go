//go:build kafka

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

// events is a topic on real Kafka, and a pipeline that follows it.
type events struct {
	log     *kafkalog.Log
	name    string // of the pipeline
	topic   string
	brokers string
}

// newEvents makes the topic with that many partitions, and the configuration clicks.yaml.
func newEvents(t *testing.T, partitions int) *events {
	t.Helper()
	brokers := kafkaBrokers(t)
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: brokers}))(t)
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	e := &events{log, name, name + ".source", strings.Join(brokers, ",")}
	deleteTopics(t, brokers, name+".")
	t.Cleanup(func() { log.Close() })
	inFolder(t, map[string]string{"clicks.yaml": fmt.Sprintf(`name: %s
brokers: [%q]
examples: {from_topic: %s, format: csv, partitions: 2, batch_rows: 8}
stages: [{features: {kind: rff, size: 20}, passes: 3}, {features: {kind: columns}, passes: 3}]
retrain: {rows: 100, refresh: 1, full: {every: 2}}
metrics: {listen: "127.0.0.1:0"}
`, name, strings.Join(brokers, `", "`), e.topic)})
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: e.topic, Partitions: partitions}))
	return e
}

// write writes the rows from to to (excluded), each with a time of its own.
func (e *events) write(t *testing.T, from, to int) {
	t.Helper()
	partitions := valueOf(e.log.Partitions(t.Context(), e.topic))(t)
	client := valueOf(kgo.NewClient(kgo.SeedBrokers(strings.Split(e.brokers, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	defer client.Close()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{
			Topic: e.topic, Partition: int32(i % partitions), Key: fmt.Append(nil, "u", i%10), Value: fmt.Appendf(nil, "%c,%d,%d", 'a'+
				rune(i%2), i%2, i%7),
			Timestamp: time.UnixMilli(1_700_000_000_000).Add(time.Duration(i) * time.Second),
		})
	}
	noError(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

// learnt trains, and returns how many rows counted.
func learnt(t *testing.T) int64 {
	t.Helper()
	stdout, stderr := typed(t, exitDone, "train", "-c", "clicks.yaml", "--report", "-")
	var report schemas.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	return report.Rows
}

// retrained learns all that there is, and returns how many rows.
func retrained(t *testing.T) int64 {
	t.Helper()
	stdout, stderr := typed(t, exitDone, "run", "-c", "clicks.yaml", "--until", "end", "--report", "-")
	var report pipeline.Retraining
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	return report.Rows
}

// On real Kafka partitions are added to the examples while two processes that follow a topic are restarted one after the other. Each row is
// learnt once, by a chain that goes on and by a run. What comes to added partitions gets predictions.
func TestKafkaPartitionsAreAdded(t *testing.T) {
	e := newEvents(t, 5)
	service := func() (stop func()) {
		cmd, _, _ := program(t, "ingest", "-c", "clicks.yaml", "--log", "text")
		cmd.Stderr = nil // a pipe instead
		stderr := valueOf(cmd.StderrPipe())(t)
		noError(t, cmd.Start())
		serves, read := make(chan struct{}), make(chan string, 1) // one of two follows the topic, the other stands by
		go func() {
			var text strings.Builder
			defer func() { read <- text.String() }()
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				if fmt.Fprintln(&text, lines.Text()); strings.Contains(lines.Text(), "msg=serving") {
					close(serves)
				}
			}
		}()
		select {
		case <-serves:
		case text := <-read:
			t.Fatalf("ingest has ended: %s", text)
		}
		return func() {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			text := <-read
			if err := cmd.Wait(); err != nil && !strings.HasSuffix(text, "interrupted; to resume, run the same command again\n") {
				t.Errorf("ingest ended with %v: %s", err, text)
			}
		}
	}
	e.write(t, 0, 200)
	stops := []func(){service(), service()}
	if rows := retrained(t); rows > 200 {
		t.Errorf("%d rows were learnt, expected at most 200", rows)
	}
	for i, partitions := range []int{3, 6} {
		noError(t, e.log.AddPartitions(t.Context(), e.name+".examples", partitions))
		e.write(t, 200+200*i, 400+200*i)
		stops[i]()
		stops[i] = service()
	}
	e.write(t, 600, 700)
	for _, stop := range stops {
		stop()
	}
	typed(t, exitDone, "ingest", "-c", "clicks.yaml", "--until", "end")
	retrained(t)
	if rows := learnt(t); rows != 700 {
		t.Errorf("a run learnt %d rows, expected 700", rows)
	}
	typed(t, exitDone, "score", "-c", "clicks.yaml", "--until", "end") // also for messages that do not count
	// Partitions that other producers write to, too.
	message := valueOf(e.log.Range(e.name+".examples", 0, 0, 1).Next(t.Context()))(t)
	message.Headers = nil
	valueOf(e.log.Append(t.Context(), e.name+".examples", 5, message))(t)
	noError(t, e.log.AddPartitions(t.Context(), e.name+".examples", 8))
	valueOf(e.log.Append(t.Context(), e.name+".examples", 7, message))(t)
	if rows := retrained(t); rows != 16 {
		t.Errorf("%d rows were learnt, expected 16", rows)
	}
	if rows := learnt(t); rows != 716 {
		t.Errorf("a run learnt %d rows, expected 716", rows)
	}
	if _, stderr := typed(t, exitDone, "score", "-c", "clicks.yaml", "--until", "end"); !strings.Contains(stderr,
		"predictions for 16 rows of 2 messages") {
		t.Errorf("%s, expected predictions for 16 rows", stderr)
	}
}

// kafkaBrokers returns the addresses of real Kafka.
func kafkaBrokers(t *testing.T) []string {
	t.Helper()
	brokers := os.Getenv("STAGEWISE_KAFKA")
	if brokers == "" {
		t.Fatal("STAGEWISE_KAFKA is not set: start Kafka with make kafka-up, which prints the value")
	}
	return strings.Split(brokers, ",")
}
