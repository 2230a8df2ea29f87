package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/serve"
)

// trained trains on good.yaml, writes the model to the file model, and returns the report.
func trained(t *testing.T) schemas.Report {
	t.Helper()
	return reported(t, "-c", "good.yaml", "--model", "model")
}

// reported trains, and returns the report. A quiet command says nothing else.
func reported(t *testing.T, args ...string) (report schemas.Report) {
	t.Helper()
	stdout, stderr := typed(t, exitDone, append([]string{"train", "--quiet", "--report", "-"}, args...)...)
	err := json.Unmarshal([]byte(stdout), &report)
	assert.Need(t, err == nil && stderr == "", "%v in %s%s", err, stdout, stderr)
	return report
}

// reportSchema returns the documented schema of a report.
func reportSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	content := assert.Must(os.ReadFile("../../schemas/report.schema.json"))(t)
	schema := &jsonschema.Schema{}
	assert.NoError(t, json.Unmarshal(content, schema))
	return schema
}

// checkReport validates a report against the schema.
func checkReport(t *testing.T, schema *jsonschema.Schema, text []byte) {
	t.Helper()
	resolved := assert.Must(schema.Resolve(nil))(t)
	var report any
	assert.NoError(t, json.Unmarshal(text, &report))
	err := resolved.Validate(report)
	assert.True(t, err == nil, "%v in\n%s", err, text)
}

// The schema documents the fields of the Go types, all and no others, and requires those that are always there.
func TestReportSchemaHasAllFields(t *testing.T) {
	schema := reportSchema(t)
	check := func(name string, s *jsonschema.Schema, values ...any) {
		t.Helper()
		var fields, always []string
		for _, v := range values {
			for f := range reflect.TypeOf(v).Fields() {
				tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
				if tag == "" {
					continue // embedded
				}
				if fields = append(fields, tag); !strings.Contains(options, "omitempty") {
					always = append(always, tag)
				}
			}
		}
		slices.Sort(fields)
		documented := slices.Sorted(maps.Keys(s.Properties))
		assert.True(t, slices.Equal(documented, fields), "%s: the schema has the fields %v, Go has %v", name, documented, fields)
		required := slices.Sorted(slices.Values(s.Required))
		slices.Sort(always)
		assert.True(t, slices.Equal(required, always), "%s: the schema requires %v, Go always writes %v", name, required, always)
		for field, p := range s.Properties {
			assert.True(t, p.Description != "" || p.Ref != "", "%s: %s has no description", name, field)
		}
	}
	check("report", schema, schemas.Report{}, screen.Report{})
	check("stage", schema.Defs["stage"], schemas.StageReport{}, schemas.Measured{})
	check("split", schema.Defs["split"], schemas.SplitReport{}, statistics.ClassMeasures{})
	check("decided", schema.Defs["split"].Properties["decided"], statistics.Decided{})
	check("pass", schema.Defs["pass"], schemas.PassReport{})
	check("average", schema.Defs["average"], schemas.AverageReport{}, schemas.Measured{})
	check("reliability", schema.Defs["reliability"], schemas.ReliabilityBin{})
	check("retrain", schema.Properties["retrain"], schemas.RetrainReport{})
	check("bin", schema.Defs["bin"], statistics.ErrorBin{})
	check("served", schema.Defs["served"], schemas.ServedReport{})
	check("outcomes", schema.Defs["outcomes"], schemas.OutcomesReport{}, examples.JoinCounts{})
	check("bad messages", schema.Defs["bad_messages"], coverage.BadMessages{})
	check("span", schema.Defs["span"], coverage.Span{})
	var reasons []string
	for _, r := range coverage.PassOverReasons() {
		reasons = append(reasons, string(r.Reason))
		got := schema.Properties["passed_over"].Properties[string(r.Reason)]
		assert.True(t, got != nil && got.Description == r.Meaning, "passed_over: %s is not described as %q", r.Reason, r.Meaning)
	}
	got := schema.Properties["passed_over"].Properties
	assert.True(t, len(got) == len(reasons), "passed_over: the schema has %v, Go has %v", slices.Sorted(maps.Keys(got)), reasons)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	return string(assert.Must(os.ReadFile(name))(t))
}

