package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// A worker and a solver work on all submitted runs, whether or not a process follows them, and exit with 0 when stopped.
func TestServices(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	broker := startBroker(t)
	on := []string{"-c", "good.yaml", "--set", "brokers=" + broker.Addr()[0]}
	services := map[string]*command{}
	for _, role := range []string{protocol.RoleWork, protocol.RoleSolve} {
		services[role] = startCommand(t, append([]string{role, "--log", "json", "--set", "metrics.listen=127.0.0.1:0"}, on...)...)
	}

	out, stderr := typed(t, exitDone, append([]string{"train", "--detach"}, on...)...)
	// A shell that reads the standard output gets the id and nothing else.
	id := strings.TrimSuffix(out, "\n")
	assert.Need(t, id != "" && !strings.ContainsAny(id, " \n") && strings.Contains(stderr, "train.csv: 300 train rows\n"),
		"train --detach prints %q, and %q on standard error", out, stderr)
	typed(t, exitDone, append([]string{"train", "--attach", id, "--report", "report.json", "--model", "blobs.model"}, on...)...)
	report := func(file string) *schemas.Report {
		content := assert.Must(os.ReadFile(file))(t)
		r := &schemas.Report{}
		assert.NoError(t, json.Unmarshal(content, r))
		return r
	}
	r := report("report.json")
	assert.True(t, r.Run == id && r.Version == 1 && r.Rows == 300, "%+v", r)
	// With a report to write, one command submits the run and is waiting to end.
	typed(t, exitDone, append([]string{"train", "--detach", "--quiet", "--report", "second.json"}, on...)...)
	// A train without --detach starts a worker and a solver of its own, which share the work with the services.
	typed(t, exitDone, append([]string{"train", "--quiet", "--report", "third.json"}, on...)...)
	for i, file := range []string{"second.json", "third.json"} {
		r := report(file)
		assert.True(t, r.Version == i+2 && r.WeightsDigest == report("report.json").WeightsDigest,
			"%s: version %d, digest %s", file, r.Version, r.WeightsDigest)
	}
	refuses(t, exitFailed, "there is no run 0123", append([]string{"train", "--attach", "0123"}, on...)...)

	// A role exports what it can have, about this pipeline.
	for role, has := range map[string]struct{ metrics, lacks []string }{
		protocol.RoleWork:  {[]string{"partitions", "lag_rows", `runs_total{pipeline="blobs",state="done"}`}, []string{"objective", "active"}},
		protocol.RoleSolve: {[]string{"objective", "active", "error_ratio", "rows_total"}, []string{"partitions"}},
	} {
		body := services[role].metrics()
		for _, name := range has.metrics {
			assert.True(t, strings.Contains(body, "\nstagewise_"+name), "%s exports no %s", role, name)
		}
		for _, name := range has.lacks {
			assert.True(t, !strings.Contains(body, "stagewise_"+name), "%s exports %s", role, name)
		}
	}

	// A pipeline that does not exist is no reason to wait, as the brokers know other topics.
	for _, args := range []string{"weights list", "weights export -o model", "train --attach 0123"} {
		code, _, stderr := stagewise(append(append(strings.Fields(args), on...), "--set", "name=none")...)
		want := "read none.plans: unknown topic or partition; run stagewise train first, or check name and brokers\n"
		assert.True(t, code == exitFailed && strings.HasSuffix(stderr, want) && !strings.Contains(stderr, "waiting for"),
			"%s: exit code %d: %s", args, code, stderr)
	}

	for role, service := range services {
		code := service.stop()
		assert.True(t, code == exitDone, "%s ends with %d: %s", role, code, service.log)
		for _, want := range []string{`"msg":"began"`, `"msg":"ended"`} {
			assert.True(t, strings.Contains(service.log.String(), want), "%s logs no %s", role, want)
		}
		for _, record := range logged(t, service.log.String()) {
			assert.True(t, record["pipeline"] == "blobs", "%s logs the pipeline %v", role, record["pipeline"])
		}
	}
	typed(t, exitDone, append([]string{"score", "--until", "end"}, on...)...)
	for _, group := range []string{"blobs.work", "blobs.predictions"} { // by which autoscalers count
		assert.Equal(t, lagOf(t, broker.Addr()[0], group, "blobs.examples", 4), 0,
			"%s: the lag that tools show: runs have learnt all, and all have predictions", group)
	}
}

