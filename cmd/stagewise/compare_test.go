package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
)

// Runs are compared by their versions and ids, also those of another pipeline, after the topics that only a run needs are empty.
func TestRunsAreCompared(t *testing.T) {
	reader := strings.NewReplacer("name: blobs", "name: reader", "train: [train.csv], test: [test.csv]", "topic: blobs.examples").Replace(good)
	inFolder(t, map[string]string{"good.yaml": good, "reader.yaml": reader, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	first := trained(t)
	for _, args := range [][]string{{"-c", "good.yaml", "--set", "stages.0.passes=3"}, {"-c", "reader.yaml", "--set", "seed=2"}} {
		if code, _, stderr := stagewise(append([]string{"train", "--quiet"}, args...)...); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	}
	code, stdout, stderr := stagewise("runs", "compare", "-c", "good.yaml", first.Run, "2", "reader/1", "--html", "compared.html")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	lines := map[string]string{}
	for line := range strings.Lines(stdout) {
		name, _, _ := strings.Cut(line, "  ")
		lines[name] = strings.Join(strings.Fields(line), " ")
	}
	for name, want := range map[string]string{
		"result":          "result blobs version 1 blobs version 2 reader version 1",
		"train rows":      "train rows 300 300 300",
		"stages.0.passes": "stages.0.passes 4 3 4",
		"seed":            "seed 1 1 2",
		"topic":           "topic - - blobs.examples",
		"test error":      "test error " + screen.Percent(first.TestError),
		"weights digest":  "weights digest " + first.WeightsDigest.Short(),
	} {
		if !strings.HasPrefix(lines[name], want) {
			t.Errorf("%s: expected %s in\n%s", name, want, stdout)
		}
	}
	if page, err := os.ReadFile("compared.html"); err != nil || !strings.Contains(string(page), "Loss of the test rows by pass") ||
		!strings.Contains(string(page), "Test rows of reader version 1 by") {
		t.Errorf("%v: the page lacks a diagram or a confusion matrix: %.300s", err, page)
	}
	if code, stdout, stderr := stagewise("runs", "show", "-c", "good.yaml", "1"); code != exitDone || !strings.Contains(stdout,
		"3/3 calibrated") || !strings.Contains(stdout, first.WeightsDigest.Short()) {
		t.Errorf("runs show: exit code %d: %s%s", code, stdout, stderr)
	}
	for args, want := range map[string]string{"1": "expected two or more runs", "1 9": "there is no run 9 on blobs.plans",
		"1 other/2": "pipeline other:"} {
		code, _, stderr := stagewise(append([]string{"runs", "compare", "-c", "good.yaml"}, strings.Fields(args)...)...)
		if code == exitDone || !strings.Contains(stderr, want) {
			t.Errorf("runs compare %s: exit code %d: %s", args, code, stderr)
		}
	}
}
