//go:build kafka

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

// 1,000 rows that Confluent's client has written in each format, with the ID of a schema before the value or its GUID in a header, with
// each compression, in transactions and not, are learnt once each, and those of aborted transactions are not: the weights are those of the
// same rows in an Arrow file.
func TestKafkaConfluentClient(t *testing.T) {
	brokers, python := kafkaBrokers(t), os.Getenv("STAGEWISE_PYTHON")
	assert.Need(t, python != "", "STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	script := assert.Must(filepath.Abs("testdata/confluent.py"))(t)
	registry := srfake.New()
	defer registry.Close()
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	inFolder(t, nil)
	deleteTopics(t, brokers, name)
	output, err := exec.Command(python, script, strings.Join(brokers, ","), registry.URL(), name).CombinedOutput()
	assert.Need(t, err == nil, "%v: %s", err, output)
	learn := func(pipeline, examples string) (report schemas.Report) {
		configuration := fmt.Sprintf("name: %s-%s\nbrokers: [%s]\nexamples: {%s, batch_rows: 100, partitions: 1}\n"+
			"prepare: {scale: standard}\nstages: [{features: {kind: rff, size: 20}, passes: 3}]\nseed: 1\n", name, pipeline,
			strings.Join(brokers, ", "), examples)
		assert.NoError(t, os.WriteFile("c.yaml", []byte(configuration), 0o600))
		stdout, stderr := typed(t, exitDone, "train", "-c", "c.yaml", "--report", "-")
		assert.True(t, !strings.Contains(stderr, "quarantined"), "%s: %s", pipeline, stderr)
		assert.NoError(t, json.Unmarshal([]byte(stdout), &report))
		return report
	}
	const named = "label: kind, columns: {use: [x, y, n]}"
	want := learn("file", "train: [rows.arrow], "+named)
	kinds := []string{"json", "csv", "arrow", "json.framed", "json.header", "avro.framed", "avro.header", "protobuf.framed", "protobuf.header"}
	for _, kind := range kinds {
		topic, columns := name+"."+kind, named
		format, _, registered := strings.Cut(kind, ".")
		if format == "csv" {
			columns = "label: 0"
		}
		if registered {
			columns += ", registry: {url: " + registry.URL() + "}"
		}
		report := learn(kind, fmt.Sprintf("from_topic: %s, format: %s, %s", topic, format, columns))
		assert.True(t, report.Rows == 1000 && report.Classes == 2 && report.WeightsDigest == want.WeightsDigest,
			"%s: %d rows of %d classes and the digest %s, expected 1000 of 2 and %s", kind, report.Rows, report.Classes, report.WeightsDigest,
			want.WeightsDigest)
		// codes of compression: none, gzip, snappy, lz4, zstd
		each := map[uint8]int{0: 220, 1: 220, 2: 220, 3: 220, 4: 220}
		byCodec, transactional := written(t, brokers, topic, 1100)
		assert.True(t, transactional == 600 && maps.Equal(byCodec, each),
			"%s: %v messages by compression and %d in transactions were written, expected %v and 600", kind, byCodec, transactional, each)
	}
}

// deleteTopics deletes the topics whose names begin so when the test ends.
func deleteTopics(t *testing.T, brokers []string, prefix string) {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: brokers}))(t)
	t.Cleanup(func() {
		all, err := log.Topics(context.Background(), prefix)
		assert.Fails(t, err, nil)
		for _, topic := range all {
			assert.Fails(t, log.Delete(context.Background(), topic.Name), nil)
		}
		assert.Fails(t, log.Close(), nil)
	})
}

// written reads that many messages of a topic, those of aborted transactions too, and returns how many have each compression, and how many
// were written in transactions.
func written(t *testing.T, brokers []string, topic string, messages int) (byCodec map[uint8]int, transactional int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	assert.NoError(t, err)
	defer client.Close()
	byCodec = map[uint8]int{}
	for read := 0; read < messages; {
		fetched := client.PollFetches(t.Context())
		assert.NoError(t, fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) {
			read++
			byCodec[r.Attrs.CompressionType()]++
			if r.Attrs.IsTransactional() {
				transactional++
			}
		})
	}
	return byCodec, transactional
}

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
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: brokers}))(t)
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
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: e.topic, Partitions: partitions}))
	return e
}

