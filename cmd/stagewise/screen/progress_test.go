package screen

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// recordStage records the events of a run up to the end of its first stage.
func recordStage(record func(event.Event), clock *time.Time) {
	record(event.Began{Run: "abc", Stages: []schemas.Stage{{Link: "softmax", Passes: 5}, {Link: "softmax", Passes: 5}}})
	record(event.Surveyed{Rows: map[examples.Split]int64{examples.Train: 1000}, Features: 784, Inputs: 50, Classes: 10})
	for rows := range int64(5) {
		record(event.Progressed{Stage: 0, Visit: int(rows), Rows: rows * 25, Of: 100})
		*clock = clock.Add(60 * time.Millisecond)
	}
	record(event.StageEnded{Stages: 2, StageReport: schemas.StageReport{Link: "softmax", Passes: 12, Seconds: 1.25,
		TrainError: 1.5, TrainLoss: 0.05, TestError: new(2.25)}})
}

func TestProgressWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	var clock time.Time
	p := NewProgress(&out, func() time.Time { return clock })
	recordStage(p.Record, &clock)
	want := "run abc\n" +
		"1,000 train rows; 784 features → 50 components; 10 classes\n" +
		"                                error             loss\n" +
		" stage  link        passes    train     test    train     test  seconds\n" +
		"   1/2  softmax         12   1.50 %   2.25 %   0.0500        -      1.2\n"
	if out.String() != want {
		t.Errorf("got\n%s\nexpected\n%s", out.String(), want)
	}
}

// The bar is drawn every 100 ms at most, never fills a line, and is erased before a line of text.
func TestBar(t *testing.T) {
	var drawn bytes.Buffer
	var clock time.Time
	p := NewProgress(io.Discard, func() time.Time { return clock })
	p.bar.w, p.bar.width = &drawn, func() int { return 48 }
	recordStage(p.Record, &clock)
	frames := strings.Split(drawn.String(), "\r")
	if len(frames) != 5 { // nothing, 0 %, 25 %, 50 %, erased
		t.Fatalf("frames %q", frames)
	}
	for _, frame := range frames {
		if line := strings.TrimSuffix(frame, "\x1b[K"); len([]rune(line)) >= 48 {
			t.Errorf("%d characters: %q", len([]rune(line)), line)
		}
	}
	if frames[2] != "stage 1/2    ██████░░░░░░░░░░░░░░░░░░  25 %\x1b[K" || frames[4] != "\x1b[K" {
		t.Errorf("frames %q", frames)
	}
}

// Who waits for rows says so once, and on a terminal keeps saying how many there are.
func TestProgressOfExpectations(t *testing.T) {
	until := time.Date(2026, 11, 28, 16, 5, 30, 0, time.Local)
	record := func(p *Progress) {
		p.Record(event.Expecting{Of: 10000, After: 10 * time.Minute})
		p.Record(event.Expecting{Rows: 251, Of: 10000, After: 10 * time.Minute, Until: until, Again: true})
		p.Record(event.Ingested{Files: []string{"topic clicks"}, Rows: 260})
		p.Record(event.Expecting{Rows: 260, Of: 10000, After: 10 * time.Minute, Until: until, Again: true})
		p.Record(event.Retrained{RetrainReport: schemas.RetrainReport{Version: 1, Kind: schemas.RunFull, Offered: true}})
		p.Record(event.Expecting{Of: 10000})
	}
	var out, drawn bytes.Buffer
	record(NewProgress(&out, time.Now))
	if text := "waiting for 10,000 rows (0 so far), or 10m after the first; --until end learns what is there\n"; !strings.HasPrefix(out.String(), text) ||
		strings.Count(out.String(), "waiting") != 1 {
		t.Errorf("in a log: %s", &out)
	}
	p := NewProgress(io.Discard, time.Now)
	p.bar.w, p.bar.width = &drawn, func() int { return 80 }
	record(p)
	var frames []string
	for _, frame := range strings.Split(drawn.String(), "\r") {
		if frame = strings.TrimSuffix(frame, "\x1b[K"); strings.HasPrefix(frame, "waiting") {
			frames = append(frames, frame)
		}
	}
	want := []string{"waiting for 10,000 rows (0 so far), or 10m after the first", "waiting for 10,000 rows (251 so far), or until 16:05:30",
		"waiting for 10,000 rows (260 so far), or until 16:05:30", "waiting for 10,000 rows (0 so far)"}
	if !slices.Equal(frames, want) {
		t.Errorf("on a terminal %q, expected %q", frames, want)
	}
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", 30 * time.Second: "30s", time.Hour: "1h", 90 * time.Minute: "1h30m",
		time.Hour + 5*time.Second: "1h0m5s", 500 * time.Millisecond: "500ms", 10 * time.Hour: "10h"} {
		if got := durationText(d); got != want {
			t.Errorf("%v: %s, expected %s", d, got, want)
		}
	}
}

