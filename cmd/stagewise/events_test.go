package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// writeTopic makes a topic in the log of the working directory if it is not there, and writes messages to it.
func writeTopic(t *testing.T, topic string, messages ...kafkalog.Message) {
	t.Helper()
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"})
	noError(t, err)
	err = log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: 1})
	if err == nil {
		_, err = log.Append(t.Context(), topic, 0, messages...)
	}
	noError(t, errors.Join(err, log.Close()))
}

// trainedOnTopic trains on what a topic has, and returns the report and what the command says.
func trainedOnTopic(t *testing.T, configuration string, set ...string) (report schemas.Report, stderr string) {
	t.Helper()
	args := []string{"train", "-c", configuration, "--report", "-", "--model", "events.model"}
	for _, key := range set {
		args = append(args, "--set", key)
	}
	stdout, stderr := typed(t, exitDone, args...)
	noError(t, json.Unmarshal([]byte(stdout), &report))
	return report, stderr
}

// Events in Avro are learnt with the schemas of a registry, which change in the middle of the topic.
func TestAvroEvents(t *testing.T) {
	old := `{"type":"record","name":"Visit","fields":[{"name":"kind","type":"string"},{"name":"length","type":"int"},{"name":"width","type":"int"}]}`
	recent := `{"type":"record","name":"Visit","fields":[{"name":"size","type":{"type":"record","name":"Size","fields":[
		{"name":"depth","type":["null","long"]}]}},{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["tall","wide"]}},
		{"name":"width","type":["null","double"]},{"name":"length","type":"float"}]}`
	registry := srfake.New()
	defer registry.Close()
	registry.SeedSchema("visits-value", 1, 1, sr.Schema{Schema: old})
	registry.SeedSchema("visits-value", 2, 2, sr.Schema{Schema: recent})
	inFolder(t, map[string]string{"events.yaml": strings.Replace(clicked, "format: json", "format: avro\n  registry: {url: "+registry.URL()+"}", 1)})
	framed := func(id byte, schema string, value map[string]any) kafkalog.Message {
		content := valueOf(avro.MustParse(schema).Encode(value))(t)
		return kafkalog.Message{Value: append([]byte{0, 0, 0, 0, id}, content...)}
	}
	var messages []kafkalog.Message
	for i := range 20 {
		messages = append(messages, framed(1, old, map[string]any{"kind": "tall", "length": 5 + i%3, "width": 1}),
			framed(1, old, map[string]any{"kind": "wide", "length": 1, "width": 5 + i%3}))
	}
	for i := range 20 {
		size := map[string]any{"depth": nil}
		messages = append(messages, framed(2, recent, map[string]any{"size": size, "kind": "tall", "length": float32(5 + i%3), "width": nil}),
			framed(2, recent, map[string]any{"size": size, "kind": "wide", "length": float32(1), "width": map[string]any{"double": float64(5 + i%3)}}))
	}
	messages = append(messages, kafkalog.Message{Value: []byte(`{"kind":"tall"}`)}, framed(3, old, map[string]any{"kind": "", "length": 1, "width": 1}))
	writeTopic(t, "events", messages...)
	report, stderr := trainedOnTopic(t, "events.yaml")
	if report.Rows != 80 || report.TrainError != 0 || !strings.Contains(stderr, "quarantined events[0]@80: JSON: set examples.format") ||
		!strings.Contains(stderr, "quarantined events[0]@81: the schema 3 is unknown") {
		t.Errorf("%d rows, %v %% wrong: %s", report.Rows, report.TrainError, stderr)
	}
}
