package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/serve"
)

// Labels that are whole numbers are numbers in the report, in answers and in exports. All others, 007 too, stay the texts that they are.
func TestWholeLabelsStayNumbers(t *testing.T) {
	for _, test := range []struct {
		labels string // of the classes red, green and blue
		want   []any
		arrow  arrow.Type
	}{
		{"10 2 -1", []any{-1.0, 2.0, 10.0}, arrow.INT64},
		{"7 007 8", []any{"007", "7", "8"}, arrow.STRING},
		{"1 2 blue", []any{"1", "2", "blue"}, arrow.STRING},
		{"0.0 1.0 2.0", []any{"0.0", "1.0", "2.0"}, arrow.STRING},
	} {
		labels := strings.Fields(test.labels)
		rows := strings.NewReplacer("red", labels[0], "green", labels[1], "blue", labels[2])
		inFolder(t, map[string]string{"good.yaml": good, "train.csv": rows.Replace(blobs(300, 1)), "test.csv": rows.Replace(blobs(60, 2))})
		if code, _, stderr := stagewise("train", "-c", "good.yaml", "--quiet", "--report", "report.json", "--model", "model"); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		var report struct{ Labels []any }
		readJSON(t, "report.json", &report)
		if !reflect.DeepEqual(report.Labels, test.want) {
			t.Errorf("labels %s are %v in the report, expected %v", test.labels, report.Labels, test.want)
		}

		m, err := readModel("model")
		if err != nil {
			t.Fatal(err)
		}
		server, err := serve.New(serve.Defaults(), serve.Fixed(m), prometheus.NewRegistry(), "blobs")
		if err != nil {
			t.Fatal(err)
		}
		ask := func(method, path, accept string) *httptest.ResponseRecorder {
			request := httptest.NewRequest(method, path, strings.NewReader(`{"rows": [[4, 0, 0], [0, 4, 0], [0, 0, 4]]}`))
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", accept)
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, request)
			if answer.Code != http.StatusOK {
				t.Fatalf("%s: %d: %s", path, answer.Code, answer.Body)
			}
			return answer
		}
		var answer, manifest struct{ Labels []any }
		decode(t, ask(http.MethodPost, "/predict", "application/json").Body.Bytes(), &answer)
		decode(t, ask(http.MethodGet, "/model", "application/json").Body.Bytes(), &manifest)
		var want []any // of the rows, which are red, green and blue
		for _, label := range labels {
			var value any = label
			if test.arrow == arrow.INT64 {
				decode(t, []byte(label), &value)
			}
			want = append(want, value)
		}
		if !reflect.DeepEqual(answer.Labels, want) || !reflect.DeepEqual(manifest.Labels, test.want) {
			t.Errorf("labels %s are %v in an answer and %v in the manifest, expected %v and %v", test.labels, answer.Labels, manifest.Labels,
				want, test.want)
		}
		stream, err := ipc.NewReader(ask(http.MethodPost, "/predict", "application/vnd.apache.arrow.stream").Body)
		if err != nil || !stream.Next() {
			t.Fatal(err)
		}
		column := stream.Record().Column(0)
		for i, label := range labels {
			if column.DataType().ID() != test.arrow || column.ValueStr(i) != label {
				t.Errorf("label %s of %s is %s in Arrow, of type %v", label, test.labels, column.ValueStr(i), column.DataType())
			}
		}
		stream.Release()

		if code, stdout, _ := stagewise("predict", "--model", "model", "-i", "test.csv"); code != exitDone || !strings.HasPrefix(stdout,
			"label,"+strings.Join(m.Labels(), ",")+"\n"+labels[0]+",") {
			t.Errorf("labels %s: predict writes %.80s", test.labels, stdout)
		}
	}
}

func readJSON(t *testing.T, path string, value any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decode(t, text, value)
}

func decode(t *testing.T, text []byte, value any) {
	t.Helper()
	if err := json.Unmarshal(text, value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
