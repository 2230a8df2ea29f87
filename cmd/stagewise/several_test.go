package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
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

// severalRows writes CSV of two features and the labels of a row: right, up, both or none, and in some rows the label extra.
func severalRows(t *testing.T, name string, seed uint64, n int, extra string) {
	t.Helper()
	r, text := rand.New(rand.NewPCG(seed, 1)), strings.Builder{}
	text.WriteString("tags,x,y\n")
	for i := range n {
		x, y, labels := r.NormFloat64(), r.NormFloat64(), []string{}
		if x+0.2*r.NormFloat64() > 0 {
			labels = append(labels, "right")
		}
		if y+0.2*r.NormFloat64() > 0.5 {
			labels = append(labels, "up")
		}
		if extra != "" && i%50 == 0 {
			labels = append(labels, extra)
		}
		fmt.Fprintf(&text, "%s,%.4f,%.4f\n", strings.Join(labels, "|"), x, y)
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

const severalConfiguration = `name: several
examples: {train: [train.csv], test: [test.csv], labels: several, label: tags, batch_rows: 100}
stages: [{features: {kind: rff, size: 60}, link: LINK, repeat: 2}]
`

// What the report says of test rows is what the definitions say of the probabilities that predict writes, with every
// link. A label that only test rows have, rows without labels and a label without rows are no trouble.
func TestSeveralLabels(t *testing.T) {
	for _, link := range []string{"identity", "logistic", "calibrated"} {
		t.Run(link, func(t *testing.T) {
			inFolder(t, map[string]string{"several.yaml": strings.ReplaceAll(severalConfiguration, "LINK", link)})
			severalRows(t, "train.csv", 1, 1500, "")
			severalRows(t, "test.csv", 2, 400, "rare")
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
	inFolder(t, map[string]string{"several.yaml": strings.ReplaceAll(severalConfiguration, "LINK", "logistic")})
	severalRows(t, "train.csv", 1, 2000, "")
	severalRows(t, "test.csv", 2, 300, "")
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

// Labels in columns of 0 and 1 are those of a text, and what several labels can't have is refused.
func TestSeveralLabelsInFiles(t *testing.T) {
	inFolder(t, map[string]string{"several.yaml": strings.ReplaceAll(severalConfiguration, "LINK", "identity")})
	severalRows(t, "train.csv", 1, 600, "")
	severalRows(t, "test.csv", 2, 100, "")
	for _, name := range []string{"train", "test"} {
		content, err := os.ReadFile(name + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		columns, quoted := strings.Builder{}, strings.Builder{}
		columns.WriteString("right,x,y,up\n")
		quoted.WriteString("tags,x,y\n")
		for _, row := range strings.Split(strings.TrimSpace(string(content)), "\n")[1:] {
			tags, features, _ := strings.Cut(row, ",")
			is := func(label string) int { return strings.Count(tags, label) }
			fmt.Fprintf(&columns, "%d,%s,%d\n", is("right"), features, is("up"))
			fmt.Fprintf(&quoted, "%s,%s\n", strings.ReplaceAll(tags, "|", " / "), features)
		}
		for file, text := range map[string]string{name + "-columns.csv": columns.String(), name + "-slash.csv": quoted.String()} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	digests := map[string]bool{}
	for i, sets := range [][]string{
		nil,
		{"--set=examples.train=[train-columns.csv]", "--set=examples.test=[test-columns.csv]", "--set=examples.label=", "--set=examples.label_columns=[right, up]"},
		{"--set=examples.train=[train-slash.csv]", "--set=examples.test=[test-slash.csv]", "--set=examples.label_separator=/"},
	} {
		code, stdout, stderr := stagewise(append([]string{"train", "-c", "several.yaml", "--quiet", "--report", "-",
			fmt.Sprint("--set=data_dir=log", i)}, sets...)...)
		report := new(schemas.Report)
		if code != exitDone || json.Unmarshal([]byte(stdout), report) != nil {
			t.Fatalf("%v: exit code %d: %s%s", sets, code, stdout, stderr)
		}
		digests[fmt.Sprint(*report.Splits["test"].MicroF1, report.Labels)] = true
	}
	if len(digests) != 1 {
		t.Errorf("the same rows in other files give other models: %v", digests)
	}
	for set, want := range map[string]string{
		"stages.0.link=softmax":          "expected identity, logistic, calibrated, as rows have several labels",
		"examples.labels=many":           "one or several",
		"examples.class_weight=balanced": "none, as a row may have several labels",
		"examples.targets=[x]":           "one with examples.targets",
		"examples.label_columns=[x]":     "the labels are in several columns or in one",
		"examples.train=[a.idx3-ubyte]":  "one, as files of the format idx have one label a row",
	} {
		code, stdout, stderr := stagewise("check", "-c", "several.yaml", "--set", set)
		if code == exitDone || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit code %d: %s%s, expected %s", set, code, stdout, stderr, want)
		}
	}
	code, _, stderr := stagewise("train", "-c", "several.yaml", "--quiet", "--set=examples.holdout=0", "--set=stages.0.link=calibrated")
	if code == exitDone || !strings.Contains(stderr, "set examples.holdout") {
		t.Errorf("calibrated without holdout rows: exit code %d: %s", code, stderr)
	}
	if err := os.WriteFile("train.csv", []byte("tags,x,y\nright|,1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = stagewise("train", "-c", "several.yaml", "--quiet")
	if code == exitDone || !strings.Contains(stderr,
		`train.csv: line 2, column 0 ("tags"): label 1 of "right|": an empty field: expected a label`) {
		t.Errorf("a list with an empty entry: exit code %d: %s", code, stderr)
	}
}
