package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// service is a process of this program that logs JSON.
type service struct {
	t       *testing.T
	process *os.Process
	records *bufio.Scanner
	metrics string // its URL
}

// startService starts the program, and waits until it serves metrics.
func startService(t *testing.T, args ...string) *service {
	t.Helper()
	s := startProcess(t, args...)
	s.metrics = s.await("serving", func(r map[string]any) bool { return true })["metrics"].(string)
	return s
}

// startProcess starts the program.
func startProcess(t *testing.T, args ...string) *service {
	t.Helper()
	cmd, _, _ := program(t, append(args, "--log", "json", "--log-level", "debug")...)
	lines, wait := started(t, cmd)
	s := &service{t: t, process: cmd.Process, records: lines}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for s.records.Scan() { // what it still says must not block it
		}
		wait()
	})
	return s
}

// await waits until the process logs a record with a message that is as wanted.
func (s *service) await(message string, wanted func(map[string]any) bool) map[string]any {
	s.t.Helper()
	var last []string
	for s.records.Scan() {
		record := map[string]any{}
		if err := json.Unmarshal(s.records.Bytes(), &record); err != nil {
			s.t.Fatalf("%v: %s", err, s.records.Text())
		}
		if record["msg"] == message && wanted(record) {
			return record
		}
		last = append(last[max(0, len(last)-5):], s.records.Text())
	}
	s.t.Fatalf("the process has ended without %q: %s", message, strings.Join(last, "\n"))
	return nil
}

// measured returns the lines of the metrics of this program, without the label pipeline.
func (s *service) measured(pipeline string) []string {
	s.t.Helper()
	response, err := http.Get(s.metrics)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	label := `pipeline="` + pipeline + `"`
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "stagewise_") {
			lines = append(lines, strings.NewReplacer(label+",", "", ","+label, "", "{"+label+"}", "").Replace(strings.TrimSpace(line)))
		}
	}
	return lines
}

// eventsOnTopic writes JSON values to the topic events of a broker: as many that can't be read as rows.
func eventsOnTopic(t *testing.T, broker *kafkalog.Log, rows int) {
	t.Helper()
	noError(t, broker.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 2}))
	var messages []kafkalog.Message
	for i := range rows {
		kind, length := "tall", 5+i%3
		if i%2 == 0 {
			kind, length = "wide", 1+i%3
		}
		messages = append(messages, kafkalog.Message{Value: fmt.Appendf(nil, `{"kind":%q,"length":%d,"width":1}`, kind, length)},
			kafkalog.Message{Value: fmt.Appendf(nil, `{"kind":%q,"length":"n/a","width":1}`, kind)})
	}
	for partition, half := range [][]kafkalog.Message{messages[:rows], messages[rows:]} {
		valueOf(broker.Append(t.Context(), "events", partition, half...))(t)
	}
}

// One process of run is enough for a topic whose messages become examples. What can't be read is in its metrics.
func TestRunAloneLearnsATopic(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	broker := startBroker(t)
	eventsOnTopic(t, broker, 200)
	run := startService(t, "run", "-c", "clicks.yaml", "--set", "brokers="+broker.Addr()[0], "--set", "retrain.rows=100", "--set",
		"metrics.listen=127.0.0.1:0")
	learnt := 0.0
	run.await("retrained", func(r map[string]any) bool {
		learnt += r["rows"].(float64)
		return learnt == 200
	})
	run.await("source lag", func(r map[string]any) bool { return r["messages"].(float64) == 0 })
	got := run.measured("clicks")
	for _, want := range []string{"stagewise_learnt_rows_total 200", "stagewise_ingested_rows_total 200",
		"stagewise_quarantined_total 200", "stagewise_source_lag_messages 0"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// A process that only ingests says what it can't read, and what waits. It finds a port of its own beside others.
func TestIngestServesMetrics(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	broker := startBroker(t)
	eventsOnTopic(t, broker, 60)
	on := []string{"ingest", "-c", "clicks.yaml", "--set", "brokers=" + broker.Addr()[0]}
	first := startService(t, on...)
	first.await("source lag", func(r map[string]any) bool { return r["messages"].(float64) == 0 })
	got := first.measured("clicks")
	for _, want := range []string{"stagewise_ingested_rows_total 60", "stagewise_quarantined_total 60", "stagewise_source_lag_messages 0"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	configured := strings.TrimSuffix(strings.TrimPrefix(first.metrics, "http://"), "/metrics")
	if second := startService(t, append(on, "--set", "metrics.listen="+configured)...); second.metrics == first.metrics {
		t.Errorf("two processes serve metrics at %s", second.metrics)
	}
}

// Predictions for a topic whose messages become examples need no other process either: for what the topic has, and for what comes.
func TestScoreAlonePredictsForATopic(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	broker := startBroker(t)
	eventsOnTopic(t, broker, 60)
	on := []string{"-c", "clicks.yaml", "--set", "brokers=" + broker.Addr()[0], "--set", "metrics.listen=127.0.0.1:0"}
	more := func() {
		t.Helper()
		message := kafkalog.Message{Value: []byte(`{"kind":"tall","length":5,"width":1}`)}
		valueOf(broker.Append(t.Context(), "events", 0, slices.Repeat([]kafkalog.Message{message}, 10)...))(t)
	}
	typed(t, exitDone, append([]string{"train"}, on...)...)
	more()
	if _, stderr := typed(t, exitDone, append([]string{"score", "--until", "end"}, on...)...); !strings.Contains(stderr,
		"predictions for 70 rows") {
		t.Errorf("%s, expected predictions for 70 rows", stderr)
	}
	score := startService(t, append([]string{"score"}, on...)...)
	more()
	score.await("scored", func(r map[string]any) bool { return r["rows"].(float64) > 0 })
}
