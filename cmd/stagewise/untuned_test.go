package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// If no key sets how to prepare and fit sparse rows, train chooses it by held-out rows, and trains as a configuration that says so. A
// version that starts from it has the same. Where a key says anything, or rows are dense, nothing is chosen.
func TestUntunedSparseRows(t *testing.T) {
	train, table := counted(600, 1)
	test, _ := counted(300, 2)
	config := "name: untuned\ndata_dir: d\nexamples: {train: train.libsvm, test: test.libsvm}\nstages: [{features: {kind: columns}}]\n"
	inFolder(t, map[string]string{"train.libsvm": train, "train.csv": table, "test.libsvm": test, "u.yaml": config})
	run := func(args ...string) (digest, stderr string) {
		t.Helper()
		code, _, stderr := stagewise(append([]string{"train", "-c", "u.yaml", "--report", "report.json"}, args...)...)
		if code != exitDone {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		report, err := os.ReadFile("report.json")
		if err != nil {
			t.Fatal(err)
		}
		return string(regexp.MustCompile(`"weights_digest": *"(\w+)"`).FindSubmatch(report)[1]), stderr
	}
	digest, stderr := run()
	chosen := regexp.MustCompile(`best with prepare: ({.*}), link: (\w+), passes: (\d+), ridge: ([^,]+),`).FindStringSubmatch(stderr)
	if chosen == nil || strings.Count(stderr, "tried") < 4 {
		t.Fatalf("nothing is chosen: %s", stderr)
	}
	if again, _ := run(); again != digest {
		t.Errorf("digest %s, at first %s", again, digest)
	}
	said := []string{"--set", "prepare=" + chosen[1], "--set", "stages.0.link=" + chosen[2], "--set", "stages.0.passes=" + chosen[3],
		"--set", "stages.0.ridge=" + chosen[4]}
	if same, stderr := run(said...); same != digest || strings.Contains(stderr, "tried") {
		t.Errorf("%q: digest %s, expected %s: %s", said, same, digest, stderr)
	}
	if _, stderr := run("--set", "warm=latest"); strings.Contains(stderr, "tried") {
		t.Errorf("a run that starts from a version chooses: %s", stderr)
	}
	if _, stderr := run("--set", "stages.0.link=softmax"); !strings.Contains(stderr, "link: softmax") {
		t.Errorf("the link is not kept: %s", stderr)
	}
	for _, args := range []string{"prepare.idf=1", "stages.0.passes=12", "stages.0.ridge=auto", "examples={train: train.csv, test: null}"} {
		if _, stderr := run("--set", args); strings.Contains(stderr, "tried") {
			t.Errorf("%s: chooses: %s", args, stderr)
		}
	}
}
