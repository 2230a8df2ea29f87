package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
)

// listed returns the columns of a table that a command writes, without the titles.
func listed(t *testing.T, args ...string) (rows [][]string) {
	t.Helper()
	code, stdout, stderr := stagewise(args...)
	if code != exitDone || stderr != "" {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
	for line := range strings.Lines(stdout) {
		rows = append(rows, strings.Fields(line))
	}
	return rows[1:]
}

// Runs that nobody works on wait, are listed with what they wait for, and can be cancelled.
func TestRunsAreListedAndCancelled(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	broker := startBroker(t)
	on := []string{"-c", "good.yaml", "--set", "brokers=" + broker.Addr()[0]}
	var ids []string
	for _, seed := range []string{"1", "2", "3"} {
		code, id, stderr := stagewise(append([]string{"train", "--detach", "--set", "seed=" + seed}, on...)...)
		if code != exitDone {
			t.Fatalf("train --detach: exit code %d: %s", code, stderr)
		}
		ids = append(ids, strings.TrimSpace(id))
	}
	list := append([]string{"runs", "list"}, on...)
	expect := func(states ...string) {
		t.Helper()
		rows := listed(t, list...)
		for _, r := range rows {
			if since, err := time.Parse(time.RFC3339, r[2]); err != nil || time.Since(since) > time.Hour || r[3] != "300" {
				t.Errorf("since %s, %s rows", r[2], r[3])
			}
		}
		for i, want := range states {
			at := slices.IndexFunc(rows, func(r []string) bool { return r[0] == ids[i] })
			if at < 0 || rows[at][1]+" "+strings.Join(rows[at][5:], " ") != want {
				t.Errorf("run %d is %v, expected %s", i, rows, want)
			}
		}
	}
	const waits, cancelled = "waiting for workers and a solver to finish the survey", "cancelled by runs cancel"
	expect(waits, "waiting for run "+ids[0]+", which goes first", "waiting for run "+ids[0]+", which goes first")
	cancel := func(arg string, code int, stdout, stderr string) {
		t.Helper()
		gotCode, gotStdout, gotStderr := stagewise(append([]string{"runs", "cancel", arg}, on...)...)
		if gotCode != code || gotStdout != stdout || gotStderr != stderr {
			t.Errorf("runs cancel %s: exit code %d: %q, %q", arg, gotCode, gotStdout, gotStderr)
		}
	}
	cancel(ids[0], exitDone, ids[0]+"\n", "")
	expect(cancelled, waits, "waiting for run "+ids[1]+", which goes first")
	cancel("--all", exitDone, ids[1]+"\n"+ids[2]+"\n", "")
	expect(cancelled, cancelled, cancelled)
	cancel("--all", exitDone, "", "")
	cancel(ids[0], exitFailed, "", "stagewise: run "+ids[0]+" has ended already: it is cancelled\n")
	cancel("0123", exitFailed, "", "stagewise: there is no run 0123 on blobs.plans\n")

	// A run that is done is listed with its version's rows, and its version with date, rows, errors and parameters.
	report := trained(t)
	if rows := listed(t, "runs", "list", "-c", "good.yaml"); len(rows) != 1 || rows[0][0] != report.Run || rows[0][1] != "done" ||
		rows[0][3] != "300" || rows[0][4] != strconv.Itoa(report.Version) {
		t.Errorf("runs list: %v", rows)
	}
	code, stdout, stderr := stagewise("weights", "list", "-c", "good.yaml")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	lines := strings.Split(stdout, "\n")
	fields := strings.Fields(lines[1])
	if _, err := time.Parse(time.RFC3339, fields[2]); err != nil || fields[1] != report.Run || fields[3] != "300" || fields[4] != "3" ||
		!strings.Contains(lines[1], screen.Percent(&report.TrainError)) || !strings.Contains(lines[1], screen.Percent(report.TestError)) ||
		!strings.HasSuffix(lines[1], "2 × 40 rff bandwidth 1 softmax, all columns calibrated") {
		t.Errorf("weights list:\n%s", stdout)
	}
}
