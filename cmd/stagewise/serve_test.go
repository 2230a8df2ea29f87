package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// serving runs serve until the test ends, and returns the URL of the predictions.
func serving(t *testing.T, until string, args ...string) (url string) {
	t.Helper()
	return regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(servingWithLogs(t, until, args...))[1]
}

// servingWithLogs is serving, but returns what the server has logged so far.
func servingWithLogs(t *testing.T, until string, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	logs, listens, ended := watch(until), watch("url="), make(chan int, 1)
	args = append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)
	go func() { ended <- execute(ctx, args, io.Discard, io.MultiWriter(listens, logs)) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitDone {
			t.Errorf("serve ended with %d: %s", code, logs)
		}
	})
	for _, seen := range []chan struct{}{listens.seen, logs.seen} {
		select {
		case <-seen:
		case code := <-ended:
			ended <- code
			t.Fatalf("serve: %d: %s", code, logs)
		}
	}
	return listens.String()
}

// asked is the answer to rows of JSON.
func asked(t *testing.T, url, rows string) (version int, labels []string) {
	t.Helper()
	response := valueOf(http.Post(url, "application/json", strings.NewReader(rows)))(t)
	defer response.Body.Close()
	var answer struct {
		Version int
		Labels  []string
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", response.Status, err)
	}
	return answer.Version, answer.Labels
}

// serve answers by the newest version of a pipeline, by one that is chosen, or by a file, with the labels that predict has.
func TestServe(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2), "rows.csv": "0,0,0\n5,5,5\n"})
	for range 2 {
		typed(t, exitDone, "train", "-c", "good.yaml", "--quiet", "--model", "m")
	}
	predicted, _ := typed(t, exitDone, "predict", "--model", "m", "-i", "rows.csv")
	var want []string
	for _, line := range strings.Split(strings.TrimSpace(predicted), "\n")[1:] {
		label, _, _ := strings.Cut(line, ",")
		want = append(want, label)
	}
	for _, c := range []struct {
		until   string
		args    []string
		version int
	}{
		{"url=", []string{"--model", "m"}, 2},
		{"version=2", []string{"-c", "good.yaml"}, 2},
		{"version=1", []string{"-c", "good.yaml", "--version", "1"}, 1},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			version, labels := asked(t, serving(t, c.until, c.args...), `{"rows": [[0, 0, 0], [5, 5, 5]]}`)
			if version != c.version || strings.Join(labels, " ") != strings.Join(want, " ") {
				t.Errorf("version %d says %q, expected version %d and %q", version, labels, c.version, want)
			}
		})
	}
}

// An address for metrics answers Prometheus and probes without a token, and nothing else. The address for requests needs the token.
func TestServeMetricsAddress(t *testing.T) {
	token := strings.Repeat("t", 32)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2), "token": token})
	typed(t, exitDone, "train", "-c", "good.yaml", "--quiet", "--model", "m")
	logs := servingWithLogs(t, "url=", "-c", "good.yaml", "--model", "m", "--set", "metrics.listen=127.0.0.1:0", "--set", "serve.token_file=token")
	metrics := strings.TrimSuffix(regexp.MustCompile(`metrics=(\S+)`).FindStringSubmatch(logs)[1], "/metrics")
	requests := strings.TrimSuffix(regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(logs)[1], "/predict")
	for url, want := range map[string]int{metrics + "/metrics": 200, metrics + "/live": 200, metrics + "/ready": 200, metrics + "/predict": 404,
		metrics + "/model": 404, requests + "/metrics": 401, requests + "/live": 200} {
		response := valueOf(http.Get(url))(t)
		content, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != want {
			t.Errorf("%s: %s, expected %d: %v", url, response.Status, want, err)
		}
		if strings.HasSuffix(url, "/metrics") && want == 200 && !strings.Contains(string(content), "stagewise_serving_version_age_seconds{") {
			t.Errorf("%s: %s", url, content)
		}
	}
}