// A report is what its schema says. Its confusion matrix has a line for each true class, and its configuration is one that train can
// be given, for the same weights. A password is not in it.
func TestReportIsAsDocumented(t *testing.T) {
	schema := reportSchema(t)
	test := "red,9,0,0\nred,9,0,0\nred,0,9,0\n" // two rows that are red, and one that looks green
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": test})
	t.Setenv("STAGEWISE_SECURITY_SASL_PASSWORD", "hunter2") // ignored, as there is no mechanism
	args := []string{"--quiet", "--set", "examples.holdout=0.2", "--set", "stages.1.passes=3", "--set", "stages.0.ridge=1e-4", "--report"}
	typed(t, exitDone, append([]string{"train", "-c", "good.yaml"}, append(args, "first.json")...)...)
	text := readFile(t, "first.json")
	checkReport(t, schema, []byte(text))
	var first struct {
		schemas.Report
		Configuration json.RawMessage
	}
	assert.NoError(t, json.Unmarshal([]byte(text), &first))
	// blue, green, red: the true classes are the rows
	assert.Equal(t, first.Splits["test"].Confusion, [][]int64{{0, 0, 0}, {0, 0, 0}, {0, 1, 2}}, "confusion")
	assert.True(t, !strings.Contains(text, "hunter2") && !strings.Contains(text, "security"), "security is in\n%s", text)
	assert.NoError(t, os.WriteFile("again.json", first.Configuration, 0o644))
	typed(t, exitDone, "train", "-c", "again.json", "--quiet", "--report", "second.json", "--set", "data_dir=other")
	var second schemas.Report
	assert.NoError(t, json.Unmarshal([]byte(readFile(t, "second.json")), &second))
	assert.True(t, second.WeightsDigest == first.WeightsDigest && second.Version == 1,
		"version %d with weights %s, expected %s", second.Version, second.WeightsDigest.Short(), first.WeightsDigest.Short())
}

// clicked is a configuration of a run on what a topic has in JSON.
const clicked = `name: clicks
examples:
  from_topic: events
  format: json
  label: kind
  columns: {use: [length, width]}
  missing: mean
stages: [{features: {kind: columns}, passes: 3}]
`

const numbersConfiguration = `name: numbers
examples: {train: [train.csv], test: [test.csv], targets: [price, rate], batch_rows: 100}
stages:
  - {features: {kind: columns}, link: identity}
  - {features: {kind: rff, size: 200}, link: identity, repeat: 2}
`

// column returns a column of CSV as numbers.
func column(t *testing.T, content, name string) (numbers []float64) {
	t.Helper()
	rows := assert.Must(csv.NewReader(strings.NewReader(content)).ReadAll())(t)
	for c, head := range rows[0] {
		if head != name {
			continue
		}
		for _, row := range rows[1:] {
			numbers = append(numbers, assert.Must(strconv.ParseFloat(row[c], 64))(t))
		}
	}
	return numbers
}

// distancesOf returns RMSE, MAE and R² by their definitions.
func distancesOf(truth, predicted []float64) (d statistics.Distances) {
	mean, n := 0.0, float64(len(truth))
	for _, y := range truth {
		mean += y / n
	}
	squares, variance := 0.0, 0.0
	for i, y := range truth {
		squares += (y - predicted[i]) * (y - predicted[i])
		variance += (y - mean) * (y - mean)
		d.MAE += math.Abs(y-predicted[i]) / n
	}
	d.RMSE, d.R2 = math.Sqrt(squares/n), 1-squares/variance
	return d
}

