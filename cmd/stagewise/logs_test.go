package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
)

// logged parses a log stream of JSON. Each line must be an object with a time, a level, a message and the pipeline.
func logged(t *testing.T, stream string) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(stream) {
		var record map[string]any
		err := json.Unmarshal([]byte(line), &record)
		assert.Need(t, err == nil, "%v: %s", err, line)
		for _, key := range []string{"time", "level", "msg", "pipeline"} {
			_, ok := record[key].(string)
			assert.True(t, ok, "no %s in %s", key, line)
		}
		for _, key := range []string{"seconds", "waited_seconds"} {
			v, ok := record[key].(float64)
			assert.True(t, record[key] == nil || ok && v <= 60, "%s is %v in %s, expected seconds", key, record[key], line)
		}
		lines = append(lines, record)
	}
	return lines
}

// With --log json standard error has lines of JSON and nothing else, whether the command succeeds or fails. Durations are seconds.
func TestLogStreamIsJSON(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	_, stderr := typed(t, exitDone, "train", "-c", "good.yaml", "--log", "json", "--log-level", "debug", "--report", "report.json")
	seen := map[string]bool{}
	for _, record := range logged(t, stderr) {
		seen[record["msg"].(string)] = true
		assert.True(t, record["pipeline"] == "blobs", "pipeline %v", record["pipeline"])
	}
	for _, msg := range []string{"ingested", "began", "surveyed", "progressed", "visited", "solved", "sealed", "stage ended", "ended"} {
		assert.True(t, seen[msg], "no line %q", msg)
	}

	code, stdout, stderr := stagewise("train", "-c", "good.yaml", "--log", "json", "--set", "examples.train=[none.csv]")
	lines := logged(t, stderr)
	last := lines[len(lines)-1]
	assert.True(t, code == exitFailed && stdout == "" && last["level"] == "ERROR" && strings.Contains(last["msg"].(string), "none.csv"),
		"exit code %d: %s%s", code, stdout, stderr)
	// The configuration is wrong, so the name of the pipeline is not known.
	code, _, stderr = stagewise("train", "-c", "good.yaml", "--log", "json", "--set", "seed=x")
	var record map[string]any
	err := json.Unmarshal([]byte(stderr), &record)
	assert.True(t, code == exitWrong && err == nil && record["level"] == "ERROR", "exit code %d: %s", code, stderr)
}

// --log-level leaves out what is below the level.
func TestLogLevel(t *testing.T) {
	events := []event.Event{event.Progressed{Rows: 1, Of: 2}, event.Began{Run: "abc"}, event.Noticed{Text: "careful"},
		event.Ended{State: schemas.Failed}}
	for level, want := range map[string]int{"debug": 4, "info": 3, "": 3, "warn": 2, "error": 1} {
		var stderr strings.Builder
		show := displayFlags{log: logJSON, level: level}
		assert.NoError(t, show.check())
		recorder, finish := show.recorder(config.Defaults(), &stderr)
		for _, e := range events {
			recorder.Record(e)
		}
		finish()
		assert.True(t, len(logged(t, stderr.String())) == want, "level %q: expected %d lines, got\n%s", level, want, &stderr)
	}
}

// Values of rows are in logs only with log.values: true; a reason without it still says where and why.
func TestValuesInLogs(t *testing.T) {
	quarantined := event.Quarantined{Topic: "t", Reason: `column "card": "4111" is not a number`}
	for values, want := range map[bool]string{false: `column "card": … is not a number`, true: quarantined.Reason} {
		var got string
		reasons(func(e event.Event) { got = e.(event.Quarantined).Reason }, values)(quarantined)
		assert.Equal(t, got, want, "log.values %v", values)
	}
}

// A shell that completes --set offers the keys that begin with what was typed, and a completed key is one that can be set.
func TestSettingsAreCompleted(t *testing.T) {
	for typed, want := range map[string][]string{
		"see":              {"seed="},
		"seed=":            {"seed="},
		"stages.0.stop":    {"stages.0.stop.split=", "stages.0.stop.patience=", "stages.0.stop.stages="},
		"stages.12.method": {"stages.12.method="},
		"stages.1":         nil, // of stage 1, 10 or 11?
		"sede":             nil,
	} {
		var screen bytes.Buffer
		root := newRoot(&screen, io.Discard)
		root.SetArgs([]string{"__complete", "train", "--set", typed})
		assert.NoError(t, root.ExecuteContext(t.Context()))
		var got []string
		for line := range strings.Lines(screen.String()) {
			if key, meaning, found := strings.Cut(line, "\t"); found && meaning != "\n" {
				got = append(got, key)
			}
		}
		assert.Equal(t, got, want, "%q: completed as", typed)
	}
	file := filepath.Join(t.TempDir(), "stages.yaml")
	assert.NoError(t, os.WriteFile(file, []byte("stages: [{}]"), 0o600))
	offered := completeKeys("")
	assert.True(t, len(offered) == len(config.Keys()), "%d of %d keys are offered", len(offered), len(config.Keys()))
	for _, line := range offered {
		key, _, _ := strings.Cut(line, "=")
		_, err := config.Load(file, []string{key + "={}"}) // the value is wrong, but the key is known
		assert.True(t, err != nil && !strings.Contains(err.Error(), "known key"), "%s: %v", key, err)
	}
}
