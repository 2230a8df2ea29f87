package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// A file of pandas is ingested, trained on and predicted, with nothing but its name.
func TestTrainOnParquet(t *testing.T) {
	frame, err := os.ReadFile("../../ingest/testdata/pandas.parquet")
	if err != nil {
		t.Fatal(err)
	}
	inFolder(t, map[string]string{"frame.parquet": string(frame), "frame.yaml": `name: frame
examples: {train: [frame.parquet], weight: weight, missing: mean}
stages: [{features: {kind: columns}, passes: 3}]
`})
	for range 2 { // the second finds the file on the topic
		if code, _, stderr := stagewise("ingest", "-c", "frame.yaml"); code != exitDone {
			t.Fatal(stderr)
		}
	}
	code, stdout, stderr := stagewise("train", "-c", "frame.yaml", "--quiet", "--report", "-", "--model", "frame.model")
	var report schemas.Report
	if err := json.Unmarshal([]byte(stdout), &report); code != exitDone || err != nil || report.Rows != 4 ||
		strings.Join(report.Labels, "") != "ab" {
		t.Fatalf("exit code %d, %s, report %s; expected 4 rows of a and b", code, stderr, stdout)
	}
	code, stdout, stderr = stagewise("predict", "--model", "frame.model", "-i", "frame.parquet")
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); code != exitDone || len(lines) != 5 || lines[0] != "label,a,b" {
		t.Errorf("exit code %d, %s, predictions %s; expected 4", code, stderr, stdout)
	}
}
