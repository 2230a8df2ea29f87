package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

func of[T any](v T) *T { return &v }

// stageOf is the events of one stage, a tenth of a second apart.
func stageOf(record func(event.Event), clock *time.Time) {
	record(event.Began{Run: "abc", Stages: []schemas.Stage{{Link: "softmax", Passes: 5}, {Link: "softmax", Passes: 5}}})
	for rows := range int64(5) {
		record(event.Progressed{Stage: 0, Visit: int(rows), Rows: rows * 25, Of: 100})
		*clock = clock.Add(60 * time.Millisecond)
	}
	record(event.StageEnded{Stages: 2, StageReport: schemas.StageReport{Link: "softmax", Passes: 12, Seconds: 1.25,
		TrainError: 1.5, TrainLoss: 0.05, TestError: of(2.25)}})
}

func TestProgressWithoutTerminal(t *testing.T) {
	var out, stderr bytes.Buffer
	var clock time.Time
	p := newProgress(&out, &stderr, func() time.Time { return clock })
	stageOf(p.Record, &clock)
	want := "run abc\n" +
		"                                error             loss\n" +
		" stage  link        passes    train     test    train     test  seconds\n" +
		"   1/2  softmax         12   1.50 %   2.25 %   0.0500        -      1.2\n"
	if out.String() != want || stderr.Len() > 0 {
		t.Errorf("got\n%s\nexpected\n%s\nand on standard error %q", out.String(), want, stderr.String())
	}
}

// The bar is drawn at most each 100 ms, never longer than a line, and gone before a line of text.
func TestBar(t *testing.T) {
	var out, stderr bytes.Buffer
	var clock time.Time
	p := newProgress(&out, &stderr, func() time.Time { return clock })
	p.bar.width = func() int { return 48 }
	stageOf(p.Record, &clock)
	frames := strings.Split(stderr.String(), "\r")
	if len(frames) != 5 { // nothing, 0 %, 25 %, 50 %, erased
		t.Fatalf("frames %q", frames)
	}
	for _, frame := range frames {
		if line := strings.TrimSuffix(frame, "\x1b[K"); len([]rune(line)) >= 48 {
			t.Errorf("%d letters: %q", len([]rune(line)), line)
		}
	}
	if frames[2] != "stage 1/2    ██████░░░░░░░░░░░░░░░░░░  25 %\x1b[K" || frames[4] != "\x1b[K" {
		t.Errorf("frames %q", frames)
	}
}
