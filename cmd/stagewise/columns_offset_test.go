package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/serve"
)

// timedEvents are rows of a time in milliseconds, of which float32 makes a few different numbers, and of a class that
// is told by the time alone.
func timedEvents(first, n int) (rows []string, times []int64, kinds []string) {
	for i := first; i < first+n; i++ {
		at, kind := 1764000000000+1000*int64(i), "early"
		if i%400 >= 200 {
			kind = "late"
		}
		times, kinds = append(times, at), append(kinds, kind)
		rows = append(rows, fmt.Sprintf("%d,%d,%s", at, i%3, kind))
	}
	return rows, times, kinds
}

const eventsConfiguration = `name: events
examples: {train: [events.csv], label: kind, holdout: 0.1, batch_rows: 50}
prepare: {scale: standard}
stages: [{features: {kind: columns}, passes: 20, ridge: 1e-6}]
`

// A column whose values float32 does not tell apart is named, and less a number near its mean: in training, by predict,
// serve and score, in every format, also if files that are ingested later are less another number.
func TestColumnsWithAnOffset(t *testing.T) {
	rows, times, kinds := timedEvents(0, 400)
	csv := "time,other,kind\n" + strings.Join(rows, "\n") + "\n"
	var lines strings.Builder
	for i, at := range times {
		fmt.Fprintf(&lines, "{\"time\": %d, \"other\": %d, \"kind\": %q}\n", at, i%3, kinds[i])
	}
	for _, file := range []string{"events.csv", "events.jsonl"} {
		t.Run(file, func(t *testing.T) {
			inFolder(t, map[string]string{"events.yaml": eventsConfiguration, "events.csv": csv, "events.jsonl": lines.String()})
			code, stdout, stderr := stagewise("train", "-c", "events.yaml", "--set", "examples.train="+file, "--report", "report.json",
				"--model", "events.model")
			if code != exitDone || !strings.Contains(stdout+stderr, `column "time"`) || strings.Contains(stdout+stderr, `column "other"`) {
				t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
			}
			report := new(schemas.Report)
			content, err := os.ReadFile("report.json")
			if err != nil || json.Unmarshal(content, report) != nil || report.TrainError > 2 {
				t.Errorf("%v: train error %v %%", err, report.TrainError)
			}
			for _, input := range []string{"events.csv", "events.jsonl"} {
				code, stdout, stderr := stagewise("predict", "--model", "events.model", "-i", input)
				predicted := strings.Split(strings.TrimSpace(stdout), "\n")[1:]
				if code != exitDone || len(predicted) != len(kinds) {
					t.Fatalf("exit code %d: %d rows: %s", code, len(predicted), stderr)
				}
				if wrong := wrongLabels(predicted, kinds); wrong > 8 {
					t.Errorf("predict -i %s: %d of %d rows are wrong", input, wrong, len(kinds))
				}
			}
			if n := scoredBy(t, "events.yaml", "events", "events.model"); n != 400 {
				t.Errorf("score has predicted %d rows", n)
			}
		})
	}
	inFolder(t, map[string]string{"events.yaml": eventsConfiguration, "events.csv": csv})
	if code, _, stderr := stagewise("train", "-c", "events.yaml", "--quiet", "--model", "events.model"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	m, err := readModel("events.model")
	if err != nil {
		t.Fatal(err)
	}
	server, err := serve.New(serve.Defaults(), serve.Fixed(m), prometheus.NewRegistry(), "events")
	if err != nil {
		t.Fatal(err)
	}
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

// Files that are ingested one after the other are less other numbers. A run reads them as one column.
func TestFilesWithOtherOffsets(t *testing.T) {
	first, _, kinds := timedEvents(0, 400)
	second, times, more := timedEvents(100_000_000, 400) // three years later
	inFolder(t, map[string]string{"events.yaml": strings.Replace(eventsConfiguration, "train: [events.csv], ", "", 1),
		"first.csv": "time,other,kind\n" + strings.Join(first, "\n") + "\n", "second.csv": "time,other,kind\n" +
			strings.Join(second, "\n") + "\n"})
	for _, file := range []string{"first.csv", "second.csv"} {
		if code, _, stderr := stagewise("ingest", "-c", "events.yaml", "--set", "examples.train="+file); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	}
	code, stdout, stderr := stagewise("train", "-c", "events.yaml", "--model", "events.model", "--set", "stages.0.features.kind=rff",
		"--set", "stages.0.features.size=200", "--set", "stages.0.ridge=1e-3")
	if code != exitDone || strings.Contains(stdout+stderr, "quarantine") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	m, err := readModel("events.model")
	if err != nil {
		t.Fatal(err)
	}
	all := append(kinds, more...)
	if got := m.Manifest.Rows["train"] + m.Manifest.Rows["holdout"]; int(got) != len(all) {
		t.Errorf("%d rows were learnt", got)
	}
	if c := m.Columns()[0]; c.Offset == 0 || float32(float64(times[0])-c.Offset) < 9e10 {
		t.Errorf("the column %+v, expected an offset near the first file", c)
	}
}

// Values that were narrowed before they came are named, and so is what no feature tells.
func TestFeaturesThatDoNotDiffer(t *testing.T) {
	var constant, lists strings.Builder
	constant.WriteString("a,b,kind\n")
	_, times, kinds := timedEvents(0, 400)
	for i, at := range times {
		fmt.Fprintf(&constant, "1,7,%s\n", kinds[i])
		fmt.Fprintf(&lists, "{\"features\": [%d, %d], \"label\": %q}\n", at, i%3, kinds[i])
	}
	inFolder(t, map[string]string{"events.yaml": eventsConfiguration, "events.csv": constant.String(), "lists.jsonl": lists.String()})
	for _, kind := range []string{"columns", "rff"} {
		code, stdout, stderr := stagewise("train", "-c", "events.yaml", "--set", "stages.0.features.kind="+kind, "--set",
			"stages.0.ridge=1e-3", "--set", "data_dir="+kind)
		if code != exitDone || !strings.Contains(stdout+stderr, "no feature varies between the training rows") {
			t.Errorf("%s: exit code %d: %s%s", kind, code, stdout, stderr)
		}
	}
	code, stdout, stderr := stagewise("train", "-c", "events.yaml", "--set", "examples.train=lists.jsonl", "--set",
		"examples.label=label", "--set", "data_dir=lists")
	if want := "float32 can't distinguish the values of some features: feature 0 near 1764000"; code != exitDone ||
		!strings.Contains(stdout+stderr, want) || strings.Contains(stdout+stderr, "feature 1") {
		t.Errorf("exit code %d: %s%s, expected %s", code, stdout, stderr, want)
	}
}

// wrongLabels counts the rows of predict whose label is another.
func wrongLabels(rows, labels []string) (wrong int) {
	for i, row := range rows {
		if label, _, _ := strings.Cut(row, ","); label != labels[i] {
			wrong++
		}
	}
	return wrong
}

// arrowRows returns rows of JSON as a stream of Arrow.
func arrowRows(t *testing.T, schema *arrow.Schema, rows string) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows), array.WithUseNumber())
	if err != nil {
		t.Fatal(err)
	}
	defer record.Release()
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(schema))
	if err := w.Write(record); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
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

