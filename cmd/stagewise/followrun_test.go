package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/serve"
)

// eventsOnTopic writes JSON values to the topic events of a broker: as many that can't be read as rows.
func eventsOnTopic(t *testing.T, broker *kafkalog.Log, rows int) {
	t.Helper()
	assert.NoError(t, broker.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 2}))
	var messages []kafkalog.Message
	for i := range rows {
		kind, length := "tall", 5+i%3
		if i%2 == 0 {
			kind, length = "wide", 1+i%3
		}
		messages = append(messages, kafkalog.Message{Value: fmt.Appendf(nil, `{"kind":%q,"length":%d,"width":1}`, kind, length)},
			kafkalog.Message{Value: fmt.Appendf(nil, `{"kind":%q,"length":"n/a","width":1}`, kind)})
	}
	for partition, half := range [][]kafkalog.Message{messages[:rows], messages[rows:]} {
		assert.Must(broker.Append(t.Context(), "events", partition, half...))(t)
	}
}

// One process of run is enough for a topic whose messages become examples. What can't be read is in its metrics.
func TestRunAloneLearnsATopic(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	broker := startBroker(t)
	eventsOnTopic(t, broker, 200)
	run := startCommand(t, "run", "-c", "clicks.yaml", "--set", "brokers="+broker.Addr()[0], "--set", "retrain.rows=100", "--set",
		"metrics.listen=127.0.0.1:0", "--log", "text", "--log-level", "debug", "--report", "run.json")
	run.measures(`learnt_rows_total{pipeline="clicks"} 200`, `ingested_rows_total{pipeline="clicks"} 200`,
		`quarantined_total{pipeline="clicks"} 200`, `source_lag_messages{pipeline="clicks"} 0`)
	stdout, _ := typed(t, exitDone, "check", "-c", "clicks.yaml", "--set", "brokers="+broker.Addr()[0], "--set", "seed=2")
	assert.True(t, strings.Contains(stdout, ": retrain.rows, seed\n"), "check does not say what differs: %s", stdout)
	run.stop()
	assert.True(t, strings.Contains(string(assert.Must(os.ReadFile("run.json"))(t)), `"rows": 200`), "run.json is not the report of a run that is stopped")
}

// A process that only ingests says what it can't read, and what waits. It finds a port of its own beside others.
func TestIngestServesMetrics(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	broker := startBroker(t)
	eventsOnTopic(t, broker, 60)
	on := []string{"ingest", "-c", "clicks.yaml", "--log", "text", "--log-level", "debug", "--set", "brokers=" + broker.Addr()[0]}
	first := startCommand(t, on...)
	first.measures(`ingested_rows_total{pipeline="clicks"} 60`, `quarantined_total{pipeline="clicks"} 60`,
		`source_lag_messages{pipeline="clicks"} 0`)
	at := first.says(metricsAt)
	configured := strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/metrics")
	second := startCommand(t, append(on, "--set", "metrics.listen="+configured)...)
	assert.True(t, second.says(metricsAt) != at, "two processes serve metrics at %s", at)
}

// Predictions for a topic whose messages become examples need no other process either: for what the topic has, and for what comes.
func TestScoreAlonePredictsForATopic(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	broker := startBroker(t)
	eventsOnTopic(t, broker, 60)
	on := []string{"-c", "clicks.yaml", "--set", "brokers=" + broker.Addr()[0], "--set", "metrics.listen=127.0.0.1:0"}
	more := func() {
		t.Helper()
		message := kafkalog.Message{Value: []byte(`{"kind":"tall","length":5,"width":1}`)}
		assert.Must(broker.Append(t.Context(), "events", 0, slices.Repeat([]kafkalog.Message{message}, 10)...))(t)
	}
	typed(t, exitDone, append([]string{"train"}, on...)...)
	more()
	_, stderr := typed(t, exitDone, append([]string{"score", "--until", "end"}, on...)...)
	assert.True(t, strings.Contains(stderr, "predictions for 70 rows"), "%s, expected predictions for 70 rows", stderr)
	score := startCommand(t, append([]string{"score", "--log", "text"}, on...)...)
	more()
	score.says(`scored pipeline=clicks .*rows=[1-9]`)
}

// A process on the other end of a pipe has the responses in the order of its requests, also of those that are refused, and the
// server ends with the input. Cut off at any byte, the input is an error or an end.
func TestPipe(t *testing.T) {
	m := assert.Must(readModel("../../model/testdata/example.arrow"))(t)
	handler := assert.Must(pipeHandler(serve.Fixed(m), func(versions serve.Versions) (*serve.Server, error) {
		return serve.New(serve.Defaults(), versions, prometheus.NewRegistry(), "p", func(string) {})
	}))(t)
	var requests strings.Builder
	rows := `{"rows": [[3, 1]]}`
	cases := []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/status", "", http.StatusOK, `"version":1`},
		{"GET", "/version", "", http.StatusOK, `"width":2`},
		{"POST", "/predict", rows, http.StatusOK, `"labels":["yes"]`},
		{"POST", "/predict", `{"rows": [[3]]}`, http.StatusBadRequest, `{"error":`},
		{"POST", "/stages/1/predict", rows, http.StatusOK, `"labels":["yes"]`},
		{"POST", "/stages/2/predict", rows, http.StatusOK, `"labels":["yes"]`},
		{"POST", "/stages/3/predict", rows, http.StatusNotFound, ""},
		{"GET", "/nothing", "", http.StatusNotFound, `{"error":`},
		{"GET", "/file", "", http.StatusOK, "stagewise.manifest"},
	}
	for _, c := range cases {
		fmt.Fprintf(&requests, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path,
			len(c.body), c.body)
	}
	var responses bytes.Buffer
	assert.NoError(t, answerAll(t.Context(), handler, bufio.NewReader(strings.NewReader(requests.String())), &responses))
	for _, c := range cases {
		var status, length int
		assert.Must(fmt.Fscanf(&responses, "%d %d\n", &status, &length))(t)
		content := string(responses.Next(length))
		assert.True(t, status == c.status && len(content) == length && strings.Contains(content, c.want),
			"%s %s %s: %d: %.200s; expected %d: %s", c.method, c.path, c.body, status, content, c.status, c.want)
	}
	for end := range requests.Len() {
		_ = answerAll(t.Context(), handler, bufio.NewReader(strings.NewReader(requests.String()[:end])), io.Discard)
	}
}

