package main

import (
	"net/http"
	"regexp"
	"testing"
)

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
