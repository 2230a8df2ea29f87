package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/schemas"
)

// hours are rows whose state follows from the hour and the weekday.
func hours(rows int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	var out strings.Builder
	out.WriteString("x,created,state\n")
	for range rows {
		at := time.Unix(1_790_000_000+random.Int64N(30_000_000), 0).UTC()
		state := "quiet"
		if at.Hour() >= 8 && at.Hour() < 18 && at.Weekday() != time.Saturday && at.Weekday() != time.Sunday {
			state = "busy"
		}
		fmt.Fprintf(&out, "%.3f,%s,%s\n", random.Float64(), at.Format("2006-01-02 15:04"), state)
	}
	return out.String()
}

// A configuration of init learns from times what they mean, and predict finds them in files.
func TestTimes(t *testing.T) {
	inFolder(t, map[string]string{"train.csv": hours(2000, 1), "test.csv": hours(500, 2)})
	if code, stdout, stderr := stagewise("init", "train.csv", "--label", "state"); code != exitDone ||
		!strings.Contains(stdout, "created  time    dates and times of day\n") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr := stagewise("train", "-c", "stagewise.yaml", "--set", "examples.test=[test.csv]", "--set", "stages=[{features: {kind: trees}, repeat: 4}]", "--quiet",
		"--report", "-", "--model", "m")
	var r schemas.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != exitDone || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if e := r.Splits["test"].Error; e > 6 {
		t.Errorf("%v %% of the test rows are wrong", e)
	}
	if code, _, stderr := stagewise("predict", "--model", "m", "-i", "test.csv", "-o", "out.csv"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	predicted, err := os.ReadFile("out.csv")
	if err != nil {
		t.Fatal(err)
	}
	truth, wrong := strings.Split(strings.TrimSpace(hours(500, 2)), "\n"), 0
	for i, line := range strings.Split(strings.TrimSpace(string(predicted)), "\n") {
		if label, _, _ := strings.Cut(line, ","); i > 0 && !strings.HasSuffix(truth[i], ","+label) {
			wrong++
		}
	}
	if e := 100 * float64(wrong) / 500; e-r.Splits["test"].Error > 1e-9 || r.Splits["test"].Error-e > 1e-9 {
		t.Errorf("predict has %v %% of them wrong, the run %v %%", e, r.Splits["test"].Error)
	}
	if code, stdout, _ := stagewise("explain", "--model", "m", "-i", "test.csv"); code != exitDone ||
		!strings.Contains(stdout, "\ncreated.hour ") || !strings.Contains(stdout, "value of created.weekday") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	if code, _, stderr := stagewise("train", "-c", "stagewise.yaml", "--set", "examples.times={created: [second]}"); code != exitWrong ||
		!strings.Contains(stderr, "different parts of hour, weekday, month and age") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
