package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// A worker and a solver work on all submitted runs, whether or not a process follows them, and exit with 0 when stopped.
func TestServices(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	broker := startBroker(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	on := []string{"-c", "good.yaml", "--set", "brokers=" + broker.Addr()[0]}
	services := map[string]chan int{}
	logs := map[string]*lockedBuffer{}
	for _, role := range []string{protocol.RoleWork, protocol.RoleSolve} {
		ended, log := make(chan int, 1), &lockedBuffer{}
		services[role], logs[role] = ended, log
		args := append([]string{role, "--log", "json", "--set", "metrics.listen=127.0.0.1:0"}, on...)
		go func() { ended <- execute(ctx, args, &bytes.Buffer{}, log) }()
	}

	code, out, stderr := stagewise(append([]string{"train", "--detach"}, on...)...)
	if code != exitDone {
		t.Fatalf("train --detach: %d: %s", code, stderr)
	}
	// A shell that reads the standard output gets the id and nothing else.
	id := strings.TrimSuffix(out, "\n")
	if id == "" || strings.ContainsAny(id, " \n") || !strings.Contains(stderr, "train.csv: 300 train rows\n") {
		t.Fatalf("train --detach prints %q, and %q on standard error", out, stderr)
	}
	typed(t, exitDone, append([]string{"train", "--attach", id, "--report", "report.json", "--model", "blobs.model"},
		on...)...)
	report := func(file string) *schemas.Report {
		content := valueOf(os.ReadFile(file))(t)
		r := &schemas.Report{}
		noError(t, json.Unmarshal(content, r))
		return r
	}
	if r := report("report.json"); r.Run != id || r.Version != 1 || r.Rows != 300 {
		t.Errorf("%+v", r)
	}
	// With a report to write, one command submits the run and is waiting to end.
	typed(t, exitDone, append([]string{"train", "--detach", "--quiet", "--report", "second.json"}, on...)...)
	// A train without --detach starts a worker and a solver of its own, which share the work with the services.
	typed(t, exitDone, append([]string{"train", "--quiet", "--report", "third.json"}, on...)...)
	for i, file := range []string{"second.json", "third.json"} {
		if r := report(file); r.Version != i+2 || r.WeightsDigest != report("report.json").WeightsDigest {
			t.Errorf("%s: version %d, digest %s", file, r.Version, r.WeightsDigest)
		}
	}
	if code, _, stderr := stagewise(append([]string{"train", "--attach", "0123"}, on...)...); code != exitFailed ||
		!strings.Contains(stderr, "there is no run 0123") {
		t.Errorf("attach to no run: %d: %s", code, stderr)
	}

	// A role exports what it can have, about this pipeline.
	for role, has := range map[string]struct{ metrics, lacks []string }{
		protocol.RoleWork:  {[]string{"partitions", "lag_rows", `runs_total{pipeline="blobs",state="done"}`}, []string{"objective", "active"}},
		protocol.RoleSolve: {[]string{"objective", "active", "error_ratio", "rows_total"}, []string{"partitions"}},
	} {
		body := metricsOf(t, logs[role].String())
		for _, name := range has.metrics {
			if !strings.Contains(body, "\nstagewise_"+name) {
				t.Errorf("%s exports no %s", role, name)
			}
		}
		for _, name := range has.lacks {
			if strings.Contains(body, "stagewise_"+name) {
				t.Errorf("%s exports %s", role, name)
			}
		}
	}

	// A pipeline that does not exist is no reason to wait, as the brokers know other topics.
	for _, args := range []string{"weights list", "weights export -o model", "train --attach 0123"} {
		code, _, stderr := stagewise(append(append(strings.Fields(args), on...), "--set", "name=none")...)
		want := "read none.plans: unknown topic or partition; run stagewise train first, or check name and brokers\n"
		if code != exitFailed || !strings.HasSuffix(stderr, want) || strings.Contains(stderr, "waiting for") {
			t.Errorf("%s: exit code %d: %s", args, code, stderr)
		}
	}

	stop()
	for role, ended := range services {
		if code := <-ended; code != exitDone {
			t.Errorf("%s ends with %d: %s", role, code, logs[role])
		}
		for _, want := range []string{`"msg":"began"`, `"msg":"ended"`} {
			if !strings.Contains(logs[role].String(), want) {
				t.Errorf("%s logs no %s", role, want)
			}
		}
		for _, record := range logged(t, logs[role].String()) {
			if record["pipeline"] != "blobs" {
				t.Errorf("%s logs the pipeline %v", role, record["pipeline"])
			}
		}
	}
	typed(t, exitDone, append([]string{"score", "--until", "end"}, on...)...)
	for _, group := range []string{"blobs.work", "blobs.predictions"} { // by which autoscalers count
		if lag := lagOf(t, broker.Addr()[0], group, "blobs.examples", 4); lag != 0 {
			t.Errorf("%s: tools show a lag of %d messages, expected none: runs have learnt all, and all have predictions", group, lag)
		}
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
			if code != exitDone || strings.Contains(log.String(), `"msg":"serving"`) != serves {
				t.Errorf("%s with %s: exit code %d: %s", role, setting, code, log.String())
			}
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
	committed := valueOf(client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: all}}))(t)
	offsets := valueOf(client.ListOffsets(t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: ends}}))(t)
	end := map[int]int64{}
	for _, o := range offsets.Topics[topic] {
		end[o.Partition] = o.LastOffset
	}
	for _, c := range committed.Topics[topic] {
		lag += end[c.Partition] - max(c.CommittedOffset, 0)
	}
	return lag
}

// metricsOf returns the metrics of a service, given what it has logged.
func metricsOf(t *testing.T, log string) string {
	t.Helper()
	for _, record := range logged(t, log) {
		if address, ok := record["metrics"].(string); ok {
			response := valueOf(http.Get(address))(t)
			defer response.Body.Close()
			return string(valueOf(io.ReadAll(response.Body))(t))
		}
	}
	t.Fatalf("no address in %s", log)
	return ""
}

// lockedBuffer is a buffer that one goroutine writes while another reads.
type lockedBuffer struct {
	mutex   sync.Mutex
	content bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.content.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.content.String()
}
