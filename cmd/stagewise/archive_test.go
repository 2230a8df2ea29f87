package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// A configuration that reads another pipeline's examples trains on them, within bounds if it says so; check says what
// it reads, and commands that change examples refuse it.
func TestExamplesOfAnotherPipeline(t *testing.T) {
	reader := strings.NewReplacer("name: blobs", "name: reader", "train: [train.csv], test: [test.csv]", "topic: blobs.examples").Replace(good)
	inFolder(t, map[string]string{"good.yaml": good, "reader.yaml": reader, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	owner := trained(t)
	run := func(args ...string) (report schemas.Report, stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := stagewise(args...)
		if code != exitDone {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
		_ = json.Unmarshal([]byte(stdout), &report)
		return report, stdout, stderr
	}
	if report, _, _ := run("train", "-c", "reader.yaml", "--quiet", "--report", "-"); report.WeightsDigest != owner.WeightsDigest ||
		report.Name != "reader" {
		t.Errorf("%s has digest %s, expected reader and %s", report.Name, report.WeightsDigest, owner.WeightsDigest)
	}
	// The test rows are the second message of partition 0.
	report, _, _ := run("train", "-c", "reader.yaml", "--quiet", "--report", "-", "--set", "examples.from=0,0,0,0", "--set", "examples.to=1")
	if report.Rows != owner.Rows || report.TestError != nil || report.PassedOver[coverage.Outside] != 1 {
		t.Errorf("%d rows, passed over %v; expected %d training rows and no others", report.Rows, report.PassedOver, owner.Rows)
	}
	_, stdout, _ := run("check", "-c", "reader.yaml", "--set", "examples.to=2026-11-01T00:00:00Z")
	if want := "none; train uses the examples on blobs.examples (read-only), before 2026-11-01T00:00:00Z"; !strings.Contains(stdout, want) || strings.Contains(stdout, "reader.examples") {
		t.Errorf("check: %s\nexpected %s, and no reader.examples", stdout, want)
	}
	for _, args := range [][]string{{"ingest"}, {"forget", "x"}, {"sources", "list"}, {"sources", "remove", "x"}} {
		code, _, stderr := stagewise(append(args, "-c", "reader.yaml")...)
		if want := "examples.topic: blobs.examples: expected no value for this command"; code != exitWrong || !strings.Contains(stderr,
			want) || !strings.Contains(stderr, "name: blobs") {
			t.Errorf("%v: exit code %d: %s\nexpected %s", args, code, stderr, want)
		}
	}
	_, ours, _ := run("run", "-c", "good.yaml", "--quiet", "--until", "end", "--report", "-")
	_, theirs, _ := run("run", "-c", "reader.yaml", "--quiet", "--until", "end", "--report", "-")
	var chains [2]pipeline.Retraining
	if err := errors.Join(json.Unmarshal([]byte(ours), &chains[0]), json.Unmarshal([]byte(theirs), &chains[1])); err != nil ||
		chains[0].WeightsDigest != chains[1].WeightsDigest || chains[0].WeightsDigest == "" {
		t.Errorf("a chain over the archive reports %s\nthe owner's %s", theirs, ours)
	}
	code, _, stderr := stagewise("train", "-c", "reader.yaml", "--set", "examples.train=train.csv")
	if code != exitWrong || !strings.Contains(stderr, "they would be written to that topic, which is only read") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	run("topics", "delete", "-c", "reader.yaml", "--yes")
	if again, _, _ := run("train", "-c", "good.yaml", "--quiet", "--report", "-"); again.WeightsDigest != owner.WeightsDigest {
		t.Errorf("digest %s, expected %s", again.WeightsDigest, owner.WeightsDigest)
	}
}
