package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// blobs returns a CSV file of three classes, whose rows are normally distributed around three different corners.
func blobs(rows int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{"red", "green", "blue"}
	var b strings.Builder
	for i := range rows {
		class := i % len(names)
		fmt.Fprint(&b, names[class])
		for corner := range names {
			center := 0.0
			if corner == class {
				center = 4
			}
			fmt.Fprintf(&b, ",%.3f", center+random.NormFloat64())
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

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
		content, err := os.ReadFile(filepath.Join("../../examples/digits", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(content)
	}
	return files
}

// A configuration that says only features, link and a small ridge is fitted to its minimum: its error is at most 0.2
// points above that of 50 passes of L-BFGS. The passes that are set are a limit.
func TestOneStageIsFittedToItsMinimum(t *testing.T) {
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

// A second training in one data directory uses the same rows and gives the same weights. The predictions of the model have the
// test error of the report.
func TestTrainTwiceAndPredict(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(90, 2)})
	first, second := trained(t), trained(t)
	if first.Rows != 300 || second.Rows != 300 || first.Splits["test"].Rows != 90 || first.Classes != 3 {
		t.Errorf("%d and %d rows, splits %v, %d classes", first.Rows, second.Rows, first.Splits, first.Classes)
	}
	if first.WeightsDigest == "" || first.WeightsDigest != second.WeightsDigest || second.Version != first.Version+1 {
		t.Errorf("versions %d and %d with weights %s and %s", first.Version, second.Version, first.WeightsDigest.Short(),
			second.WeightsDigest.Short())
	}
	if first.TestError == nil || *first.TestError > 5 || len(first.Stages) != 3 {
		t.Errorf("test error %v after %d stages", first.TestError, len(first.Stages))
	}

	code, stdout, stderr := stagewise("predict", "--model", "model", "-i", "test.csv")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil || len(rows) != 91 || strings.Join(rows[0], ",") != "label,blue,green,red" {
		t.Fatalf("%d rows under %v: %v", len(rows), rows[0], err)
	}
	wrong := 0
	for i, row := range rows[1:] {
		if row[0] != []string{"red", "green", "blue"}[i%3] {
			wrong++
		}
	}
	if got := 100 * float64(wrong) / 90; got-*first.TestError > 1e-9 || *first.TestError-got > 1e-9 {
		t.Errorf("%d of 90 predictions are wrong, but the test error of the report is %v %%", wrong, *first.TestError)
	}

	if code, stdout, stderr = stagewise("weights", "list", "-c", "good.yaml"); code != exitDone || strings.Count(stdout, "\n") != 3 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, _, stderr = stagewise("weights", "export", "-c", "good.yaml", "--version", "2", "-o", "exported"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	model, _ := os.ReadFile("model")
	exported, _ := os.ReadFile("exported")
	if len(model) == 0 || !bytes.Equal(model, exported) {
		t.Errorf("the model of train (%d bytes) differs from the export of version 2 (%d bytes)", len(model), len(exported))
	}
}

// Before the first training the commands that read versions fail at once, and say what to do.
func TestNoVersions(t *testing.T) {
	for _, args := range []string{"weights list -c good.yaml", "weights export -c good.yaml -o model"} {
		inFolder(t, map[string]string{"good.yaml": good})
		code, stdout, stderr := stagewise(strings.Fields(args)...)
		want := "stagewise: read blobs.plans: unknown topic or partition; run stagewise train first, or check name and data_dir\n"
		if code != exitFailed || stdout != "" || stderr != want {
			t.Errorf("%s: exit code %d: %s%s", args, code, stdout, stderr)
		}
		if _, err := os.Stat(".stagewise"); err == nil {
			t.Errorf("%s: a data directory was created", args)
		}
	}
}

// The standard output has results and nothing else. Progress and hints go to standard error.
func TestOutputIsTheResult(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(60, 1), "test.csv": blobs(30, 2)})
	code, stdout, stderr := stagewise("ingest", "-c", "good.yaml")
	if code != exitDone || stdout != "" || !strings.Contains(stderr, "train.csv: 60 train rows\n") {
		t.Errorf("ingest: exit code %d, output %q, standard error %q", code, stdout, stderr)
	}
	code, stdout, stderr = stagewise("train", "-c", "good.yaml")
	lines := strings.Split(stdout, "\n")
	if code != exitDone || len(lines) != 3 || !strings.HasPrefix(lines[0], "test error ") ||
		lines[1] != "model: version 1 on the topic blobs.versions" {
		t.Errorf("train: exit code %d, output %q", code, stdout)
	}
	for _, want := range []string{"blobs on the embedded broker", "train.csv: 60 train rows, already on the topic\n", " stage  link ",
		"to export it: "} {
		if !strings.Contains(stderr, want) {
			t.Errorf("train: no %q on standard error:\n%s", want, stderr)
		}
	}
	code, stdout, stderr = stagewise("train", "-c", "good.yaml", "--report", "-")
	if code != exitDone || json.Unmarshal([]byte(stdout), &schemas.Report{}) != nil || !strings.Contains(stderr, "model: version 2 ") {
		t.Errorf("train --report -: exit code %d, output %q, standard error %q", code, stdout, stderr)
	}
}

// The holdout has columns of its own while a run trains, in the log and in the list of versions.
func TestHoldoutIsShown(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(90, 2)})
	code, stdout, stderr := stagewise("train", "-c", "good.yaml", "--set", "examples.holdout=0.2", "--report", "report.json")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	content, err := os.ReadFile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	var report schemas.Report
	if err := json.Unmarshal(content, &report); err != nil {
		t.Fatal(err)
	}
	last := report.Stages[len(report.Stages)-1]
	for _, want := range []string{
		" stage link       passes   train holdout    test   train holdout    test seconds\n",
		fmt.Sprintf("   3/3 %-10s %6d %7s %7s %7s %7.4f %7.4f %7.4f ", last.Link, last.Passes, screen.Percent(&last.TrainError),
			screen.Percent(last.HoldoutError), screen.Percent(last.TestError),
			last.TrainLoss, *last.HoldoutLoss, *last.TestLoss),
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "/3 ") && len(line) > 81 {
			t.Errorf("more than 80 columns: %q", line)
		}
	}
	if want := fmt.Sprintf("test error %s, holdout error %s, train error ", screen.Percent(last.TestError),
		screen.Percent(last.HoldoutError)); !strings.HasPrefix(stdout, want) {
		t.Errorf("%q does not begin with %q", stdout, want)
	}
	code, stdout, stderr = stagewise("weights", "list", "-c", "good.yaml")
	if code != exitDone || !strings.Contains(stdout, "holdout error") || !strings.Contains(stdout, screen.Percent(last.HoldoutError)) {
		t.Errorf("weights list: exit code %d: %s%s", code, stdout, stderr)
	}
	code, _, stderr = stagewise("train", "-c", "good.yaml", "--set", "examples.holdout=0.2", "--log", "text")
	if code != exitDone || strings.Count(stderr, " holdout_error=") != strings.Count(stderr, " test_error=") ||
		!strings.Contains(stderr, `msg="stage ended" `) {
		t.Errorf("the log: exit code %d: %s", code, stderr)
	}
}

