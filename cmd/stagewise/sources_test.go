package main

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// unnamed is a configuration of a run that names no files.
const unnamed = `name: blobs
stages: [{features: {kind: columns}, passes: 3}]
`

// typed types a command line, and expects this exit code. It returns what the command has written.
func typed(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	got, stdout, stderr := stagewise(args...)
	if got != code {
		t.Fatalf("%v: exit code %d, expected %d: %s", args, got, code, stderr)
	}
	return stdout, stderr
}

// A file that was edited is two sources. The old one is seen, removed, and brought back.
func TestSourcesAreListedAndRemoved(t *testing.T) {
	inFolder(t, map[string]string{"named.yaml": unnamed + "examples: {train: train.csv, batch_rows: 50}\n", "unnamed.yaml": unnamed,
		"train.csv": blobs(300, 1)})
	ingest := func() string {
		t.Helper()
		_, stderr := typed(t, exitDone, "ingest", "-c", "named.yaml")
		return stderr
	}
	learn := func(configuration string, rows int64, passedOver coverage.PassedOver) (stderr string) {
		t.Helper()
		stdout, stderr := typed(t, exitDone, "train", "-c", configuration, "--report", "-")
		var report schemas.Report
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.Rows != rows || !maps.Equal(report.PassedOver, passedOver) {
			t.Errorf("%d rows, passed over %v, %v; expected %d rows and %v", report.Rows, report.PassedOver, err, rows, passedOver)
		}
		return stderr
	}
	list := func(want ...string) (ids []string) {
		t.Helper()
		rows := listed(t, "sources", "list", "-c", "unnamed.yaml")
		if len(rows) != len(want) {
			t.Fatalf("%d sources, expected %d: %v", len(rows), len(want), rows)
		}
		for i, r := range rows {
			if since, err := time.Parse(time.RFC3339, r[2]); err != nil || time.Since(since) > time.Hour {
				t.Errorf("since %s", r[2])
			}
			if got := strings.Join(slices.Delete(slices.Clone(r), 2, 3)[1:], " "); got != want[i] {
				t.Errorf("source %d is %q, expected %q", i, got, want[i])
			}
			ids = append(ids, r[0])
		}
		return ids
	}
	const old, edited = "sealed train 300 6 6 train.csv", "sealed train 270 6 6 train.csv"

	ingest()
	before, err := os.ReadFile("train.csv")
	if err != nil {
		t.Fatal(err)
	}
	edit := func(content string) {
		if err := os.WriteFile("train.csv", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	edit(blobs(270, 2))
	ingest()
	learn("unnamed.yaml", 570, nil)
	ids := list(old, edited)

	// Nothing is removed if one of the ids is wrong.
	_, stderr := typed(t, exitFailed, "sources", "remove", "-c", "unnamed.yaml", ids[0], "nothing", "")
	if want := `stagewise: there is no source "nothing" on blobs.plans; there is no source "" on blobs.plans: expected the id of a sealed source, ` +
		"or its first digits; see sources list. No source is removed\n"; stderr != want {
		t.Errorf("%s", stderr)
	}
	list(old, edited)

	stdout, stderr := typed(t, exitDone, "sources", "remove", "-c", "unnamed.yaml", ids[0], ids[0][:11])
	if stdout != ids[0]+"\n" || stderr != "" {
		t.Errorf("removed %q, %q", stdout, stderr)
	}
	stderr = learn("unnamed.yaml", 270, coverage.PassedOver{coverage.Removed: 6})
	if !strings.Contains(stderr, "passed over: 6 messages from removed sources\n") {
		t.Errorf("the screen does not say what is passed over:\n%s", stderr)
	}
	const removed = "removed train 300 6 6 train.csv"
	list(edited, removed)
	stdout, stderr = typed(t, exitDone, "sources", "remove", "-c", "unnamed.yaml", ids[0])
	if want := "source " + ids[0] + " (train.csv) was already removed\n"; stdout != "" || stderr != want {
		t.Errorf("removed again: %q, %q", stdout, stderr)
	}

	// Ingest brings the old file back, without its messages, and so does a run of the file. It counts once.
	edit(string(before))
	if stderr := ingest(); !strings.Contains(stderr, "train.csv was removed earlier, and is restored\ntrain.csv: 300 train rows, "+
		"already on the topic\n") {
		t.Errorf("ingested again: %s", stderr)
	}
	list(edited, old)
	learn("unnamed.yaml", 570, nil)
	typed(t, exitDone, "sources", "remove", "-c", "unnamed.yaml", ids[0], ids[1])
	learn("named.yaml", 300, nil)
	learn("unnamed.yaml", 300, coverage.PassedOver{coverage.Removed: 6})
	learn("named.yaml", 300, nil)

	typed(t, exitDone, "sources", "remove", "-c", "unnamed.yaml", ids[0])
	_, stderr = typed(t, exitFailed, "train", "-c", "unnamed.yaml")
	if want := "no examples on blobs.examples, apart from 12 messages from removed sources: name files under examples.train"; !strings.Contains(stderr, want) {
		t.Errorf("after all sources were removed:\n%s", stderr)
	}
}
