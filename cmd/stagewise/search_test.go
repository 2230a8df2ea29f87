package main

import (
	"bytes"
	"context"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

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

// Ctrl-C ends a search between folds, and the next one begins with clean topics.
func TestInterruptedSearch(t *testing.T) {
	long(t)
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
