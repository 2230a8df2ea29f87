package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// Prometheus reads the recorded events, and a service that waits for brokers is alive but not ready.
func TestMetrics(t *testing.T) {
	listener, err := listenOn("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := newMetrics()
	ctx, cancel := context.WithCancel(t.Context())
	defer serveMetrics(ctx, listener, m)()
	get := func(path string) (int, string) {
		t.Helper()
		response, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	for _, e := range []event.Event{
		event.Owned{Partitions: []int{1, 3}},
		event.Quarantined{}, event.Quarantined{},
		event.Progressed{Stage: 2, Visit: 1, Rows: 40, Of: 100}, event.Progressed{Stage: 2, Visit: 1, Rows: 70, Of: 100},
	} {
		m.Record(e)
	}
	expect := func(lines ...string) {
		t.Helper()
		_, body := get("/metrics")
		for _, line := range lines {
			if !strings.Contains(body, "\n"+line+"\n") {
				t.Errorf("no line %q", line)
			}
		}
	}
	expect("stagewise_partitions 2", "stagewise_quarantined_total 2", "stagewise_rows_total 70", "stagewise_lag_rows 30", "stagewise_stage 2", "stagewise_visit 1")
	for _, e := range []event.Event{
		event.Visited{Stage: schemas.Survey, Partitions: []int{1, 3}, Elapsed: time.Second},
		event.Visited{Stage: 2, Visit: 1, Partitions: []int{1, 3}, Elapsed: 2 * time.Second},
		event.Progressed{Stage: 2, Visit: 2, Rows: 5, Of: 100},
		event.Sealed{Stage: 2, Rows: 100, Elapsed: 3 * time.Second},
		event.Solved{Stage: 2, Visit: 3, Waited: 4 * time.Second, Elapsed: 5 * time.Second},
		event.Passed{Stage: 2, Visit: 2, Pass: 3, Objective: 0.25, Metrics: map[schemas.Split]event.Metrics{schemas.Test: {Error: 1.5, Loss: 0.125}}},
		event.Ended{State: schemas.Done},
	} {
		m.Record(e)
	}
	expect("stagewise_visits_total 4", "stagewise_rows_total 175", "stagewise_pass 3", "stagewise_objective 0.25", "stagewise_partitions 0",
		`stagewise_seconds_total{phase="survey"} 1`, `stagewise_seconds_total{phase="visit"} 2`, `stagewise_seconds_total{phase="residuals"} 3`,
		`stagewise_seconds_total{phase="gather"} 4`, `stagewise_seconds_total{phase="solve"} 5`,
		`stagewise_error_percent{split="test"} 1.5`, `stagewise_loss{split="test"} 0.125`, `stagewise_runs_total{state="done"} 1`)

	if code, _ := get("/ready"); code != http.StatusOK {
		t.Errorf("ready: %d", code)
	}
	m.Record(event.Waiting{What: "append to x[0]", Err: errors.New("no leader")})
	if code, body := get("/ready"); code != http.StatusServiceUnavailable || !strings.Contains(body, "append to x[0]: no leader") {
		t.Errorf("ready: %d, %s", code, body)
	}
	if code, _ := get("/live"); code != http.StatusOK {
		t.Errorf("live: %d", code)
	}
	m.Record(event.Waiting{What: "append to x[0]", Over: true})
	if code, _ := get("/ready"); code != http.StatusOK {
		t.Errorf("ready: %d", code)
	}
	cancel()
}

// A second service on a machine finds a free port by itself. An address that was configured is used, or it is an error.
func TestListenOn(t *testing.T) {
	taken, err := net.Listen("tcp", config.DefaultListen)
	if err == nil {
		defer taken.Close()
	} // otherwise another process has taken the address, which is as good
	free, err := listenOn(config.DefaultListen)
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	if host, _, _ := net.SplitHostPort(free.Addr().String()); host != "127.0.0.1" {
		t.Errorf("listening on %s", free.Addr())
	}
	if _, err := listenOn(free.Addr().String()); !errors.As(err, new(schemas.Problem)) {
		t.Errorf("an address that is taken: %v", err)
	}
}