// A resumed run reports the stages that ended earlier before the survey. The screen shows them in the usual order, and also
// when the survey never comes.
func TestProgressOfResumedRun(t *testing.T) {
	for _, surveyed := range []bool{true, false} {
		var out bytes.Buffer
		p := NewProgress(&out, time.Now)
		p.Record(event.Began{Run: "abc", Resumed: true})
		want := "run abc, resumed\n"
		p.Record(event.StageEnded{Stages: 2, StageReport: schemas.StageReport{Link: "identity", Passes: 1}})
		if surveyed {
			p.Record(event.Surveyed{Rows: map[examples.Split]int64{examples.Train: 5}, Features: 3, Inputs: 3, Classes: 2})
			want += "5 train rows; 3 features; 2 classes\n"
		}
		p.Finish()
		rows, ok := strings.CutPrefix(out.String(), want)
		if !ok || strings.Count(rows, "\n") != 3 || !strings.Contains(rows, "1/2  identity") {
			t.Errorf("got\n%s\nexpected\n%sand the table", out.String(), want)
		}
	}
}

// The line after a wait says whether the operation succeeded.
func TestProgressOfWaits(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, time.Now)
	noLeader := errors.New("no leader")
	for _, e := range []event.Waiting{
		{What: "append to x[0]", Since: 2 * time.Second, Err: noLeader},
		{What: "append to x[0]", Since: 3 * time.Second, Over: true},
		{What: "append to x[1]", Since: 4 * time.Second, Err: noLeader, Over: true},
	} {
		p.Record(e)
	}
	want := "append to x[0]: waiting for 2s: no leader\n" +
		"append to x[0]: succeeded after 3s\n" +
		"append to x[1]: gave up after 4s\n"
	if out.String() != want {
		t.Errorf("got\n%s\nexpected\n%s", out.String(), want)
	}
}

// What a run passes over is on the screen, a line for each reason that counts any message.
func TestProgressOfPassedOver(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, time.Now)
	all := coverage.PassedOver{}
	for i, r := range coverage.PassOverReasons() {
		all.Count(r.Reason, int64(i))
	}
	p.Record(event.Surveyed{Rows: map[examples.Split]int64{examples.Train: 5}, Features: 3, Inputs: 3, Classes: 2, PassedOver: all})
	p.Finish()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(coverage.PassOverReasons()) || !strings.Contains(out.String(),
		"passed over: 1 message from other files or an interrupted ingest\n") {
		t.Errorf("got\n%s\nexpected the rows, and a line for each reason but the first", out.String())
	}
}

// What a followed run waits for, and who works on it, is on the screen.
func TestProgressOfFollowedRun(t *testing.T) {
	for want, e := range map[string]event.Followed{
		"it waits for runs a and b to end\n2 workers: x, y; 1 solver: z\n": {Behind: []string{"a",
			"b"}, Staff: event.Staff{Workers: []string{"x", "y"}, Solvers: []string{"z"}}},
		"it waits for visit 4 of stage 2 of 2\nthe process that runs the embedded broker works on it\n": {Stage: 1, Visit: 3,
			Staff: event.Staff{Embedded: true}},
		"no progress for 1m30s: the run waits for the survey\nno worker: start stagewise work -c FILE; 1 solver: z\n": {Stage: wire.Survey,
			Quiet: 90 * time.Second, Staff: event.Staff{Solvers: []string{"z"}}},
		"it is waiting to end: no visits remain\nthe processes that work on it are unknown: not allowed\n": {Stage: 2,
			Staff: event.Staff{Unknown: errors.New("not allowed")}},
	} {
		var out bytes.Buffer
		p := NewProgress(&out, time.Now)
		p.Record(event.Began{Run: "abc", Followed: true, Stages: make([]schemas.Stage, 2)})
		p.Record(e)
		if got := strings.TrimPrefix(out.String(), "run abc, on other processes\n"); got != want {
			t.Errorf("got\n%s\nexpected\n%s", got, want)
		}
	}
}

// Who predicts for a topic sees how far that is.
func TestScoringBar(t *testing.T) {
	var drawn bytes.Buffer
	var clock time.Time
	p := NewProgress(io.Discard, func() time.Time { return clock })
	p.bar.w, p.bar.width = &drawn, func() int { return 60 }
	for _, e := range []event.Event{
		event.ScoringLag{Offsets: map[int]int64{0: 5, 1: 2}}, event.Scored{Messages: 4, Rows: 4000, Version: 3},
		event.ScoringLag{Offsets: map[int]int64{1: 1}},
	} {
		p.Record(e)
		clock = clock.Add(time.Second)
	}
	p.Finish()
	want := "\rscore  0 rows, 7 messages left\x1b[K\rscore  4,000 rows, version 3, 7 messages left\x1b[K\rscore  4,000 rows, " +
		"version 3, 1 message left\x1b[K\r\x1b[K"
	if drawn.String() != want {
		t.Errorf("got %q, expected %q", drawn.String(), want)
	}
}
