package main

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

const numbersConfiguration = `name: numbers
examples: {train: [train.csv], test: [test.csv], targets: [price, rate], batch_rows: 100}
stages:
  - {features: {kind: columns}, link: identity}
  - {features: {kind: rff, size: 200}, link: identity, repeat: 2}
`

// column returns a column of CSV as numbers.
func column(t *testing.T, content, name string) (numbers []float64) {
	t.Helper()
	rows := valueOf(csv.NewReader(strings.NewReader(content)).ReadAll())(t)
	for c, head := range rows[0] {
		if head != name {
			continue
		}
		for _, row := range rows[1:] {
			v := valueOf(strconv.ParseFloat(row[c], 64))(t)
			numbers = append(numbers, v)
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
	code, stdout, stderr := stagewise("train", "-c", "numbers.yaml", "--quiet", "--report", "-", "--model", "numbers.model")
	report := new(schemas.Report)
	if code != exitDone || json.Unmarshal([]byte(stdout), report) != nil {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = stagewise("predict", "--model", "numbers.model", "-i", "test.csv"); code != exitDone ||
		!strings.HasPrefix(stdout, "price,rate\n") {
		t.Fatalf("exit code %d: %.200s%s", code, stdout, stderr)
	}
	truth := valueOf(os.ReadFile("test.csv"))(t)
	test, sum := report.Splits["test"], statistics.Distances{}
	for _, name := range []string{"price", "rate"} {
		want, got := distancesOf(column(t, string(truth), name), column(t, stdout, name)), test.Targets[name]
		if math.Abs(got.RMSE/want.RMSE-1) > 1e-3 || math.Abs(got.MAE/want.MAE-1) > 1e-3 || math.Abs(got.R2-want.R2) > 1e-3 {
			t.Errorf("%s: the report says %+v, the predictions have %+v", name, got, want)
		}
		sum.RMSE, sum.MAE, sum.R2 = sum.RMSE+got.RMSE/2, sum.MAE+got.MAE/2, sum.R2+got.R2/2
	}
	if *test.RMSE != sum.RMSE || *test.MAE != sum.MAE || *test.R2 != sum.R2 {
		t.Errorf("%v %v %v are not the means %+v", *test.RMSE, *test.MAE, *test.R2, sum)
	}
	if test.LogLoss != nil || test.Confusion != nil {
		t.Error("numbers have a log loss or a confusion matrix")
	}
	if d := test.Targets["price"]; d.RMSE > 12 || d.R2 < 0.99 {
		t.Errorf("price: %+v", d)
	}
	if d := test.Targets["rate"]; d.R2 < 0.9 {
		t.Errorf("rate: %+v", d)
	}
	if first, last := report.Stages[0], report.Stages[2]; !(*last.TestError < *first.TestError/2) ||
		math.Abs(*last.TestError-*report.TestError) > 1e-12 {
		t.Errorf("the stages have test errors %v and %v %% of the variance", *first.TestError, *last.TestError)
	}
	lines := strings.SplitAfter(string(truth), "\n")[1:3]
	bare := "b,a\n"
	for _, line := range lines {
		fields := strings.Split(strings.TrimSpace(line), ",")
		bare += fields[2] + "," + fields[0] + "\n"
	}
	noError(t, os.WriteFile("bare.csv", []byte(bare), 0o600))
	code, again, stderr := stagewise("predict", "--model", "numbers.model", "-i", "bare.csv")
	if code != exitDone || !strings.HasPrefix(stdout, again) {
		t.Errorf("exit code %d: %s%s, expected the beginning of %.200s", code, again, stderr, stdout)
	}
	if rows := scoredBy(t, "numbers.yaml", "numbers", "numbers.model"); rows == 0 {
		t.Error("score has predicted nothing")
	}
	for _, format := range []string{"onnx", "safetensors"} {
		if code, _, stderr := stagewise("weights", "export", "--model", "numbers.model", "--format", format, "-o", "x"); code != exitDone {
			t.Errorf("%s: exit code %d: %s", format, code, stderr)
		}
	}
}