// Numbers are learnt stage by stage. What the report says of test rows is what predict predicts for them, and a file may lack the numbers.
func TestNumbers(t *testing.T) {
	inFolder(t, map[string]string{"numbers.yaml": numbersConfiguration})
	write600(t, "train.csv", []byte(numberRows(2000, 1)))
	write600(t, "test.csv", []byte(numberRows(500, 2)))
	report := reported(t, "-c", "numbers.yaml", "--model", "numbers.model")
	stdout, _ := typed(t, exitDone, "predict", "--model", "numbers.model", "-i", "test.csv")
	assert.Need(t, strings.HasPrefix(stdout, "price,rate\n"), "%.200s", stdout)
	truth := assert.Must(os.ReadFile("test.csv"))(t)
	test, sum := report.Splits["test"], statistics.Distances{}
	for _, name := range []string{"price", "rate"} {
		want, got := distancesOf(column(t, string(truth), name), column(t, stdout, name)), test.Targets[name]
		assert.True(t, math.Abs(got.RMSE/want.RMSE-1) <= 1e-3 && math.Abs(got.MAE/want.MAE-1) <= 1e-3 && math.Abs(got.R2-want.R2) <= 1e-3,
			"%s: the report says %+v, the predictions have %+v", name, got, want)
		sum.RMSE, sum.MAE, sum.R2 = sum.RMSE+got.RMSE/2, sum.MAE+got.MAE/2, sum.R2+got.R2/2
	}
	assert.True(t, *test.RMSE == sum.RMSE && *test.MAE == sum.MAE && *test.R2 == sum.R2,
		"%v %v %v are not the means %+v", *test.RMSE, *test.MAE, *test.R2, sum)
	assert.True(t, test.LogLoss == nil && test.Confusion == nil, "numbers have a log loss or a confusion matrix")
	d := test.Targets["price"]
	assert.True(t, d.RMSE <= 12 && d.R2 >= 0.99, "price: %+v", d)
	d = test.Targets["rate"]
	assert.True(t, d.R2 >= 0.9, "rate: %+v", d)
	first, last := report.Stages[0], report.Stages[2]
	assert.True(t, *last.TestError < *first.TestError/2 && math.Abs(*last.TestError-*report.TestError) <= 1e-12,
		"the stages have test errors %v and %v %% of the variance", *first.TestError, *last.TestError)
	lines := strings.SplitAfter(string(truth), "\n")[1:3]
	bare := "b,a\n"
	for _, line := range lines {
		fields := strings.Split(strings.TrimSpace(line), ",")
		bare += fields[2] + "," + fields[0] + "\n"
	}
	assert.NoError(t, os.WriteFile("bare.csv", []byte(bare), 0o600))
	again, _ := typed(t, exitDone, "predict", "--model", "numbers.model", "-i", "bare.csv")
	assert.True(t, strings.HasPrefix(stdout, again), "%s, expected the beginning of %.200s", again, stdout)
	assert.True(t, scoredBy(t, "numbers.yaml", "numbers", "numbers.model") != 0, "score has predicted nothing")
}

