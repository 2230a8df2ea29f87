package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// trainedOnTopic trains on what a topic has, and returns the report and what the command says.
func trainedOnTopic(t *testing.T, configuration string, set ...string) (report schemas.Report, stderr string) {
	t.Helper()
	args := []string{"train", "-c", configuration, "--report", "-", "--model", "events.model"}
	for _, key := range set {
		args = append(args, "--set", key)
	}
	stdout, stderr := typed(t, exitDone, args...)
	assert.NoError(t, json.Unmarshal([]byte(stdout), &report))
	return report, stderr
}

// views is a configuration of rows that wait for their outcomes.
const views = `name: shop
examples:
  from_topic: views
  format: json
  key: view
  columns: {use: [price, age]}
  partitions: 2
  outcome: {topic: buys, key: of.view, label: kind, within: 1h, absent: none}
stages: [{features: {kind: columns}, passes: 5}]
retrain: {rows: 20}
`

// writeTimed writes messages with their times to topics of the log of the working directory, which it makes if they are not there.
func writeTimed(t *testing.T, partitions map[string]int, records ...*kgo.Record) {
	t.Helper()
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise", Listen: "127.0.0.1:0"})
	assert.NoError(t, err)
	for topic, n := range partitions {
		err = errors.Join(err, log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: n}))
	}
	client, e := kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	assert.NoError(t, e)
	err = errors.Join(err, client.ProduceSync(t.Context(), records...).FirstErr())
	client.Close()
	assert.NoError(t, errors.Join(err, log.Close()))
}

// at is a message some minutes after noon.
func at(minutes int, topic string, partition int, key, value string) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: int32(partition), Key: []byte(key),
		Timestamp: time.Date(2026, 11, 1, 12, minutes, 0, 0, time.UTC)}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

// shopping returns rows and outcomes of some hours: dear things are looked at, cheap ones are bought some minutes later.
func shopping(from, to int) (records []*kgo.Record) {
	for i := from; i < to; i++ {
		price := 1 + i%3
		if i%2 == 0 {
			price = 90 + i%5
		}
		records = append(records, at(i, "views", i%3, fmt.Sprint("user-", i%4), fmt.Sprintf(`{"view": "v%d", "price": %d, "age": %d}`, i, price, i%7)))
		if i%2 == 1 {
			records = append(records, at(i+i%50, "buys", 0, "", fmt.Sprintf(`{"of": {"view": "v%d"}, "kind": "bought"}`, i)))
		}
	}
	return records
}

// Rows of a topic are learnt with outcomes of another one, each once, however often the commands are given, and are forgotten by the key of
// their message.
func TestLaterLabels(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"shop.yaml": views})
	records := append(shopping(0, 60), at(300, "buys", 0, "", `{"of": {}, "kind": "bought"}`), at(300, "buys", 0, "", `{"of": {"view": "v9"}}`),
		at(0, "views", 0, "user-1", `{"price": 3, "age": 1}`))
	writeTimed(t, map[string]int{"views": 3, "buys": 1}, records...)
	stdout, _ := typed(t, exitDone, "check", "-c", "shop.yaml")
	for _, want := range []string{"rows of views wait for 1h0m0s at most for an outcome on buys", "3,900,000 rows wait, and take 4.7 GB"} {
		assert.True(t, strings.Contains(stdout, want), "check does not say %q:\n%s", want, stdout)
	}
	report, stderr := trainedOnTopic(t, "shop.yaml")
	assert.True(t, report.Rows == 60 && report.Classes == 2 && report.TrainError == 0,
		"%d rows of %d classes, %v %% wrong: %s", report.Rows, report.Classes, report.TrainError, stderr)
	for _, want := range []string{
		`quarantined buys[0]@30: no key at "of.view" (examples.outcome.key)`,
		`quarantined buys[0]@31: examples.outcome.label: "kind": no label`,
		`quarantined views[0]@20: no key at "view" (examples.key)`,
	} {
		assert.Equal(t, strings.Count(stderr, want), 1, "train does not say once")
	}
	_, stderr = typed(t, exitDone, "ingest", "-c", "shop.yaml", "--until", "end")
	assert.True(t, strings.HasPrefix(stderr, "topic views: 0 train rows\n"), "ingest again: %s", stderr)
	writeTimed(t, map[string]int{"views": 3, "buys": 1}, shopping(300, 420)...)
	_, stderr = typed(t, exitDone, "ingest", "-c", "shop.yaml", "--until", "end")
	assert.True(t, strings.Contains(stderr, "of views without an outcome yet"), "ingest does not say what waits: %s", stderr)
	writeTimed(t, nil, at(600, "buys", 0, "tick", ""))
	stdout, _ = typed(t, exitDone, "run", "-c", "shop.yaml", "--until", "end", "--report", "-")
	var chain schemas.RetrainReport
	err := json.Unmarshal([]byte(stdout), &chain)
	assert.True(t, err == nil && chain.Rows == 180, "run has learnt %d rows, expected 180: %v", chain.Rows, err)
	stdout, stderr = typed(t, exitDone, "forget", "-c", "shop.yaml", "--key", "user-1")
	assert.True(t, strings.Contains(stdout, "45 rows") && strings.Contains(stderr, "repeat the command in 1h"), "forget a key: %s%s", stdout, stderr)
}

// The configuration of the page about labels that come later learns from topics as the page describes them.
func TestLaterLabelsPage(t *testing.T) {
	long(t)
	_, configuration, _ := strings.Cut(string(assert.Must(os.ReadFile("../../docs/later-labels.md"))(t)), "```yaml\n")
	configuration, _, _ = strings.Cut(configuration, "```")
	inFolder(t, map[string]string{"clicks.yaml": strings.Replace(configuration, "brokers: [localhost:9092]\n", "", 1)})
	var records []*kgo.Record
	for i := range 40 {
		records = append(records, at(i, "impressions", i%2, "", fmt.Sprintf(`{"impression_id": %d, "position": %d, "price": %d}`, i, i%2, i%7)))
		if i%2 == 1 {
			records = append(records, at(i+5, "clicks", i%3%2, "", fmt.Sprintf(`{"impression_id": %d, "kind": "click"}`, i)))
		}
	}
	records = append(records, at(2000, "clicks", 0, "time", ""), at(2000, "clicks", 1, "time", ""))
	writeTimed(t, map[string]int{"impressions": 2, "clicks": 2}, records...)
	report, stderr := trainedOnTopic(t, "clicks.yaml")
	assert.True(t, report.Rows == 40 && report.Classes == 2 && report.TrainError <= 0,
		"%d rows of %d classes, %v %% wrong: %s", report.Rows, report.Classes, report.TrainError, stderr)
}

// A broker that listens has the followed topic before another program could create it.
func TestFollowedTopicOfAListeningBroker(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	ingest := []string{"ingest", "-c", "clicks.yaml", "--until", "end"}
	refuses(t, exitFailed, "create it first", ingest...)
	typed(t, exitDone, append(ingest, "--set", "listen="+free(t))...)
	typed(t, exitDone, ingest...) // the topic is there
}
