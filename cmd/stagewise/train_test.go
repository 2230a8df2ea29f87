package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// trained trains on good.yaml, writes the model to the file model, and returns the report.
func trained(t *testing.T) (report schemas.Report) {
	t.Helper()
	code, stdout, stderr := stagewise("train", "-c", "good.yaml", "--quiet", "--report", "-", "--model", "model")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	return report
}

// digits returns the files of the example of digits, with a configuration in digits.yaml.
func digits(t *testing.T, configuration string) map[string]string {
	t.Helper()
	files := map[string]string{"digits.yaml": configuration}
	for _, name := range []string{"digits-train.csv.gz", "digits-test.csv.gz"} {
		content := valueOf(os.ReadFile(filepath.Join("../../examples/digits", name)))(t)
		files[name] = string(content)
	}
	return files
}

// A configuration that says only features, link and a small ridge is fitted to its minimum: its error is at most 0.2
// points above that of 50 passes of L-BFGS. The passes that are set are a limit.
func TestOneStageIsFittedToItsMinimum(t *testing.T) {
	long(t)
	inFolder(t, digits(t, `name: digits
examples: {train: [digits-train.csv.gz], test: [digits-test.csv.gz], header: false}
stages: [{features: {kind: columns}, link: softmax, ridge: 1e-4}]
`))
	train := func(settings ...string) (stage schemas.StageReport) {
		args := []string{"train", "-c", "digits.yaml", "--quiet", "--report", "-"}
		for _, s := range settings {
			args = append(args, "--set", s)
		}
		code, stdout, stderr := stagewise(args...)
		if code != exitDone || stderr != "" {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		var report schemas.Report
		if err := json.Unmarshal([]byte(stdout), &report); err != nil {
			t.Fatalf("%v in %s", err, stdout)
		}
		stage = report.Stages[0]
		t.Logf("%v: %d passes, test error %.2f %%, train loss %.5f", settings, stage.Passes, *stage.TestError, stage.TrainLoss)
		return stage
	}
	auto, fifty, twelve := train(), train("stages.0.method=lbfgs", "stages.0.passes=50"), train("stages.0.passes=12")
	if *auto.TestError > *fifty.TestError+0.2 || auto.TrainLoss > fifty.TrainLoss {
		t.Errorf("test error %.2f %% and train loss %.5f; 50 passes of L-BFGS have %.2f %% and %.5f", *auto.TestError, auto.TrainLoss,
			*fifty.TestError, fifty.TrainLoss)
	}
	if auto.Passes <= 50 || auto.Passes >= solve.LastPasses(solve.Defaults()) {
		t.Errorf("%d passes, expected more than 50, and fewer than the default of passes", auto.Passes)
	}
	if twelve.Passes != 12 {
		t.Errorf("%d passes with passes: 12", twelve.Passes)
	}
}
