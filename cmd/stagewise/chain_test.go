package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// The screen has a row for each version of a chain, with what an operator should know.
func TestProgressOfAChain(t *testing.T) {
	var screen bytes.Buffer
	p := newProgress(&screen, time.Now)
	p.Record(event.Began{Run: "abc", Chained: true})
	for _, e := range chainEvents() {
		p.Record(e)
	}
	for _, want := range []string{
		" version           new rows       window  error before   holdout  seconds\n",
		"       1  full        1,000        1,000             -         -     2.00\n",
		"       2  update        500        1,500        2.50 %         -     0.50  the stream has changed  not offered  most messages can't be used\n",
		"3 of 4 new messages can't be used; the first is partition 1, offset 7: damaged\n",
	} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("%s\nexpected %s", screen.String(), want)
		}
	}
}

// chainEvents is what happens in a chain of two versions.
func chainEvents() []event.Event {
	e, l := 2.5, 0.125
	return []event.Event{
		event.Retrained{Number: 1, RetrainReport: schemas.RetrainReport{Version: 1, Kind: schemas.RunFull, Rows: 1000, WindowRows: 1000, Offered: true, Seconds: 2}},
		event.Retrained{Number: 2, RetrainReport: schemas.RetrainReport{
			Version: 2, Kind: schemas.RunUpdate, Rows: 500, WindowRows: 1500, Drift: true, Seconds: 0.5, UnknownRows: 9,
			PrequentialError: &e, PrequentialLoss: &l, PrequentialLogLoss: &l, PrequentialBrier: &l, PrequentialECE: &l,
			MostlyBad: &schemas.BadMessages{Messages: 3, Of: 4, Partition: 1, Offset: 7, Reason: "damaged"},
		}},
	}
}

// The log of a chain has a record for each version, with what was measured. What needs an operator is a warning.
func TestLogOfAChain(t *testing.T) {
	var stream bytes.Buffer
	l := newLogs(slog.NewJSONHandler(&stream, nil), "p")
	for _, e := range chainEvents() {
		l.Record(e)
	}
	lines := logged(t, stream.String())
	if len(lines) != 2 || lines[0]["level"] != "INFO" || lines[0]["msg"] != "retrained" || lines[0]["prequential_error"] != nil {
		t.Fatalf("%v", lines)
	}
	for key, want := range map[string]any{
		"level": "WARN", "version": 2.0, "kind": "update", "rows": 500.0, "offered": false, "drift": true, "seconds": 0.5, "unknown_rows": 9.0, "prequential_error": 2.5,
		"prequential_loss": 0.125, "prequential_log_loss": 0.125, "prequential_brier": 0.125, "prequential_ece": 0.125,
		"bad_messages": 3.0, "of_messages": 4.0, "partition": 1.0, "offset": 7.0, "reason": "damaged",
	} {
		if lines[1][key] != want {
			t.Errorf("%s is %v, expected %v", key, lines[1][key], want)
		}
	}
}