// A service that is told to listen nowhere serves no metrics.
func TestServiceWithoutMetrics(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good + "brokers: [127.0.0.1:1]\nmetrics: {listen: null}\n"})
	stopped, stop := context.WithCancel(t.Context())
	stop() // it listens before it looks for brokers, and does nothing more
	for _, role := range []string{protocol.RoleWork, protocol.RoleSolve} {
		for setting, serves := range map[string]bool{"seed=1": false, "metrics.listen=127.0.0.1:0": true} {
			var log bytes.Buffer
			code := execute(stopped, []string{role, "-c", "good.yaml", "--set", setting, "--log", "json"}, &bytes.Buffer{}, &log)
			assert.True(t, code == exitDone && strings.Contains(log.String(), `"msg":"serving"`) == serves,
				"%s with %s: exit code %d: %s", role, setting, code, log.String())
		}
	}
}

// lagOf returns what tools show as the lag of a group: how many messages of a topic come after the offsets that it has committed.
func lagOf(t *testing.T, broker, group, topic string, partitions int) (lag int64) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(broker)}
	all, ends := make([]int, partitions), make([]kafka.OffsetRequest, partitions)
	for p := range all {
		all[p], ends[p] = p, kafka.LastOffsetOf(p)
	}
	committed := assert.Must(client.OffsetFetch(t.Context(),
		&kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: all}}))(t)
	offsets := assert.Must(client.ListOffsets(t.Context(),
		&kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: ends}}))(t)
	end := map[int]int64{}
	for _, o := range offsets.Topics[topic] {
		end[o.Partition] = o.LastOffset
	}
	for _, c := range committed.Topics[topic] {
		lag += end[c.Partition] - max(c.CommittedOffset, 0)
	}
	return lag
}

// submitted submits a run on a broker of its own, on which nobody works.
func submitted(t *testing.T) (id string, on []string, log *kafkalog.Log) {
	t.Helper()
	on, log = onBrokers(t)
	stdout, _ := typed(t, exitDone, append([]string{"train", "--detach"}, on...)...)
	return strings.TrimSpace(stdout), on, log
}

// --attach says at once what the run waits for, and that nobody is there. When a worker is there, it says where.
func TestAttachTellsWhoWorks(t *testing.T) {
	id, on, log := submitted(t)
	attach := func(until string) string {
		t.Helper()
		began, attached := time.Now(), startCommand(t, append([]string{"train", "--attach", id}, on...)...)
		attached.says(until)
		took := time.Since(began)
		assert.True(t, took < protocol.MinPatience, "it takes %v to say %q", took, until)
		attached.stop()
		return attached.log.String()
	}
	text := attach("no solver")
	for _, want := range []string{", on other processes\n", "it waits for the survey\n",
		"no worker: start stagewise work -c FILE; no solver: start stagewise solve -c FILE\n"} {
		assert.True(t, strings.Contains(text, want), "no %q in\n%s", want, text)
	}
	joined(log, "blobs.work", "blobs.examples")
	text = attach("no solver")
	assert.True(t, strings.Contains(text, "\n1 worker: 127.0.0.1; no solver: start stagewise solve -c FILE\n"), "got\n%s", text)
}

