//go:build kafka

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
)

// kafkaChain is a pipeline on real Kafka whose examples other producers write, 50 rows a message. It has the file chain.yaml.
type kafkaChain struct {
	*testing.T
	brokers []string
	name    string
	client  *kgo.Client
	next    int // message
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

func newKafkaChain(t *testing.T, retrain string) *kafkaChain {
	t.Helper()
	c := &kafkaChain{T: t, brokers: kafkaBrokers(t), name: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	inFolder(t, map[string]string{"chain.yaml": fmt.Sprintf(`name: %s
brokers: [%s]
examples: {partitions: 1}
stages: [{features: {kind: columns}, passes: 3}]
retrain: {rows: 100, refresh: 1, full: {every: 0, growth: 0}%s}
`, c.name, strings.Join(c.brokers, ", "), retrain)})
	c.client = c.open()
	c.stagewise("topics", "create")
	t.Cleanup(func() { c.stagewise("topics", "delete", "--yes") })
	return c
}

// open opens another client, which is closed when the test ends.
func (c *kafkaChain) open(o ...kgo.Opt) *kgo.Client {
	c.Helper()
	client := valueOf(kgo.NewClient(append(o, kgo.SeedBrokers(c.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...))(c)
	c.Cleanup(client.Close)
	return client
}

// stagewise runs a command, which must succeed, and returns what it has shown.
func (c *kafkaChain) stagewise(args ...string) (stderr string) {
	c.Helper()
	code, _, stderr := stagewise(append(args, "-c", "chain.yaml")...)
	if code != exitDone {
		c.Fatalf("%q: code %d: %s", args, code, stderr)
	}
	return stderr
}

// fill writes so many messages.
func (c *kafkaChain) fill(client *kgo.Client, messages int, at time.Time) {
	c.Helper()
	for range messages {
		random := rand.New(rand.NewPCG(1, uint64(c.next)))
		c.next++
		var rows []string
		for range 50 {
			x, y := random.NormFloat64(), random.NormFloat64()
			rows = append(rows, fmt.Sprintf(`{"label": %q, "features": [%g, %g]}`, []string{"a", "b"}[min(int(max(x+y, 0)*1e9), 1)], x, y))
		}
		value := arrowStream(c.T, "["+strings.Join(rows, ",")+"]", arrow.Field{Name: "label", Type: arrow.BinaryTypes.String},
			arrow.Field{Name: "features", Type: arrow.ListOf(arrow.PrimitiveTypes.Float64)})
		noError(c, client.ProduceSync(c.Context(), &kgo.Record{Topic: c.name + ".examples", Value: value, Timestamp: at}).FirstErr())
	}
}

// learn runs the chain to the end of the topic, and compares its versions with what they should be. It returns what the screen has.
func (c *kafkaChain) learn(want ...string) (stderr string) {
	c.Helper()
	stderr = c.stagewise("run", "--until", "end", "--report", "report.json")
	text := valueOf(os.ReadFile("report.json"))(c)
	var report pipeline.Retraining
	noError(c, json.Unmarshal(text, &report))
	var got []string
	for _, u := range report.Updates {
		got = append(got, fmt.Sprintf("%s %d of %d, %d lost, %d gone, %v", u.Kind, u.Rows, u.WindowRows, u.Lost, u.Gone, u.Offered))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.Errorf("the versions are\n%s\nexpected\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), stderr)
	}
	return stderr
}

// shows fails unless a text has a part.
func (c *kafkaChain) shows(text, part string) {
	c.Helper()
	if !strings.Contains(text, part) {
		c.Errorf("expected %q in\n%s", part, text)
	}
}

// remove deletes a topic, and waits until it is gone.
func (c *kafkaChain) remove(topic string) {
	c.Helper()
	log := c.log()
	defer log.Close()
	noError(c, log.Delete(c.Context(), topic))
}

func (c *kafkaChain) log() *kafkalog.Log {
	c.Helper()
	return valueOf(kafkalog.Open(c.Context(), kafkalog.Options{Brokers: c.brokers}))(c)
}

// deleteBefore deletes the messages of the examples before an offset.
func (c *kafkaChain) deleteBefore(offset int64) {
	c.Helper()
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.TimeoutMillis = 10_000
	request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: c.name + ".examples",
		Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: offset}}}}
	response, err := request.RequestWith(c.Context(), c.client)
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
	}
	noError(c, err)
}

