package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// Each run of a search has the weights of a run of its own. The best is that with the best predictions of holdout rows,
// train can be given it, and nothing of the search stays on the topics.
func TestSearch(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	search := []string{"search", "-c", "good.yaml", "--quiet", "--set", "examples.holdout=0.2", "--over", "stages.0.ridge=[1e-4, 10]",
		"--over", "prepare.scale=[none, unit]", "--over", "seed=[1, 2]"}
	code, stdout, stderr := stagewise(append(search, "-o", "best.yaml", "--html", "runs.html")...)
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	rows := strings.Split(stdout, "\n")
	if len(rows) != 1+8+3 || strings.Join(strings.Fields(rows[0])[:4], " ") != "run stages.0.ridge prepare.scale seed" {
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
		fields := strings.Fields(row)[1:]
		r := train("-c", "good.yaml", "--set", "examples.holdout=0.2", "--set", "stages.0.ridge="+fields[0], "--set", "prepare.scale="+
			fields[1], "--set", "seed="+fields[2])
		if got := fields[len(fields)-1]; got != r.WeightsDigest.Short() {
			t.Errorf("%s: expected digest %s", row, r.WeightsDigest.Short())
		}
		key := func(row string) string { // an error below ten percent, then the loss
			f := strings.Fields(row)
			return f[4] + f[6]
		}
		if best == "" || key(row) < key(best) {
			best = row
		}
	}
	fields := strings.Fields(best)[1:]
	if want := "best: --set stages.0.ridge=" + fields[0] + " --set prepare.scale=" + fields[1] + " --set seed=" + fields[2]; rows[9] != want {
		t.Errorf("%s\nexpected %s in\n%s", rows[9], want, stdout)
	}
	if r := train("-c", "best.yaml"); r.WeightsDigest.Short() != fields[len(fields)-1] {
		t.Errorf("best.yaml trains %s, expected %s", r.WeightsDigest.Short(), fields[len(fields)-1])
	}
	if page, err := os.ReadFile("runs.html"); err != nil || !strings.Contains(string(page), "stages.*.ridge") &&
		!strings.Contains(string(page), "stages.0.ridge") {
		t.Errorf("%v: the page does not say what differs", err)
	}
	code, stdout, stderr = stagewise(append(search, "--random", "3", "--seed", "7", "--by", "loss")...)
	if rows := strings.Split(stdout, "\n"); code != exitDone || len(rows) != 1+3+3 || len(slices.Compact(slices.Clone(rows))) != len(rows) {
		t.Errorf("exit code %d, %s: expected three rows that differ:\n%s", code, stderr, stdout)
	}
	leavesNothing(t)
}

// searchTopics are the folders of partitions of topics of a search.
const searchTopics = ".stagewise/log/partitions/*.search-*"

// leavesNothing checks that a search has deleted its topics, and no others.
func leavesNothing(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(searchTopics)
	if err != nil || len(left) > 0 {
		t.Errorf("%v are still there, %v", left, err)
	}
	if others, err := filepath.Glob(".stagewise/log/partitions/blobs.examples-*"); err != nil || len(others) == 0 {
		t.Errorf("%v: there are no examples", err)
	}
}

// With folds, the table has means and deviations over them, the best configuration is that of the lowest mean and has the holdout of the
// user, and none is needed.
func TestSearchWithFolds(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	code, stdout, stderr := stagewise("search", "-c", "good.yaml", "--quiet", "--folds", "3", "--over", "stages.0.ridge=[1e-4, 1000]",
		"-o", "best.yaml", "--html", "runs.html")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	rows := strings.Split(stdout, "\n")
	if len(rows) != 1+2+3 || !strings.HasPrefix(rows[3], "best: --set stages.0.ridge=") {
		t.Fatalf("expected a title and two rows:\n%s", stdout)
	}
	losses := make([]float64, 2)
	for i, row := range rows[1:3] {
		if !strings.Contains(row, "of 3 folds") || strings.Count(row, " ± ") != 2 {
			t.Errorf("%q has no means of 3 folds", row)
		}
		fields := strings.Fields(row) // ridge, error, %, ±, deviation, loss
		fmt.Sscan(fields[1], &losses[i])
	}
	if losses[0] > losses[1] {
		t.Errorf("the best is not the first:\n%s", stdout)
	}
	best, err := os.ReadFile("best.yaml")
	if err != nil || !strings.Contains(string(best), "holdout: 0\n") || strings.Contains(string(best), "fold") {
		t.Errorf("%v: %s", err, best)
	}
	if page, err := os.ReadFile("runs.html"); err != nil || !strings.Contains(string(page), "stages.0.ridge") {
		t.Errorf("%v: the page does not say what differs", err)
	}
}

