package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"
)

// shown runs page until the test ends, and returns the URL that it says.
func shown(t *testing.T, args ...string) (url string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	logs, ended := watch("page: "), make(chan int, 1)
	go func() { ended <- execute(ctx, append([]string{"page"}, args...), io.Discard, logs) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitDone {
			t.Errorf("page ended with %d: %s", code, logs)
		}
	})
	select {
	case <-logs.seen:
	case code := <-ended:
		ended <- code
		t.Fatalf("page: %d: %s", code, logs)
	}
	return regexp.MustCompile(`page: (\S+)`).FindStringSubmatch(logs.String())[1]
}

// page shows the versions that train has made, on a port of its own.
func TestPage(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	report := trained(t)
	url := shown(t, "-c", "good.yaml")
	for deadline := time.Now().Add(time.Minute); ; {
		response, err := http.Get(url + "state.json")
		noError(t, err)
		var state struct {
			Summary  struct{ Pipeline, Brokers, Verdict string }
			Versions []struct {
				Run    string
				Latest bool
			}
		}
		err = json.NewDecoder(response.Body).Decode(&state)
		_ = response.Body.Close()
		noError(t, err)
		if len(state.Versions) == 1 && state.Versions[0].Run == report.Run && state.Versions[0].Latest &&
			state.Summary.Pipeline == "blobs" && state.Summary.Brokers == "the embedded broker in .stagewise" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the page shows %+v, expected run %s", state, report.Run)
		}
	}
}

// train and run show what they do while it goes on, and no longer.
func TestPageOfTrainAndRun(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	for _, args := range [][]string{{"train"}, {"run", "--until", "end"}} {
		code, _, stderr := stagewise(append(args, "-c", "good.yaml", "--page", "127.0.0.1:0")...)
		found := regexp.MustCompile(`page: (http://127\.0\.0\.1:\d+/)`).FindStringSubmatch(stderr)
		if code != exitDone || found == nil {
			t.Fatalf("%v: %d: %s", args, code, stderr)
		}
		if response, err := http.Get(found[1]); err == nil {
			_ = response.Body.Close()
			t.Errorf("%v has ended, and still shows its page", args)
		}
	}
}
