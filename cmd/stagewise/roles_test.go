package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// A worker and a solver work on all submitted runs, whether or not a process follows them, and exit with 0 when stopped.
func TestServices(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	broker, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: "broker", Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	on := []string{"-c", "good.yaml", "--set", "brokers=" + broker.Addr()[0]}
	services := map[string]chan int{}
	logs := map[string]*bytes.Buffer{}
	for _, role := range []string{"work", "solve"} {
		ended, log := make(chan int, 1), &bytes.Buffer{}
		services[role], logs[role] = ended, log
		go func() { ended <- execute(ctx, append([]string{role, "--log", "json"}, on...), &bytes.Buffer{}, log) }()
	}

	code, out, stderr := stagewise(append([]string{"train", "--detach"}, on...)...)
	if code != exitDone {
		t.Fatalf("train --detach: %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id, ok := strings.CutPrefix(lines[len(lines)-1], "run ")
	if !ok {
		t.Fatalf("train --detach prints %q", out)
	}
	if code, _, stderr := stagewise(append([]string{"train", "--attach", id, "--report", "report.json", "--model", "blobs.model"}, on...)...); code != exitDone {
		t.Fatalf("train --attach: %d: %s", code, stderr)
	}
	report := func(file string) *schemas.Report {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := &schemas.Report{}
		if err := json.Unmarshal(content, r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := report("report.json"); r.Run != id || r.Version != 1 || r.Rows != 300 {
		t.Errorf("%+v", r)
	}
	// With a report to write, one command submits the run and waits for its end.
	if code, _, stderr := stagewise(append([]string{"train", "--detach", "--quiet", "--report", "second.json"}, on...)...); code != exitDone {
		t.Fatalf("train --detach --report: %d: %s", code, stderr)
	}
	// A train without --detach starts a worker and a solver of its own, which share the work with the services.
	if code, _, stderr := stagewise(append([]string{"train", "--quiet", "--report", "third.json"}, on...)...); code != exitDone {
		t.Fatalf("train: %d: %s", code, stderr)
	}
	for i, file := range []string{"second.json", "third.json"} {
		if r := report(file); r.Version != i+2 || r.WeightsDigest != report("report.json").WeightsDigest {
			t.Errorf("%s: version %d, digest %s", file, r.Version, r.WeightsDigest)
		}
	}
	if code, _, stderr := stagewise(append([]string{"train", "--attach", "0123"}, on...)...); code != exitFailed || !strings.Contains(stderr, "there is no run 0123") {
		t.Errorf("attach to no run: %d: %s", code, stderr)
	}

	stop()
	for role, ended := range services {
		if code := <-ended; code != exitDone {
			t.Errorf("%s ends with %d: %s", role, code, logs[role])
		}
		for _, want := range []string{`"msg":"serving"`, `"msg":"began"`, `"msg":"ended"`} {
			if !strings.Contains(logs[role].String(), want) {
				t.Errorf("%s logs no %s", role, want)
			}
		}
	}
}