// write writes the rows from to to (excluded), each with a time of its own.
func (e *events) write(t *testing.T, from, to int) {
	t.Helper()
	partitions := assert.Must(e.log.Partitions(t.Context(), e.topic))(t)
	client := assert.Must(kgo.NewClient(kgo.SeedBrokers(strings.Split(e.brokers, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	defer client.Close()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{
			Topic: e.topic, Partition: int32(i % partitions), Key: fmt.Append(nil, "u", i%10), Value: fmt.Appendf(nil, "%c,%d,%d", 'a'+
				rune(i%2), i%2, i%7),
			Timestamp: time.UnixMilli(1_700_000_000_000).Add(time.Duration(i) * time.Second),
		})
	}
	assert.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

// learnt trains, and returns how many rows counted.
func learnt(t *testing.T) int64 {
	t.Helper()
	stdout, stderr := typed(t, exitDone, "train", "-c", "clicks.yaml", "--report", "-")
	var report schemas.Report
	err := json.Unmarshal([]byte(stdout), &report)
	assert.Need(t, err == nil, "%v: %s", err, stderr)
	return report.Rows
}

// retrained learns all that there is, and returns how many rows.
func retrained(t *testing.T) int64 {
	t.Helper()
	stdout, stderr := typed(t, exitDone, "run", "-c", "clicks.yaml", "--until", "end", "--report", "-")
	var report pipeline.Retraining
	err := json.Unmarshal([]byte(stdout), &report)
	assert.Need(t, err == nil, "%v: %s", err, stderr)
	return report.Rows
}

// On real Kafka partitions are added to the examples while two processes that follow a topic are restarted one after the other. Each row is
// learnt once, by a chain that goes on and by a run. What comes to added partitions gets predictions.
func TestKafkaPartitionsAreAdded(t *testing.T) {
	e := newEvents(t, 5)
	service := func() (stop func()) {
		cmd, _, _ := program(t, "ingest", "-c", "clicks.yaml", "--log", "text")
		cmd.Stderr = nil // a pipe instead
		stderr := assert.Must(cmd.StderrPipe())(t)
		assert.NoError(t, cmd.Start())
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
			assert.Fails(t, cmd.Process.Signal(syscall.SIGTERM), nil)
			text := <-read
			err := cmd.Wait()
			assert.True(t, err == nil || strings.HasSuffix(text, "interrupted; to resume, run the same command again\n"),
				"ingest ended with %v: %s", err, text)
		}
	}
	e.write(t, 0, 200)
	stops := []func(){service(), service()}
	rows := retrained(t)
	assert.True(t, rows <= 200, "%d rows were learnt, expected at most 200", rows)
	for i, partitions := range []int{3, 6} {
		assert.NoError(t, e.log.AddPartitions(t.Context(), e.name+".examples", partitions))
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
	rows = learnt(t)
	assert.True(t, rows == 700, "a run learnt %d rows, expected 700", rows)
	typed(t, exitDone, "score", "-c", "clicks.yaml", "--until", "end") // also for messages that do not count
	// Partitions that other producers write to, too.
	var message kafkalog.Message
	for m, err := range e.log.Range(t.Context(), e.name+".examples", 0, 0, 1) {
		message = assert.Must(m, err)(t)
	}
	message.Headers = nil
	assert.Must(e.log.Append(t.Context(), e.name+".examples", 5, message))(t)
	assert.NoError(t, e.log.AddPartitions(t.Context(), e.name+".examples", 8))
	assert.Must(e.log.Append(t.Context(), e.name+".examples", 7, message))(t)
	rows = retrained(t)
	assert.True(t, rows == 16, "%d rows were learnt, expected 16", rows)
	rows = learnt(t)
	assert.True(t, rows == 716, "a run learnt %d rows, expected 716", rows)
	_, stderr := typed(t, exitDone, "score", "-c", "clicks.yaml", "--until", "end")
	assert.True(t, strings.Contains(stderr, "predictions for 16 rows of 2 messages"), "%s, expected predictions for 16 rows", stderr)
}

// kafkaBrokers returns the addresses of real Kafka.
func kafkaBrokers(t *testing.T) []string {
	t.Helper()
	brokers := os.Getenv("STAGEWISE_KAFKA")
	assert.Need(t, brokers != "", "STAGEWISE_KAFKA is not set: start Kafka with make kafka-up, which prints the value")
	return strings.Split(brokers, ",")
}