// An offset of the numbers, such as that of the seconds since 1970, changes nothing, in one run, and in a chain while they go on to grow:
// predictions and errors are as exact as the deviations of the numbers allow, and serve answers what predict writes.
func TestNumbersWithAnOffset(t *testing.T) {
	long(t)
	predictions := func(command string, rows int, offset float64) (predicted []float64) {
		r, text := rand.New(rand.NewPCG(3, 1)), strings.Builder{}
		text.WriteString("a,y\n")
		for i := range rows {
			fmt.Fprintf(&text, "%d,%.0f\n", i, offset+float64(60*i)+math.Round(12*r.Float64()))
		}
		inFolder(t, map[string]string{"epoch.csv": text.String(), "epoch.yaml": `name: epoch
examples: {train: [epoch.csv], targets: [y], holdout: 0.2, batch_rows: 50}
prepare: {scale: standard}
stages: [{features: {kind: columns}, link: identity}]
retrain: {rows: 400, full: {every: 0, growth: 0, drift: false}}
`})
		typed(t, exitDone, strings.Fields(command+" -c epoch.yaml --quiet --report report.json")...)
		typed(t, exitDone, "weights", "export", "-c", "epoch.yaml", "-o", "epoch.model")
		if command == "train" {
			report := new(schemas.Report)
			assert.NoError(t, json.Unmarshal(assert.Must(os.ReadFile("report.json"))(t), report))
			for split, s := range report.Splits {
				d := s.Targets["y"]
				assert.True(t, s.Rows == 0 || d.RMSE > 3 && d.RMSE < 5 && d.R2 > 0.999999 && s.Error < 0.001, "%s: %+v, error %v %%", split, d, s.Error)
			}
		}
		stdout, _ := typed(t, exitDone, "predict", "--model", "epoch.model", "-i", "epoch.csv")
		predicted = column(t, stdout, "y")
		m := assert.Must(readModel("epoch.model"))(t)
		server := assert.Must(serve.New(serve.Defaults(), serve.Fixed(m), prometheus.NewRegistry(), "epoch", func(string) {}))(t)
		request := httptest.NewRequest(http.MethodPost, "/predict", strings.NewReader(`{"rows": [[7], [500]]}`))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, request)
		var got struct{ Predictions [][]float64 }
		err := json.Unmarshal(answer.Body.Bytes(), &got)
		assert.True(t, err == nil && len(got.Predictions) == 2 &&
			got.Predictions[0][0] == predicted[7] && got.Predictions[1][0] == predicted[500],
			"%v: %s, expected %v and %v", err, answer.Body, predicted[7], predicted[500])
		for i := range predicted {
			predicted[i] -= offset
		}
		return predicted
	}
	for _, c := range []struct {
		command string
		rows    int
		offsets []float64
	}{{"train", 600, []float64{1.764e9, -1e12}}, {"run --until end", 2000, []float64{1.764e12}}} {
		want := predictions(c.command, c.rows, 0)
		for _, offset := range c.offsets {
			for i, v := range predictions(c.command, c.rows, offset) {
				assert.Need(t, math.Abs(v-want[i]) <= 0.05,
					"%s: row %d is predicted as %v beyond the offset %v, and as %v without one", c.command, i, v, offset, want[i])
			}
		}
	}
}

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
			report := reported(t, "-c", "several.yaml", "--model", "several.model", "--set=examples.classes=[right, up, rare, never]")
			assert.Need(t, report.Splits["holdout"].Rows >= 200 && report.Thresholds != nil && report.Thresholds.Hamming != 0, "%+v", report)
			stdout, _ := typed(t, exitDone, "predict", "--model", "several.model", "-i", "test.csv")
			assert.Need(t, strings.HasPrefix(stdout, "labels,right,up,rare,never\n"), "%.200s", stdout)
			content := assert.Must(os.ReadFile("test.csv"))(t)
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
					_, err := fmt.Sscan(fields[1+c], &p)
					assert.Need(t, err == nil && p >= 0 && p <= 1, "probability %s", fields[1+c])
					var q float64
					if _, err := fmt.Sscan(fields[1+best], &q); err == nil && p > q {
						best = c
					}
					if p >= report.Thresholds.Hamming != has {
						wrong++
					}
					exact = exact && p >= report.Thresholds.SubsetAccuracy == has
					said := p >= report.Thresholds.MicroF1
					assert.True(t, said == slices.Contains(strings.Split(fields[0], ";"), label),
						"row %d: %s, %v at %v", i, answers[i], label, report.Thresholds.MicroF1)
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
				// a probability may be at the threshold
				assert.True(t, math.Abs(pair[0]-pair[1]) <= 2e-3, "%s: the report says %.4f, the predictions have %.4f", name, pair[0], pair[1])
			}
			assert.True(t, *test.Hamming <= 0.08 && *test.MicroF1 >= 0.85 && test.Confusion == nil, "%+v", test)
		})
	}
}
