package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// Versions of train and of run are made again, with the digests that the list shows, and no topic is left of it.
func TestVerify(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	report := trained(t)
	code, stdout, stderr := stagewise("verify", "-c", "good.yaml", "latest")
	if want := fmt.Sprintf("version 1, recomputed, has the same weights: %s\n", report.WeightsDigest); code != exitDone ||
		stdout != want || !strings.Contains(stderr, "stage") {
		t.Errorf("exit code %d: %s%s\nexpected %s", code, stdout, stderr, want)
	}
	chain := []string{"-c", "good.yaml", "--set", "data_dir=chain", "--set", "stages=[{features: {size: 20}}]", "--set",
		"retrain.rows=50", "--set", "retrain.full.growth=0", "--set", "examples.batch_rows=25"}
	if code, _, stderr := stagewise(append([]string{"run", "--until", "end", "--quiet"}, chain...)...); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	topics := listed(t, append([]string{"topics", "list"}, chain...)...)
	code, stdout, stderr = stagewise(append([]string{"verify", "3"}, chain...)...)
	if code != exitDone || strings.Count(stdout, "\n") != 3 || !strings.Contains(stdout,
		"version 3, recomputed, has the same weights: ") || strings.Count(stderr, "update") != 2 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: "chain"})
	if err != nil {
		t.Fatal(err)
	}
	left, err := log.Topics(t.Context(), "blobs.")
	if err != nil || len(left) != len(topics) {
		t.Errorf("%d topics, expected %d, %v", len(left), len(topics), err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := stagewise("verify", "-c", "good.yaml", "7"); code != exitFailed || !strings.Contains(stderr,
		`version "7": the pipeline has 1 versions, but not this one`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
