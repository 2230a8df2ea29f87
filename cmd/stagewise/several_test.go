package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/serve"
)

const severalConfiguration = `name: several
examples: {train: [train.csv], test: [test.csv], labels: several, label: tags, batch_rows: 100}
stages: [{features: {kind: rff, size: 60}, link: LINK, repeat: 2}]
`

// What the report says of test rows is what the definitions say of the probabilities that predict writes, with every
// link. A label that only test rows have, rows without labels and a label without rows are no trouble.
func TestSeveralLabels(t *testing.T) {
	long(t)
	for _, link := range []string{"identity", "logistic", "calibrated"} {
		t.Run(link, func(t *testing.T) {
			inFolder(t, map[string]string{"several.yaml": strings.ReplaceAll(severalConfiguration, "LINK", link)})
			write600(t, "train.csv", []byte(severalRows(1500, 1, "")))
			write600(t, "test.csv", []byte(severalRows(400, 2, "rare")))
			set := "--set=examples.classes=[right, up, rare, never]"
			code, stdout, stderr := stagewise("train", "-c", "several.yaml", "--quiet", "--report", "-", "--model", "several.model", set)
			report := new(schemas.Report)
			if code != exitDone || json.Unmarshal([]byte(stdout), report) != nil {
				t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
			}
			if report.Splits["holdout"].Rows < 200 || report.Thresholds == nil || report.Thresholds.Hamming == 0 {
				t.Fatalf("%+v", report)
			}
			code, stdout, stderr = stagewise("predict", "--model", "several.model", "-i", "test.csv")
			if code != exitDone || !strings.HasPrefix(stdout, "labels,right,up,rare,never\n") {
				t.Fatalf("exit code %d: %.200s%s", code, stdout, stderr)
			}
			content, err := os.ReadFile("test.csv")
			if err != nil {
				t.Fatal(err)
			}
			test, n, k := report.Splits["test"], 0.0, 4.0
			var wrong, right, given, whole, first float64
			truth, answers := strings.Split(strings.TrimSpace(string(content)), "\n")[1:], strings.Split(strings.TrimSpace(stdout), "\n")[1:]
			for i, row := range truth {
				tags, _, _ := strings.Cut(row, ",")
				fields := strings.Split(answers[i], ",")
				exact, best := true, 0
				for c, label := range report.Labels {
					has := slices.Contains(strings.Split(tags, "|"), label)
					var p float64
					if _, err := fmt.Sscan(fields[1+c], &p); err != nil || p < 0 || p > 1 {
						t.Fatalf("probability %s", fields[1+c])
					}
					var q float64
					if _, err := fmt.Sscan(fields[1+best], &q); err == nil && p > q {
						best = c
					}
					if p >= report.Thresholds.Hamming != has {
						wrong++
					}
					exact = exact && p >= report.Thresholds.SubsetAccuracy == has
					said := p >= report.Thresholds.MicroF1
					if said != slices.Contains(strings.Split(fields[0], ";"), label) {
						t.Errorf("row %d: %s, %v at %v", i, answers[i], label, report.Thresholds.MicroF1)
					}
					for _, is := range []bool{has, said} {
						if is {
							given++
						}
					}
					if has && said {
						right++
					}
				}
				if n++; exact {
					whole++
				}
				if slices.Contains(strings.Split(tags, "|"), report.Labels[best]) {
					first++
				}
			}
			for name, pair := range map[string][2]float64{
				"hamming": {*test.Hamming, wrong / (n * k)}, "micro_f1": {*test.MicroF1, 2 * right / given},
				"subset_accuracy": {*test.SubsetAccuracy, whole / n}, "precision_at 1": {test.PrecisionAt["1"], first / n},
			} {
				if math.Abs(pair[0]-pair[1]) > 2e-3 { // a probability may be at the threshold
					t.Errorf("%s: the report says %.4f, the predictions have %.4f", name, pair[0], pair[1])
				}
			}
			if *test.Hamming > 0.08 || *test.MicroF1 < 0.85 || test.Confusion != nil {
				t.Errorf("%+v", test)
			}
		})
	}
}

// A chain learns several labels: its updates keep the thresholds, and a label that no version knows has rows that are left out.
func TestSeveralLabelsInAChain(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"several.yaml": strings.ReplaceAll(severalConfiguration, "LINK", "logistic")})
	write600(t, "train.csv", []byte(severalRows(2000, 1, "")))
	write600(t, "test.csv", []byte(severalRows(300, 2, "")))
	code, stdout, stderr := stagewise("run", "-c", "several.yaml", "--quiet", "--until", "end", "--report", "-",
		"--set=retrain.rows=500", "--set=retrain.full.growth=0", "--set=retrain.gate.margin=1")
	var report struct {
		Updates []*schemas.RetrainReport `json:"updates"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); code != exitDone || err != nil || len(report.Updates) < 3 {
		t.Fatalf("exit code %d: %v: %s%s", code, err, stdout, stderr)
	}
	for i, u := range report.Updates[1:] {
		if u.Kind != schemas.RunUpdate || u.Rows > 0 && !(*u.PrequentialError < 12) {
			t.Errorf("version %d: %+v", i+2, u)
		}
	}
	if code, _, stderr := stagewise("weights", "export", "-c", "several.yaml", "-o", "several.model"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	m, err := readModel("several.model")
	if err != nil {
		t.Fatal(err)
	}
	if m.Manifest.Thresholds == nil || m.Threshold() != m.Manifest.Thresholds.MicroF1 {
		t.Errorf("threshold %v of %+v", m.Threshold(), m.Manifest.Thresholds)
	}
	probabilities := make([]float32, len(m.Labels()))
	if label := m.Predict([]float32{2, -2}, probabilities); label != "right" || !slices.Equal(m.Given(probabilities), []string{"right"}) {
		t.Errorf("%s %v %v", label, probabilities, m.Given(probabilities))
	}
	server, err := serve.New(serve.Defaults(), serve.Fixed(m), prometheus.NewRegistry(), "several")
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/predict", strings.NewReader(`{"rows": [[2, 2], [-2, -2]]}`))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	if server.ServeHTTP(answer, request); !strings.Contains(answer.Body.String(), `"labels":[["right","up"],[]]`) {
		t.Errorf("the server answers %s", answer.Body)
	}
	for _, format := range []string{"onnx", "safetensors"} {
		if code, _, stderr := stagewise("weights", "export", "--model", "several.model", "--format", format, "-o", "x"); code != exitDone {
			t.Errorf("%s: exit code %d: %s", format, code, stderr)
		}
	}
	if rows := scoredBy(t, "several.yaml", "several", "several.model"); rows == 0 {
		t.Error("score has predicted nothing")
	}
}