// A column of a topic whose values float32 does not tell apart is named, with the key that helps; and the key helps, for who predicts too.
func TestColumnsOfATopicWithAnOffset(t *testing.T) {
	_, times, kinds := timedEvents(0, 400)
	for format, columns := range map[string]struct{ keys, name string }{
		"json": {"label: kind, columns: {use: [time, other]}", "time"},
		"csv":  {"label: 0, columns: {use: [1, 2]}", "1"},
	} {
		t.Run(format, func(t *testing.T) {
			inFolder(t, map[string]string{
				"events.yaml": fmt.Sprintf("name: events\nexamples: {from_topic: raw, format: %s, %s}\nprepare: {scale: "+
					"standard}\nstages: [{features: {kind: columns}, passes: 20, ridge: 1e-6}]\n", format, columns.keys),
				"rows.csv": fmt.Sprintf("%d,0\n%d,0\n", times[0], times[399]),
			})
			var values []string
			for i, at := range times {
				value := fmt.Sprintf("%s,%d,%d", kinds[i], at, i%3)
				if format == "json" {
					value = fmt.Sprintf(`{"time": %d, "other": %d, "kind": %q}`, at, i%3, kinds[i])
				}
				values = append(values, value)
			}
			onTopic(t, "raw", values...)
			_, stderr := typed(t, exitDone, "ingest", "-c", "events.yaml", "--until", "end")
			_, said, found := strings.Cut(stderr, "Set examples.offsets: {"+columns.name+": ")
			offset, _, _ := strings.Cut(said, "}")
			if !found || strings.Count(stderr, "examples.offsets") != 1 {
				t.Fatalf("%s, expected a notice about the column %s alone", stderr, columns.name)
			}
			typed(t, exitDone, "topics", "delete", "-c", "events.yaml", "--yes")
			set := "examples.offsets={" + columns.name + ": " + offset + "}"
			if _, stderr := typed(t, exitDone, "ingest", "-c", "events.yaml", "--until", "end", "--set", set); strings.Contains(stderr,
				"examples.offsets") {
				t.Errorf("with %s: %s", set, stderr)
			}
			stdout, _ := typed(t, exitDone, "train", "-c", "events.yaml", "--set", set, "--report", "-", "--model", "events.model")
			var report schemas.Report
			if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.TrainError > 2 {
				t.Errorf("with %s the train error is %v %%: %v", set, report.TrainError, err)
			}
			if stdout, _ := typed(t, exitDone, "predict", "--model", "events.model", "-i", "rows.csv",
				"--header=false"); !strings.Contains(stdout, "\nearly,") || !strings.Contains(stdout, "\nlate,") {
				t.Errorf("%s, expected early and late", stdout)
			}
		})
	}
}
