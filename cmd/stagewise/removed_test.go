package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// transcript is an output that tells when more is in it.
type transcript struct {
	lockedBuffer
	more chan struct{} // has room for one value
}

func (l *transcript) Write(p []byte) (int, error) {
	n, err := l.lockedBuffer.Write(p)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return n, err
}

// command is a command line that runs until the test ends.
type command struct {
	t     *testing.T
	name  string
	log   *transcript
	ended chan int
	stop  func() // and waits until it has ended
}

// startCommand runs a command until the test ends, which fails if the command ends before.
func startCommand(t *testing.T, args ...string) *command {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // which ends before the clean-up
	s := &command{t: t, name: args[0], log: &transcript{more: make(chan struct{}, 1)}, ended: make(chan int, 1)}
	go func() { s.ended <- execute(ctx, args, io.Discard, s.log) }()
	s.stop = sync.OnceFunc(func() {
		select {
		case code := <-s.ended:
			t.Errorf("%s has ended with %d before it was told to: %s", s.name, code, s.log)
		default:
			stop()
			<-s.ended
		}
	})
	t.Cleanup(s.stop)
	return s
}

// says waits until the command has said what a pattern matches, and returns what its group is.
func (s *command) says(pattern string) string {
	s.t.Helper()
	wanted := regexp.MustCompile(pattern)
	for {
		if found := wanted.FindStringSubmatch(s.log.String()); found != nil {
			return found[len(found)-1]
		}
		select {
		case code := <-s.ended:
			s.ended <- code
			s.t.Fatalf("%s: %d: %s, expected %s", s.name, code, s.log, pattern)
		case <-s.log.more:
		}
	}
}

// answered waits until a URL answers with a status, and returns the answer.
func answered(t *testing.T, method, url, body string, status int) string {
	t.Helper()
	for {
		request := valueOf(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
		request.Header.Set("Content-Type", "application/json")
		response := valueOf(http.DefaultClient.Do(request))(t)
		content, err := io.ReadAll(response.Body)
		response.Body.Close()
		noError(t, err)
		if response.StatusCode == status {
			return string(content)
		}
	}
}

// Nothing dies when the last version is removed: who predicts waits for another, says so, and is not ready.
func TestLastVersionRemoved(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	cluster := valueOf(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	on := func(args ...string) []string {
		return append(args, "-c", "good.yaml", "--set", "brokers="+cluster.ListenAddrs()[0])
	}
	typed(t, exitDone, on("train", "--quiet")...)
	scores := startCommand(t, on("score", "--log", "text", "--set", "metrics.listen=127.0.0.1:0")...)
	serves := startCommand(t, on("serve", "--listen", "127.0.0.1:0")...)
	shows := startCommand(t, on("page")...)
	ready := strings.TrimSuffix(scores.says(`metrics=(\S+)`), "/metrics") + "/ready"
	predict := serves.says(`url=(\S+)`)
	state := shows.says(`page: (\S+)`) + "state.json"
	scores.says("answers pipeline=blobs version=1")
	scores.says("scored pipeline=blobs .*version=1")
	serves.says("answers pipeline=blobs version=1")
	answered(t, "GET", ready, "", http.StatusOK)

	typed(t, exitDone, on("weights", "remove", "--even-latest", "1")...)
	scores.says(`no version".*because=.*the pipeline has no finished version`)
	serves.says(`no version".*because=.*the pipeline has no finished version`)
	if why := answered(t, "GET", ready, "", http.StatusServiceUnavailable); !strings.Contains(why, "messages wait for a version") {
		t.Errorf("score is not ready: %s", why)
	}
	if why := answered(t, "POST", predict, `{"rows": [[0, 0, 0]]}`, http.StatusServiceUnavailable); !strings.Contains(why,
		"there is no version") {
		t.Errorf("serve refuses: %s", why)
	}
	noError(t, os.WriteFile("more.csv", []byte(blobs(40, 3)), 0o644))
	typed(t, exitDone, on("ingest", "--set", "examples.train=[train.csv, more.csv]")...) // messages that wait

	typed(t, exitDone, on("train", "--quiet", "--set", "examples.train=[train.csv, more.csv]")...)
	scores.says("scored pipeline=blobs .*version=2")
	answered(t, "GET", ready, "", http.StatusOK)
	if answer := answered(t, "POST", predict, `{"rows": [[0, 0, 0]]}`, http.StatusOK); !strings.Contains(answer, `"version":2`) {
		t.Errorf("serve answers %s", answer)
	}
	for !strings.Contains(answered(t, "GET", state, "", http.StatusOK), `"version":2`) {
	}
}
