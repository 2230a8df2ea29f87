package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/serve"
)

// Numbers may be far from 0, as the seconds since 1970 are, or identifiers: the report, predict, serve and score are as
// exact as the deviations of the numbers allow, and what the report says of an error is in one unit.
func TestNumbersWithAnOffset(t *testing.T) {
	long(t)
	for name, offset := range map[string]float64{"seconds": 1.764e9, "milliseconds": 1.764e12, "negative": -1e12, "none": 0} {
		t.Run(name, func(t *testing.T) {
			r, text, n := rand.New(rand.NewPCG(3, 1)), strings.Builder{}, 600
			text.WriteString("a,y\n")
			truth := make([]float64, n)
			for i := range n {
				truth[i] = offset + float64(60*i) + math.Round(12*r.Float64())
				fmt.Fprintf(&text, "%d,%.0f\n", i, truth[i])
			}
			inFolder(t, map[string]string{"epoch.csv": text.String(), "epoch.yaml": `name: epoch
examples: {train: [epoch.csv], targets: [y], holdout: 0.2, batch_rows: 100}
prepare: {scale: standard}
stages: [{features: {kind: columns}, link: identity}]
`})
			code, stdout, stderr := stagewise("train", "-c", "epoch.yaml", "--quiet", "--report", "-", "--model", "epoch.model")
			report := new(schemas.Report)
			if code != exitDone || json.Unmarshal([]byte(stdout), report) != nil {
				t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
			}
			for split, s := range report.Splits {
				if s.Rows == 0 {
					continue
				}
				if d := s.Targets["y"]; !(d.RMSE > 3 && d.RMSE < 4) || !(d.R2 > 0.999999) || !(s.Error < 0.001) {
					t.Errorf("%s: %+v, error %v %% of the variance", split, d, s.Error)
				}
			}
			code, stdout, stderr = stagewise("predict", "--model", "epoch.model", "-i", "epoch.csv")
			if code != exitDone {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			predicted := column(t, stdout, "y")
			if d := distancesOf(truth, predicted); !(d.RMSE < 4) {
				t.Errorf("predict: %+v", d)
			}
			if rows := scoredBy(t, "epoch.yaml", "epoch", "epoch.model"); rows != n {
				t.Errorf("score has predicted %d rows", rows)
			}
			m := valueOf(readModel("epoch.model"))(t)
			server := valueOf(serve.New(serve.Defaults(), serve.Fixed(m), prometheus.NewRegistry(), "epoch"))(t)
			request := httptest.NewRequest(http.MethodPost, "/predict", strings.NewReader(`{"rows": [[7], [500]]}`))
			request.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, request)
			var got struct{ Predictions [][]float64 }
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || len(got.Predictions) != 2 ||
				got.Predictions[0][0] != predicted[7] || got.Predictions[1][0] != predicted[500] {
				t.Errorf("%v: %s, expected %v and %v", err, answer.Body, predicted[7], predicted[500])
			}
			request = httptest.NewRequest(http.MethodPost, "/predict", strings.NewReader(`{"rows": [[7]]}`))
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/vnd.apache.arrow.stream")
			answer = httptest.NewRecorder()
			server.ServeHTTP(answer, request)
			stream, err := ipc.NewReader(answer.Body)
			if err != nil || !stream.Next() {
				t.Fatalf("%v: %s", err, answer.Body)
			}
			defer stream.Release()
			numbers := stream.Record().Column(0).(*array.FixedSizeList).ListValues().(*array.Float64)
			if numbers.Value(0) != predicted[7] {
				t.Errorf("Arrow: %v, expected %v", numbers.Value(0), predicted[7])
			}
		})
	}
}

// An offset changes nothing of a chain, while the numbers go on to grow.
func TestNumbersWithAnOffsetInAChain(t *testing.T) {
	long(t)
	predictions := func(offset float64) (predicted []float64) {
		r, text := rand.New(rand.NewPCG(4, 1)), strings.Builder{}
		text.WriteString("a,y\n")
		for i := range 2000 {
			fmt.Fprintf(&text, "%d,%.0f\n", i, offset+float64(60*i)+math.Round(12*r.Float64()))
		}
		inFolder(t, map[string]string{"epoch.csv": text.String(), "epoch.yaml": `name: epoch
examples: {train: [epoch.csv], targets: [y], holdout: 0.2, batch_rows: 50}
prepare: {scale: standard}
stages: [{features: {kind: columns}, link: identity}]
retrain: {rows: 400, full: {every: 0, growth: 0, drift: false}}
`})
		typed(t, exitDone, "run", "-c", "epoch.yaml", "--quiet", "--until", "end")
		typed(t, exitDone, "weights", "export", "-c", "epoch.yaml", "-o", "epoch.model")
		stdout, _ := typed(t, exitDone, "predict", "--model", "epoch.model", "-i", "epoch.csv")
		for _, v := range column(t, stdout, "y") {
			predicted = append(predicted, v-offset)
		}
		return predicted
	}
	want := predictions(0)
	for i, v := range predictions(1.764e12) {
		if math.Abs(v-want[i]) > 0.05 {
			t.Fatalf("row %d is predicted as %v beyond the offset, and as %v without one", i, v, want[i])
		}
	}
}
