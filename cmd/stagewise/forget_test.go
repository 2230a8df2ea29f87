package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// A person asks that her rows be forgotten, and later a whole file.
func TestForget(t *testing.T) {
	inFolder(t, map[string]string{
		"good.yaml": "name: blobs\nexamples: {train: train.csv, batch_rows: 25, partitions: 1}\nstages: [{features: {kind: " +
			"columns}}]\nretrain: {rows: 100, full: {growth: 0}}\n",
		"train.csv": blobs(300, 1), "more.csv": blobs(100, 2),
	})
	learn := func(args ...string) (r pipeline.Retraining) {
		t.Helper()
		stdout, stderr := typed(t, exitDone, append([]string{"run", "-c", "good.yaml", "--until", "end", "--report", "-"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		return r
	}
	if r := learn(); len(r.Updates) != 3 {
		t.Fatalf("%d updates", len(r.Updates))
	}
	stdout, stderr := typed(t, exitDone, "forget", "-c", "good.yaml", "blobs.examples/0/5/3-5", "blobs.examples/0/7")
	for _, want := range []string{
		"forgot 28 rows of 2 messages\n", "versions that learnt from forgotten rows: 2, 3; ",
		"blobs.examples    the rows stay forever\n", "blobs.statistics  samples of them, and rows of small updates stay until 2",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%s%s: expected %s", stdout, stderr, want)
		}
	}
	if r := learn(); len(r.Updates) != 1 || r.Updates[0].Kind != schemas.RunFull || r.Updates[0].Version != 4 {
		t.Errorf("%+v, expected a full run", r)
	}
	versions := func() (numbers string) {
		for _, v := range listed(t, "weights", "list", "-c", "good.yaml") {
			numbers += v[0] + " "
		}
		return numbers
	}
	if left := versions(); left != "1 4 " {
		t.Errorf("the versions %s are left, expected 1 and 4", left)
	}
	typed(t, exitDone, "ingest", "-c", "good.yaml", "--set", "examples.train=[train.csv, more.csv]")
	id := listed(t, "sources", "list", "-c", "good.yaml")[0][0]
	stdout, _ = typed(t, exitDone, "forget", "-c", "good.yaml", "--source", id, "--now")
	if want := "forgot 300 rows of 12 messages\nremoved versions that learnt from forgotten rows: 1, 4\n"; !strings.HasPrefix(stdout, want) {
		t.Errorf("%s, expected %s", stdout, want)
	}
	if sources := listed(t, "sources", "list", "-c", "good.yaml"); sources[0][1] != source.Forgotten || sources[1][1] != source.Sealed {
		t.Errorf("%v", sources)
	}
	_, stderr = typed(t, exitFailed, "run", "-c", "good.yaml", "--until", "end")
	if want := `stagewise: ["train.csv"]: source ` + id +
		" is forgotten (on blobs.forget), and no run learns it: remove it from the configuration"; !strings.Contains(stderr, want) {
		t.Errorf("%s, expected %s", stderr, want)
	}
	var report schemas.Report
	stdout, stderr = typed(t, exitDone, "train", "-c", "good.yaml", "--set", "examples.train=", "--report", "-")
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.PassedOver[coverage.ForgottenRow] != 300 ||
		!strings.Contains(stderr, "passed over: 300 rows that were forgotten") {
		t.Errorf("%+v, %v: %s", report, err, stderr)
	}
	_, stderr = typed(t, exitFailed, "forget", "-c", "good.yaml", "--key", "nobody")
	if want := `no message on blobs.examples has the key "nobody". Nothing is forgotten`; !strings.Contains(stderr, want) {
		t.Errorf("%s, expected %s", stderr, want)
	}
	// The forget topic is lost: nothing is learnt until the operator decides.
	if _, stderr = typed(t, exitFailed, "forget", "-c", "good.yaml", "--lost", "drop"); !strings.Contains(stderr, "nothing is lost") {
		t.Errorf("%s", stderr)
	}
	if _, stderr = typed(t, exitWrong, "forget", "-c", "good.yaml", "--lost", "some"); !strings.Contains(stderr, "expected restore or drop") {
		t.Errorf("%s", stderr)
	}
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Delete(t.Context(), "blobs.forget"), log.Close()); err != nil {
		t.Fatal(err)
	}
	again := []string{"train", "-c", "good.yaml", "--set", "examples.train="}
	if _, stderr = typed(t, exitFailed, again...); !strings.Contains(stderr, "blobs.forget has lost forgotten rows") {
		t.Errorf("%s", stderr)
	}
	if stdout, _ = typed(t, exitDone, "forget", "-c", "good.yaml", "--lost", "restore"); !strings.HasPrefix(stdout,
		"forgot 300 rows of 12 messages\n") {
		t.Errorf("%s", stdout)
	}
	if _, stderr = typed(t, exitDone, again...); !strings.Contains(stderr, "passed over: 300 rows that were forgotten") {
		t.Errorf("%s", stderr)
	}
}
