package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// The log of a chain has a record for each version, with what was measured. What needs an operator is a warning.
func TestLogOfAChain(t *testing.T) {
	var stream bytes.Buffer
	l := NewLogs(slog.NewJSONHandler(&stream, nil), "p")
	e, loss := 2.5, 0.125
	l.Record(event.Retrained{Number: 1, RetrainReport: schemas.RetrainReport{Version: 1, Kind: schemas.RunFull, Rows: 1000,
		WindowRows: 1000, Offered: true, Seconds: 2}})
	l.Record(event.Retrained{Number: 2, RetrainReport: schemas.RetrainReport{
		Version: 2, Kind: schemas.RunUpdate, Rows: 500, WindowRows: 1500, Drift: true, Seconds: 0.5, UnknownRows: 9,
		Gate:             &schemas.GateReport{Weight: 50, Loss: 0.25, OfferedLoss: 0.125},
		PrequentialError: &e, PrequentialLoss: &loss, PrequentialLogLoss: &loss, PrequentialBrier: &loss, PrequentialECE: &loss,
		MostlyBad: &coverage.BadMessages{Messages: 3, Of: 4, Partition: 1, Offset: 7, Reason: "damaged"},
	}})
	var lines []map[string]any
	for text := range bytes.Lines(stream.Bytes()) {
		line := map[string]any{}
		arrowtest.NoError(t, json.Unmarshal(text, &line))
		lines = append(lines, line)
	}
	if len(lines) != 2 || lines[0]["level"] != "INFO" || lines[0]["msg"] != "retrained" || lines[0]["prequential_error"] != nil {
		t.Fatalf("%v", lines)
	}
	for key, want := range map[string]any{
		"level": "WARN", "version": 2.0, "kind": "update", "rows": 500.0, "offered": false, "drift": true, "seconds": 0.5,
		"unknown_rows": 9.0, "prequential_error": 2.5,
		"prequential_loss": 0.125, "prequential_log_loss": 0.125, "prequential_brier": 0.125, "prequential_ece": 0.125, "gate_loss": 0.25,
		"gate_offered_loss": 0.125,
		"bad_messages":      3.0, "of_messages": 4.0, "partition": 1.0, "offset": 7.0, "reason": "damaged",
	} {
		if lines[1][key] != want {
			t.Errorf("%s is %v, expected %v", key, lines[1][key], want)
		}
	}
}