// Ctrl-C ends a search between folds, and the next one begins with clean topics.
func TestInterruptedSearch(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(3000, 1), "test.csv": blobs(60, 2)})
	ctx, cancel := context.WithCancelCause(context.Background())
	search := []string{"search", "-c", "good.yaml", "--folds", "50", "--over", "stages.0.ridge=[1e-4, 10]"}
	go func() {
		defer cancel(&interruption{syscall.SIGINT})
		for ctx.Err() == nil {
			if found, _ := filepath.Glob(searchTopics); len(found) > 0 {
				return
			}
			runtime.Gosched()
		}
	}()
	var stdout, stderr bytes.Buffer
	if code := execute(ctx, append(search, "--quiet"), &stdout, &stderr); code != exitInterrupted || stdout.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, stdout.String(), stderr.String())
	}
	search[4] = "2"
	if code, _, stderr := stagewise(append(search, "--quiet")...); code != exitDone {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	leavesNothing(t)
}

// What can't be searched is refused before anything runs.
func TestSearchIsChecked(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	for _, c := range []struct{ args, want string }{
		{"--over stages.0.ridge=[1e-4]", "examples.holdout: 0: expected a fraction of the training rows to rank runs by"},
		{"--over stages.0.ridge=1e-4", "expected a list of values after the key"},
		{"--over stages.0.ridge=[]", "expected a list of values after the key"},
		{"--over examples.holdout=[0.1,0.2]", "expected a key under stages or prepare"},
		{"--over stages.0.ridge=[1e-4,-1]", "stages.0.ridge: -1: expected auto or a number"},
		{"--over stages.0.rigde=[1]", "expected one of the keys features, link"},
		{"--over seed=[1] --by accuracy", "--by: accuracy: expected error, loss, auc"},
		{"--over seed=[1] --folds 1", "--folds: 1: expected a whole number from 2 to 100, or 0 for none"},
		{"--over seed=[1] --folds -5", "--folds: -5: expected"},
		{"--over seed=[1] --folds 101", "--folds: 101: expected"},
		{"--over seed=[1] --random -1", "--random: -1: expected"},
	} {
		code, _, stderr := stagewise(append([]string{"search", "-c", "good.yaml"}, strings.Fields(c.args)...)...)
		if code != exitWrong || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d: %s\nexpected %s", c.args, code, stderr, c.want)
		}
	}
}

// A search may try class weights, and rank runs by a measure that the classes have. Each run has the weights of a run of its own.
func TestSearchOfClassWeights(t *testing.T) {
	inFolder(t, map[string]string{"rare.yaml": rareConfiguration})
	rareRows(t, "train.csv", 1, 2000)
	rareRows(t, "test.csv", 2, 200)
	for by, best := range map[string]string{"error": "none", "balanced_error": "balanced"} {
		code, stdout, stderr := stagewise("search", "-c", "rare.yaml", "--quiet", "--set", "examples.holdout=0.3", "--by", by, "--over",
			"examples.class_weight=[none, balanced, {rare: 2}]")
		if code != exitDone || !strings.Contains(stdout, "\nbest: --set examples.class_weight="+best+"\n") {
			t.Errorf("by %s: exit code %d: %s%s", by, code, stdout, stderr)
		}
		if by != "error" && !strings.Contains(stdout, "  holdout balanced error  holdout error  ") {
			t.Errorf("the table lacks the balanced error:\n%s", stdout)
		}
		for _, weight := range []string{"none", "balanced", "{rare: 2}"} {
			code, report, stderr := stagewise("train", "-c", "rare.yaml", "--quiet", "--report", "-", "--set", "examples.holdout=0.3", "--set",
				"examples.class_weight="+weight)
			var r schemas.Report
			if err := json.Unmarshal([]byte(report), &r); code != exitDone || err != nil || !strings.Contains(stdout, r.WeightsDigest.Short()) {
				t.Errorf("class_weight %s has other weights than in the search: %s%v", weight, stderr, err)
			}
		}
	}
	for by, want := range map[string]string{"f2": "expected error, loss, auc, average_precision, or balanced_error", "auc": "not have one label each"} {
		code, _, stderr := stagewise("search", "-c", "rare.yaml", "--set", "examples.holdout=0.3", "--set", "examples.labels=several", "--set",
			"stages=[{features: {kind: columns}}]", "--by", by, "--over", "seed=[1, 2]")
		if code == exitDone || !strings.Contains(stderr, want) {
			t.Errorf("by %s: exit code %d: %s", by, code, stderr)
		}
	}
}