// A worker that meets a run of another arithmetic is alive, and not ready: /ready, a metric and the logs say what it stands aside for.
func TestAnotherArithmeticIsNotReady(t *testing.T) {
	id, on, log := submitted(t)
	client := protocol.NewClient(log, "blobs", nil)
	old := *assert.Must(client.ReadLedger(t.Context()))(t).Plan(id)
	old.Arithmetic.Numerics = "0"
	messages := assert.Must(old.Messages())(t)
	messages = append(messages, (&schemas.End{Run: id, State: schemas.Cancelled}).Message()) // it would go first
	assert.Must(client.Log.Append(t.Context(), client.Topics.Plans, 0, messages...))(t)
	works := startCommand(t, append([]string{"work", "--log", "json", "--set", "metrics.listen=127.0.0.1:0"}, on...)...)
	works.says(`"msg":"stands aside"`)
	for _, record := range logged(t, works.log.String()) {
		assert.True(t, record["msg"] != "stands aside" || record["for"] == old.Run() && record["level"] == "WARN" &&
			strings.Contains(record["because"].(string), "numerics 0"), "%v", record)
	}
	why := answered(t, "GET", strings.TrimSuffix(works.says(metricsAt), "metrics")+"ready", "", http.StatusServiceUnavailable)
	assert.True(t, strings.HasPrefix(why, "standing aside for run "+old.Run()+": "), "/ready: %s", why)
	works.measures("standing_aside{pipeline=\"blobs\"} 1")
	assert.Equal(t, works.stop(), exitDone, "work ends with")
}

