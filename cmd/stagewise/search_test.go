package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// Each run of a search has the weights of a run of its own. The best is that with the best predictions of holdout rows, train can be given it,
// and nothing of the search stays on the topics.
func TestSearch(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	search := []string{"search", "-c", "good.yaml", "--quiet", "--set", "examples.holdout=0.2", "--over", "stages.0.ridge=[1e-4, 10]", "--over", "prepare.scale=[none, unit]", "--over", "seed=[1, 2]"}
	code, stdout, stderr := stagewise(append(search, "-o", "best.yaml", "--html", "runs.html")...)
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	rows := strings.Split(stdout, "\n")
	if len(rows) != 1+8+3 || strings.Join(strings.Fields(rows[0])[:3], " ") != "stages.0.ridge prepare.scale seed" {
		t.Fatalf("expected a title and eight rows:\n%s", stdout)
	}
	train := func(args ...string) (r schemas.Report) {
		t.Helper()
		code, stdout, stderr := stagewise(append([]string{"train", "--quiet", "--report", "-"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &r); code != exitDone || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, stderr)
		}
		return r
	}
	best := ""
	for _, row := range rows[1:9] {
		fields := strings.Fields(row)
		r := train("-c", "good.yaml", "--set", "examples.holdout=0.2", "--set", "stages.0.ridge="+fields[0], "--set", "prepare.scale="+fields[1], "--set", "seed="+fields[2])
		if got := fields[len(fields)-1]; got != r.WeightsDigest.Short() {
			t.Errorf("%s: expected digest %s", row, r.WeightsDigest.Short())
		}
		key := func(row string) string { // an error below ten percent, then the loss
			f := strings.Fields(row)
			return f[3] + f[5]
		}
		if best == "" || key(row) < key(best) {
			best = row
		}
	}
	fields := strings.Fields(best)
	if want := "best: --set stages.0.ridge=" + fields[0] + " --set prepare.scale=" + fields[1] + " --set seed=" + fields[2]; rows[9] != want {
		t.Errorf("%s\nexpected %s in\n%s", rows[9], want, stdout)
	}
	if r := train("-c", "best.yaml"); r.WeightsDigest.Short() != fields[len(fields)-1] {
		t.Errorf("best.yaml trains %s, expected %s", r.WeightsDigest.Short(), fields[len(fields)-1])
	}
	if page, err := os.ReadFile("runs.html"); err != nil || !strings.Contains(string(page), "stages.*.ridge") && !strings.Contains(string(page), "stages.0.ridge") {
		t.Errorf("%v: the page does not say what differs", err)
	}
	code, stdout, stderr = stagewise(append(search, "--random", "3", "--seed", "7", "--by", "loss")...)
	if rows := strings.Split(stdout, "\n"); code != exitDone || len(rows) != 1+3+3 || len(slices.Compact(slices.Clone(rows))) != len(rows) {
		t.Errorf("exit code %d, %s: expected three rows that differ:\n%s", code, stderr, stdout)
	}
	topics, err := os.ReadDir(".stagewise")
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if strings.Contains(topic.Name(), "search") {
			t.Errorf("%s is still there", topic.Name())
		}
	}
}

// What can't be searched is refused before anything runs.
func TestSearchIsChecked(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	for _, c := range []struct{ args, want string }{
		{"--over stages.0.ridge=[1e-4]", "examples.holdout: 0: expected a fraction of the training rows to judge by"},
		{"--over stages.0.ridge=1e-4", "expected a list of values after the key"},
		{"--over stages.0.ridge=[]", "expected a list of values after the key"},
		{"--over examples.holdout=[0.1,0.2]", "expected a key under stages or prepare"},
		{"--over stages.0.ridge=[1e-4,-1]", "stages.0.ridge: -1: expected auto or a number"},
		{"--over stages.0.rigde=[1]", "expected one of the keys features, link"},
		{"--over seed=[1] --by accuracy", "--by: accuracy: expected error or loss"},
		{"--over seed=[1] --random -1", "--random: -1: expected"},
	} {
		code, _, stderr := stagewise(append([]string{"search", "-c", "good.yaml"}, strings.Fields(c.args)...)...)
		if code != exitWrong || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d: %s\nexpected %s", c.args, code, stderr, c.want)
		}
	}
}
