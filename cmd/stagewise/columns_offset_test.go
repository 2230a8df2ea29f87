package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/serve"
)

// timedEvents are rows of a time in milliseconds, of which float32 makes a few different numbers, and of a class that
// is told by the time alone.
func timedEvents(n int) (rows []string, times []int64) {
	for i := range n {
		at, kind := 1764000000000+1000*int64(i), "early"
		if i%400 >= 200 {
			kind = "late"
		}
		times = append(times, at)
		rows = append(rows, fmt.Sprintf("%d,%d,%s", at, i%3, kind))
	}
	return rows, times
}

const eventsConfiguration = `name: events
examples: {train: [events.csv], label: kind, holdout: 0.1, batch_rows: 50}
prepare: {scale: standard}
stages: [{features: {kind: columns}, passes: 20, ridge: 1e-6}]
`

// A column whose values float32 does not tell apart is named, and less a number near its mean: in training, by score, and by serve in every
// format of rows. The script offsets.txtar has predict, and files that are ingested later.
func TestColumnsWithAnOffset(t *testing.T) {
	long(t)
	rows, times := timedEvents(400)
	inFolder(t, map[string]string{"events.yaml": eventsConfiguration, "events.csv": "time,other,kind\n" + strings.Join(rows, "\n") + "\n"})
	stdout, stderr := typed(t, exitDone, "train", "-c", "events.yaml", "--model", "events.model")
	if !strings.Contains(stdout+stderr, `column "time"`) || strings.Contains(stdout+stderr, `column "other"`) {
		t.Errorf("train says %s%s", stdout, stderr)
	}
	if n := scoredBy(t, "events.yaml", "events", "events.model"); n != 400 {
		t.Errorf("score has predicted %d rows", n)
	}
	m := valueOf(readModel("events.model"))(t)
	server := valueOf(serve.New(serve.Defaults(), serve.Fixed(m), prometheus.NewRegistry(), "events"))(t)
	for name, row := range map[string]func(at int64) string{
		"list":   func(at int64) string { return fmt.Sprintf("[%d, 1]", at) },
		"object": func(at int64) string { return fmt.Sprintf(`{"other": 1, "time": %d}`, at) },
		"text":   func(at int64) string { return fmt.Sprintf(`["%d", 1]`, at) },
	} {
		got := answersTo(t, server, "application/json", []byte(`{"rows": [`+row(times[20])+","+row(times[380])+"]}"))
		if strings.Join(got, " ") != "early late" {
			t.Errorf("serve, %s: %q", name, got)
		}
	}
	table := arrow.NewSchema([]arrow.Field{{Name: "other", Type: arrow.PrimitiveTypes.Int64},
		{Name: "time", Type: arrow.PrimitiveTypes.Int64}}, nil)
	list := arrow.NewSchema([]arrow.Field{{Name: "features", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float64)}}, nil)
	for name, body := range map[string][]byte{
		"Arrow":       arrowRows(t, table, fmt.Sprintf(`[{"other": 1, "time": %d}, {"other": 1, "time": %d}]`, times[20], times[380])),
		"Arrow lists": arrowRows(t, list, fmt.Sprintf(`[{"features": [%d, 1]}, {"features": [%d, 1]}]`, times[20], times[380])),
	} {
		if got := answersTo(t, server, "application/vnd.apache.arrow.stream", body); strings.Join(got, " ") != "early late" {
			t.Errorf("serve, %s: %q", name, got)
		}
	}
}

// arrowRows returns rows of JSON as a stream of Arrow.
func arrowRows(t *testing.T, schema *arrow.Schema, rows string) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows), array.WithUseNumber())
	noError(t, err)
	defer record.Release()
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(schema))
	noError(t, w.Write(record))
	noError(t, w.Close())
	return stream.Bytes()
}

// answers returns the labels that a server answers with.
func answersTo(t *testing.T, server http.Handler, contentType string, body []byte) (labels []string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, "/predict", bytes.NewReader(body))
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, request)
	var got struct{ Labels []string }
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, answer.Body)
	}
	return got.Labels
}