// A command beside a process that has the embedded broker says what to type, and that works.
func TestCommandsBesideTheEmbeddedBroker(t *testing.T) {
	long(t)
	address := free(t)
	inFolder(t, map[string]string{"good.yaml": good + "listen: " + address + "\n", "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	report := trained(t)
	list := []string{"weights", "list", "-c", "good.yaml"}
	for listen, want := range map[string]string{
		"":      `: the embedded broker serves a single process. Restart that process with --set listen=127.0.0.1:9092, and connect this one`,
		address: `: its broker listens; connect to it with (--set) (brokers=` + address + `)\n`,
	} {
		log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise", Listen: listen}))(t)
		var all sync.WaitGroup
		for _, args := range [][]string{list, {"page", "-c", "good.yaml"}, {"serve", "-c", "good.yaml"}, {"runs", "list", "-c", "good.yaml"}} {
			all.Go(func() {
				code, _, stderr := stagewise(args...)
				typed := regexp.MustCompile(want).FindStringSubmatch(stderr)
				assert.True(t, code == exitFailed && strings.Contains(stderr, "data directory .stagewise is in use by process") && typed != nil,
					"%q beside a process that listens on %q: exit code %d: %s", args, listen, code, stderr)
				if len(typed) > 1 && args[0] == list[0] {
					code, stdout, stderr := stagewise(append(list, typed[1:]...)...)
					assert.True(t, code == exitDone && strings.Contains(stdout, report.Run), "exit code %d: %s%s", code, stdout, stderr)
				}
			})
		}
		all.Wait()
		refuses(t, exitFailed, "stop that process first", "repair", "-c", "good.yaml")
		assert.NoError(t, log.Close())
	}
}

// health says with its exit code what a process answers.
func TestHealth(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" {
			http.Error(w, "brokers fail", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	code, stdout, stderr := stagewise("health", server.URL+"/live")
	assert.True(t, code == 0 && stdout+stderr == "", "/live: exit code %d: %s%s", code, stdout, stderr)
	refuses(t, exitFailed, "503 Service Unavailable: brokers fail", "health", server.URL+"/ready")
	refuses(t, exitWrong, "expected a URL", "health", "localhost:9464")
	server.Close()
	refuses(t, exitFailed, "stagewise: ", "health", server.URL+"/live")
}

// transcript is an output that one goroutine writes while another reads, and that tells when more is in it.
type transcript struct {
	mutex   sync.Mutex
	content bytes.Buffer
	more    chan struct{} // has room for one value
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.content.Write(p)
}

func (l *transcript) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.content.String()
}

// command is a command line that runs until the test ends.
type command struct {
	t     *testing.T
	name  string
	log   *transcript
	ended chan int
	stop  func() (code int) // and waits until it has ended
}

// startCommand runs a command until the test ends, which fails if the command ends before.
func startCommand(t *testing.T, args ...string) *command {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // which ends before the clean-up
	s := &command{t: t, name: args[0], log: &transcript{more: make(chan struct{}, 1)}, ended: make(chan int, 1)}
	go func() { s.ended <- execute(ctx, args, io.Discard, s.log) }()
	s.stop = sync.OnceValue(func() int {
		select {
		case code := <-s.ended:
			t.Errorf("%s has ended with %d before it was told to: %s", s.name, code, s.log)
			return code
		default:
			stop()
			return <-s.ended
		}
	})
	t.Cleanup(func() { s.stop() })
	return s
}

// await waits until the command says more.
func (s *command) await(expected string) {
	s.t.Helper()
	select {
	case code := <-s.ended:
		s.ended <- code
		s.t.Fatalf("%s: %d: %s, expected %s", s.name, code, s.log, expected)
	case <-s.log.more:
	}
}

// says waits until the command has said what a pattern matches, and returns what its group is.
func (s *command) says(pattern string) string {
	s.t.Helper()
	for wanted := regexp.MustCompile(pattern); ; s.await(pattern) {
		if found := wanted.FindStringSubmatch(s.log.String()); found != nil {
			return found[len(found)-1]
		}
	}
}

// metricsAt matches the address of metrics in a log.
const metricsAt = `metrics"?[=:]"?(http[^"\s]+)`

// metrics returns the metrics of the command.
func (s *command) metrics() string {
	s.t.Helper()
	return answered(s.t, "GET", s.says(metricsAt), "", http.StatusOK)
}

// measures waits until the metrics of the command have lines. It logs at the level debug, and what it counts before it logs.
func (s *command) measures(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		for !strings.Contains(s.metrics(), "\nstagewise_"+line+"\n") {
			s.await(line)
		}
	}
}

// answered waits until a URL answers with a status, and returns the answer.
func answered(t *testing.T, method, url, body string, status int) string {
	t.Helper()
	for {
		request := assert.Must(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
		request.Header.Set("Content-Type", "application/json")
		response := assert.Must(http.DefaultClient.Do(request))(t)
		content, err := io.ReadAll(response.Body)
		response.Body.Close()
		assert.NoError(t, err)
		if response.StatusCode == status {
			return string(content)
		}
	}
}

// Nothing dies when the last version is removed: who predicts waits for another, says so, and is not ready.
func TestLastVersionRemoved(t *testing.T) {
	long(t)
	flags, _ := onBrokers(t)
	on := func(args ...string) []string { return append(args, flags...) }
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
	why := answered(t, "GET", ready, "", http.StatusServiceUnavailable)
	assert.True(t, strings.Contains(why, "messages wait for a version"), "score is not ready: %s", why)
	why = answered(t, "POST", predict, `{"rows": [[0, 0, 0]]}`, http.StatusServiceUnavailable)
	assert.True(t, strings.Contains(why, "there is no version"), "serve refuses: %s", why)
	assert.NoError(t, os.WriteFile("more.csv", []byte(blobs(40, 3)), 0o644))
	typed(t, exitDone, on("ingest", "--set", "examples.train=[train.csv, more.csv]")...) // messages that wait

	typed(t, exitDone, on("train", "--quiet", "--set", "examples.train=[train.csv, more.csv]")...)
	scores.says("scored pipeline=blobs .*version=2")
	answered(t, "GET", ready, "", http.StatusOK)
	answer := answered(t, "POST", predict, `{"rows": [[0, 0, 0]]}`, http.StatusOK)
	assert.True(t, strings.Contains(answer, `"version":2`), "serve answers %s", answer)
	for !strings.Contains(answered(t, "GET", state, "", http.StatusOK), `"version":2`) {
	}
}