// train and run show what they do while it goes on, and no longer.
func TestPageOfTrainAndRun(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	for _, args := range [][]string{{"train"}, {"run", "--until", "end"}} {
		code, _, stderr := stagewise(append(args, "-c", "good.yaml", "--page", "127.0.0.1:0")...)
		found := regexp.MustCompile(`page: (http://127\.0\.0\.1:\d+/)`).FindStringSubmatch(stderr)
		assert.Need(t, code == exitDone && found != nil, "%v: %d: %s", args, code, stderr)
		if response, err := http.Get(found[1]); err == nil {
			_ = response.Body.Close()
			t.Errorf("%v has ended, and still shows its page", args)
		}
	}
}

// searchTopics are the folders of partitions of topics of a search.
const searchTopics = ".stagewise/log/partitions/*.search-*"

// leavesNothing checks that a search has deleted its topics, and no others.
func leavesNothing(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(searchTopics)
	assert.True(t, err == nil && len(left) == 0, "%v are still there, %v", left, err)
	others, err := filepath.Glob(".stagewise/log/partitions/blobs.examples-*")
	assert.True(t, err == nil && len(others) != 0, "%v: there are no examples", err)
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
	code := execute(ctx, append(search, "--quiet"), &stdout, &stderr)
	assert.True(t, code == exitInterrupted && stdout.Len() <= 0, "exit code %d: %s%s", code, stdout.String(), stderr.String())
	search[4] = "2"
	typed(t, exitDone, append(search, "--quiet")...)
	leavesNothing(t)
}

// A command that a signal has interrupted ends with 128 and the number of the signal, and says that it goes on when it is run again. A
// service ends with 0 after SIGTERM, by which services are ended, whatever it is doing.
func TestSignals(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(30, 2), "clicks.yaml": clicked})
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	assert.NoError(t, errors.Join(log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 1}), log.Close()))
	trained(t)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // else programs inherit that it is ignored, if nohup runs the tests
	for _, test := range []struct {
		command, begun string // what a line has once it is under way
		service        bool
	}{
		{"train -c good.yaml --set stages.0.repeat=5000", "run ", false}, // whose first stages have begun
		{"run -c good.yaml --set metrics.listen= --set data_dir=run", "blobs on", true},
		{"ingest -c clicks.yaml --set metrics.listen=", "following topic events until interrupted", true},
		{"ingest -c clicks.yaml --set metrics.listen= --log text", "msg=follows pipeline=clicks topic=events", true},
		{"score -c good.yaml --log text", "msg=answers pipeline=blobs", true},
	} {
		for sent, want := range map[os.Signal]int{syscall.SIGHUP: 129, syscall.SIGINT: exitInterrupted, syscall.SIGTERM: 143} {
			if test.service && sent == syscall.SIGTERM {
				want = exitDone
			}
			cmd, _, _ := program(t, strings.Fields(test.command)...)
			lines, wait := started(t, cmd)
			last, begun := "", false
			for lines.Scan() {
				if last = lines.Text(); strings.Contains(last, test.begun) && !begun {
					begun = true
					assert.NoError(t, cmd.Process.Signal(sent))
				}
			}
			wait()
			resumes := strings.HasSuffix(last, "; to resume, run the same command again") // with run, the service does that
			code := cmd.ProcessState.ExitCode()
			assert.True(t, code == want && resumes == (want != exitDone && !strings.HasPrefix(test.command, "run ")),
				"%s, %v: exit code %d, expected %d: %s", test.command, sent, code, want, last)
		}
	}
	// Whoever waits for the standard input can be interrupted too.
	cmd, stdout, stderr := program(t, "train", "-c", "good.yaml", "--set", "examples.train=-", "--set", "examples.format=csv")
	input := assert.Must(cmd.StdinPipe())(t)
	assert.NoError(t, cmd.Start())
	assert.Must(io.WriteString(input, strings.Repeat("red,1,2,3\n", 20_000)))(t) // more than a pipe holds: it is being read
	assert.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // its state is checked below
	assert.True(t, cmd.ProcessState.ExitCode() == exitInterrupted && stdout.Len() == 0, "%v: %s%s", cmd.ProcessState, stdout, stderr)
}

// program returns a command line that runs as a process of its own, and what it will have written.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), "stagewise", args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// started starts a program, and returns the lines that it writes to its standard error. wait waits until it has ended,
// and all of them are read.
func started(t *testing.T, cmd *exec.Cmd) (lines *bufio.Scanner, wait func()) {
	t.Helper()
	read, write := io.Pipe()
	cmd.Stderr = write
	assert.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // who has started it looks at how it ended
		write.Close()
	}()
	return bufio.NewScanner(read), func() { <-ended }
}

// startBroker starts an embedded broker in the folder broker, which other processes reach.
func startBroker(t *testing.T) *kafkalog.Log {
	t.Helper()
	broker := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: "broker", Listen: "127.0.0.1:0"}))(t)
	t.Cleanup(func() { broker.Close() })
	return broker
}