// Messages of the window and of the backlog are deleted: the chain goes on with what is left, says what is lost, and offers no version that
// has learnt fewer rows for that reason.
func TestKafkaChainOutlivesDeletedExamples(t *testing.T) {
	c := newKafkaChain(t, "")
	c.fill(c.client, 8, time.Time{})
	c.learn("full 100 of 100, 0 lost, 0 gone, true", "update 100 of 200, 0 lost, 0 gone, true",
		"update 100 of 300, 0 lost, 0 gone, true", "update 100 of 400, 0 lost, 0 gone, true")
	c.stagewise("forget", c.name+".examples/0/0-1")
	c.learn("full 0 of 300, 0 lost, 0 gone, true")
	c.deleteBefore(3)
	c.fill(c.client, 2, time.Time{})
	c.shows(c.learn("full 0 of 250, 0 lost, 50 gone, false", "update 100 of 350, 0 lost, 0 gone, true"), "50 rows gone")
	c.fill(c.client, 4, time.Time{})
	c.deleteBefore(12)
	c.shows(c.learn("full 100 of 100, 2 lost, 350 gone, false"), "2 messages lost")
	c.learn()
}

// The state of the chain and its newest version are lost: the chain has learnt as much as before.
func TestKafkaChainOutlivesLostTopics(t *testing.T) {
	c := newKafkaChain(t, ", window: {increments: 3}")
	c.fill(c.client, 8, time.Time{})
	c.learn("full 100 of 100, 0 lost, 0 gone, true", "update 100 of 200, 0 lost, 0 gone, true",
		"update 100 of 300, 0 lost, 0 gone, true", "update 100 of 300, 0 lost, 0 gone, true")
	c.remove(c.name + ".state")
	c.fill(c.client, 2, time.Time{})
	c.shows(c.learn("full 0 of 300, 0 lost, 0 gone, true", "update 100 of 300, 0 lost, 0 gone, true"), "has lost the state of version")

	topic, log := c.name+".versions", c.log()
	defer log.Close()
	first, end, err := log.Bounds(t.Context(), topic, 0)
	noError(t, err)
	var kept []kafkalog.Message
	for r := log.Range(topic, 0, first, end-1); ; {
		m, err := r.Next(t.Context())
		if err != nil {
			break
		}
		kept = append(kept, m)
	}
	c.remove(topic)
	c.stagewise("topics", "create")
	valueOf(log.Append(t.Context(), topic, 0, kept...))(t)
	c.fill(c.client, 2, time.Time{})
	c.shows(c.learn("full 0 of 300, 0 lost, 0 gone, true", "update 100 of 300, 0 lost, 0 gone, true",
		"update 100 of 300, 0 lost, 0 gone, true"), "skipped version 6")
}

// Aborted transactions, in the middle and at the end, and messages of a time to come cost a chain nothing.
func TestKafkaChainPassesOverGapsAndWrongTimes(t *testing.T) {
	c := newKafkaChain(t, ", window: {time: 10m}")
	c.fill(c.client, 4, time.Time{})
	c.learn("full 100 of 100, 0 lost, 0 gone, true", "update 100 of 200, 0 lost, 0 gone, true")
	client := c.open(kgo.TransactionalID(c.name))
	abort := func() {
		noError(t, client.BeginTransaction())
		c.fill(client, 100, time.Time{})
		noError(t, client.EndTransaction(t.Context(), kgo.TryAbort))
	}
	abort()
	c.fill(c.client, 1, time.Now().Add(50*time.Minute))
	c.fill(c.client, 2, time.Time{})
	abort()
	c.shows(c.learn("update 100 of 300, 0 lost, 0 gone, true", "update 50 of 350, 0 lost, 0 gone, true"), "timestamps in the future")
	c.learn()
}

// The examples are made anew: the chain says so, learns them, and offers its versions once they have learnt as much.
func TestKafkaChainNoticesOtherExamples(t *testing.T) {
	c := newKafkaChain(t, "")
	c.fill(c.client, 4, time.Time{})
	c.learn("full 100 of 100, 0 lost, 0 gone, true", "update 100 of 200, 0 lost, 0 gone, true")
	c.remove(c.name + ".examples")
	c.stagewise("topics", "create")
	c.fill(c.open(), 5, time.Time{})
	c.shows(c.learn("full 100 of 100, 0 lost, 200 gone, false", "update 100 of 200, 0 lost, 0 gone, true",
		"update 50 of 250, 0 lost, 0 gone, true"), "it was truncated or recreated")
	c.learn()
}