// With --model - the standard output holds the model and nothing else.
func TestModelToStandardOutput(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(60, 1), "test.csv": blobs(30, 2)})
	code, stdout, stderr := stagewise("train", "-c", "good.yaml", "--model", "-")
	if code != exitDone || !strings.Contains(stderr, "model: version 1 on the topic blobs.versions\n") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := stagewise("weights", "export", "-c", "good.yaml", "-o", "exported"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if exported, _ := os.ReadFile("exported"); stdout != string(exported) {
		t.Errorf("%d bytes on standard output, %d bytes exported", len(stdout), len(exported))
	}
}

// An error about the input names the flag or the file that is wrong, not the file that was to be written.
func TestPredictWithWrongInput(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(60, 1), "test.csv": blobs(30, 2)})
	trained(t)
	for _, test := range []struct {
		args, stderr string
		code         int
	}{
		{"-i none.csv", "stagewise: none.csv: no such file or directory\n", exitFailed},
		{"-i test.csv --header=false --label digit", "stagewise: --header: false: expected true: --label gives a column by name\n", exitWrong},
		{"-i test.csv --format xml", "stagewise: --format: xml: expected", exitWrong},
	} {
		code, stdout, stderr := stagewise(append([]string{"predict", "--model", "model", "-o", "out.csv"}, strings.Fields(test.args)...)...)
		if code != test.code || stdout != "" || !strings.HasPrefix(stderr, test.stderr) {
			t.Errorf("%s: exit code %d: %s%s", test.args, code, stdout, stderr)
		}
		if _, err := os.Stat("out.csv"); err == nil {
			t.Errorf("%s: a file was written", test.args)
		}
	}
}

func TestPredictWithAnotherWidth(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(60, 1), "test.csv": blobs(30, 2), "wide.csv": "1,2,3,4,5,6\n"})
	trained(t)
	code, stdout, stderr := stagewise("predict", "--model", "model", "-i", "wide.csv")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "wide.csv") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// A run that fails before it has written anything leaves nothing behind. What was there before, or was written, stays.
func TestTrainOnBadFiles(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": "red,1,2\ngreen,x,2\n", "test.csv": blobs(30, 2)})
	train := func(folder string, settings ...string) {
		t.Helper()
		args := []string{"train", "-c", "good.yaml", "--quiet", "--set", "data_dir=" + folder}
		for _, s := range settings {
			args = append(args, "--set", s)
		}
		code, stdout, stderr := stagewise(args...)
		if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		if !strings.Contains(stderr, "train.csv") && !strings.Contains(stderr, "no examples") {
			t.Errorf("%s", stderr)
		}
	}
	is := func(path string) bool { _, err := os.Stat(path); return err == nil }
	train("new/folder")
	train("new/folder", "examples.train=none-train.csv")
	train("new/folder", "examples.train=", "examples.test=")
	if is("new") {
		t.Error("a data directory is left of a run that has written nothing")
	}
	if code, _, stderr := stagewise("topics", "create", "-c", "good.yaml"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	train(".stagewise")
	if !is(".stagewise/log/topics.json") {
		t.Error("a data directory that was there before is gone")
	}
	if code, _, stderr := stagewise("ingest", "-c", "good.yaml", "--set", "data_dir=written", "--set", "examples.train="); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	train("written")
	if !is("written/log/topics.json") {
		t.Error("a data directory with examples is gone")
	}
}

func TestInterrupted(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(30, 1), "test.csv": blobs(30, 2)})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	code := execute(ctx, []string{"train", "-c", "good.yaml", "--quiet"}, &stdout, &stderr)
	if code != exitInterrupted || stderr.String() != "stagewise: interrupted; to resume, run the same command again\n" {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
