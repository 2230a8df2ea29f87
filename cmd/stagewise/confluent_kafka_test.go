//go:build kafka

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// 1,000 rows that Confluent's client has written in each format, with the ID of a schema before the value or its GUID in a header, with
// each compression, in transactions and not, are learnt once each, and those of aborted transactions are not: the weights are those of the
// same rows in an Arrow file.
func TestKafkaConfluentClient(t *testing.T) {
	brokers, python := kafkaBrokers(t), os.Getenv("STAGEWISE_PYTHON")
	if python == "" {
		t.Fatal("STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	}
	script := valueOf(filepath.Abs("testdata/confluent.py"))(t)
	registry := srfake.New()
	defer registry.Close()
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	inFolder(t, nil)
	deleteTopics(t, brokers, name)
	if output, err := exec.Command(python, script, strings.Join(brokers, ","), registry.URL(), name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	learn := func(pipeline, examples string) (report schemas.Report) {
		configuration := fmt.Sprintf("name: %s-%s\nbrokers: [%s]\nexamples: {%s, batch_rows: 100, partitions: 1}\n"+
			"prepare: {scale: standard}\nstages: [{features: {kind: rff, size: 20}, passes: 3}]\nseed: 1\n", name, pipeline,
			strings.Join(brokers, ", "), examples)
		noError(t, os.WriteFile("c.yaml", []byte(configuration), 0o600))
		stdout, stderr := typed(t, exitDone, "train", "-c", "c.yaml", "--report", "-")
		if strings.Contains(stderr, "quarantined") {
			t.Errorf("%s: %s", pipeline, stderr)
		}
		noError(t, json.Unmarshal([]byte(stdout), &report))
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
		if report.Rows != 1000 || report.Classes != 2 || report.WeightsDigest != want.WeightsDigest {
			t.Errorf("%s: %d rows of %d classes and the digest %s, expected 1000 of 2 and %s", kind, report.Rows, report.Classes,
				report.WeightsDigest, want.WeightsDigest)
		}
		// codes of compression: none, gzip, snappy, lz4, zstd
		each := map[uint8]int{0: 220, 1: 220, 2: 220, 3: 220, 4: 220}
		if byCodec, transactional := written(t, brokers, topic, 1100); transactional != 600 || !maps.Equal(byCodec, each) {
			t.Errorf("%s: %v messages by compression and %d in transactions were written, expected %v and 600", kind, byCodec, transactional, each)
		}
	}
}

// deleteTopics deletes the topics whose names begin so when the test ends.
func deleteTopics(t *testing.T, brokers []string, prefix string) {
	t.Helper()
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: brokers}))(t)
	t.Cleanup(func() {
		all, err := log.Topics(context.Background(), prefix)
		if err != nil {
			t.Error(err)
		}
		for _, topic := range all {
			if err := log.Delete(context.Background(), topic.Name); err != nil {
				t.Error(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
}

// written reads that many messages of a topic, those of aborted transactions too, and returns how many have each compression, and how many
// were written in transactions.
func written(t *testing.T, brokers []string, topic string, messages int) (byCodec map[uint8]int, transactional int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	noError(t, err)
	defer client.Close()
	byCodec = map[uint8]int{}
	for read := 0; read < messages; {
		fetched := client.PollFetches(t.Context())
		noError(t, fetched.Err())
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
