package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// A version that averages has the errors of the mean, in the report, on the screen and where it predicts. The screen
// says which member a stage is of.
func TestAverage(t *testing.T) {
	schema := reportSchema(t)
	inFolder(t, map[string]string{"blobs.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(100, 2)})
	code, _, stderr := stagewise("train", "-c", "blobs.yaml", "--set", "average=2", "--set", "examples.holdout=0.1", "--report",
		"report.json", "--model", "model")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, line := range []string{"member 1/2\n   1/6 softmax", "member 2/2\n   4/6 softmax", "\n  mean of 2"} {
		if !strings.Contains(stderr, line) {
			t.Errorf("no %q in\n%s", line, stderr)
		}
	}
	text, err := os.ReadFile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	checkReport(t, schema, text)
	var report schemas.Report
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	last := report.Stages[5]
	if last.Average == nil || report.TrainError != last.Average.TrainError || *report.TestError != *last.Average.TestError ||
		report.Splits["holdout"].Error != *last.Average.HoldoutError {
		t.Errorf("train error %g and test error %v, the last stage says %+v", report.TrainError, report.TestError, last.Average)
	}
	_, predicted, _ := stagewise("predict", "--model", "model", "-i", "test.csv")
	rows, truth, wrong := strings.Split(strings.TrimSpace(predicted), "\n")[1:], strings.Split(strings.TrimSpace(blobs(100, 2)), "\n"), 0.0
	for i, row := range rows {
		label, _, _ := strings.Cut(row, ",")
		if want, _, _ := strings.Cut(truth[len(truth)-len(rows)+i], ","); label != want {
			wrong++
		}
	}
	if got := 100 * wrong / float64(len(rows)); got != *report.TestError {
		t.Errorf("predict has an error of %g %%, the report says %g", got, *report.TestError)
	}
	for what, command := range map[string][]string{
		"mean of 2 members, 2 × ": {"weights", "list", "-c", "blobs.yaml"},
		"  mean of 2":             {"runs", "show", "-c", "blobs.yaml", "1"},
		"2 models of these stages are trained and averaged": {"check", "-c", "blobs.yaml", "--set", "average=2"},
	} {
		if code, stdout, stderr := stagewise(command...); code != exitDone || !strings.Contains(stdout, what) {
			t.Errorf("%q: exit code %d, no %q in\n%s%s", command, code, what, stdout, stderr)
		}
	}
	if code, _, stderr := stagewise("verify", "-c", "blobs.yaml", "1"); code != exitDone {
		t.Errorf("verify: exit code %d: %s", code, stderr)
	}
	code, _, stderr = stagewise("run", "-c", "blobs.yaml", "--until", "end", "--set", "average=2")
	if code != exitWrong || !strings.Contains(stderr, "average: 2: expected 1 for run") {
		t.Errorf("a chain: exit code %d: %s", code, stderr)
	}
}
