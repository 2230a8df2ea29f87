package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// watched is an output that tells when a text is in it.
type watched struct {
	lockedBuffer
	text string
	once sync.Once
	seen chan struct{}
}

func watch(text string) *watched { return &watched{text: text, seen: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.lockedBuffer.Write(p)
	if strings.Contains(w.lockedBuffer.String(), w.text) {
		w.once.Do(func() { close(w.seen) })
	}
	return n, err
}

// submitted submits a run on a broker of its own, on which nobody works.
func submitted(t *testing.T) (id, broker string, on []string) {
	t.Helper()
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	cluster := valueOf(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	broker = cluster.ListenAddrs()[0]
	on = []string{"-c", "good.yaml", "--set", "brokers=" + broker}
	stdout, _ := typed(t, exitDone, append([]string{"train", "--detach"}, on...)...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "run "), broker, on
}

// --attach says at once what the run waits for, and that nobody is there. When a worker is there, it says where.
func TestAttachTellsWhoWorks(t *testing.T) {
	id, broker, on := submitted(t)
	attach := func(until string) string {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		began, out, ended := time.Now(), watch(until), make(chan int, 1)
		go func() { ended <- execute(ctx, append([]string{"train", "--attach", id}, on...), io.Discard, out) }()
		<-out.seen
		if took := time.Since(began); took >= protocol.MinPatience {
			t.Errorf("it takes %v to say %q", took, until)
		}
		stop()
		<-ended
		return out.String()
	}
	text := attach("no solver")
	for _, want := range []string{", on other processes\n", "it waits for the survey\n",
		"no worker: start stagewise work -c FILE; no solver: start stagewise solve -c FILE\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: []string{broker}}))(t)
	defer log.Close()
	worker := log.Join("blobs.work", "blobs.examples")
	for len(worker.Owned()) == 0 {
		<-worker.Changed()
	}
	if text := attach("no solver"); !strings.Contains(text, "\n1 worker: 127.0.0.1; no solver: start stagewise solve -c FILE\n") {
		t.Errorf("got\n%s", text)
	}
}

// A worker that meets a run of another arithmetic is alive, and not ready: /ready, a metric and the logs say what it stands aside for.
func TestAnotherArithmeticIsNotReady(t *testing.T) {
	id, broker, on := submitted(t)
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: []string{broker}}))(t)
	defer log.Close()
	client := protocol.NewClient(log, "blobs", nil)
	ledger := valueOf(client.ReadLedger(t.Context()))(t)
	old := *ledger.Plan(id)
	old.Arithmetic.Numerics = "0"
	messages := valueOf(old.Messages())(t)
	messages = append(messages, (&schemas.End{Run: id, State: schemas.Cancelled}).Message()) // it would go first
	valueOf(client.Log.Append(t.Context(), client.Topics.Plans, 0, messages...))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	logs, ended := watch(`"msg":"stands aside"`), make(chan int, 1)
	args := append([]string{"work", "--log", "json", "--set", "metrics.listen=127.0.0.1:0"}, on...)
	go func() { ended <- execute(ctx, args, &bytes.Buffer{}, logs) }()
	<-logs.seen
	var address string
	for _, record := range logged(t, logs.String()) {
		if a, ok := record["metrics"].(string); ok {
			address = a
		}
		if record["msg"] == "stands aside" && (record["for"] != old.Run() || record["level"] != "WARN" ||
			!strings.Contains(record["because"].(string), "numerics 0")) {
			t.Errorf("%v", record)
		}
	}
	response := valueOf(http.Get(strings.TrimSuffix(address, "metrics") + "ready"))(t)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.HasPrefix(string(body), "standing aside for run "+
		old.Run()+": ") {
		t.Errorf("/ready: %d, %s, %v", response.StatusCode, body, err)
	}
	if !strings.Contains(metricsOf(t, logs.String()), `stagewise_standing_aside{pipeline="blobs"} 1`) {
		t.Error("no metric says that it stands aside")
	}
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("work ends with %d", code)
	}
}
