package event

import (
	"cmp"
	"log/slog"
	"math"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Log implements [Event].
func (e Ingested) Log(log Logger) {
	if e.Done {
		log(slog.LevelInfo, "ingested", "files", e.Files, "split", e.Split.String(), "rows", e.Rows, "known", e.Known)
	}
}

// Log implements [Event].
func (e Joined) Log(log Logger) {
	c := e.Counts
	log(slog.LevelDebug, "joined", "rows", c.Rows, "absent", c.Absent, "outcomes", c.Outcomes, "without_row", c.Alone(), "late", c.Late,
		"disorder_ms", c.Disorder)
}

// Log implements [Event].
func (e Following) Log(log Logger) {
	log(slog.LevelInfo, "follows", "topic", e.Topic)
}

// Log implements [Event].
func (e Serving) Log(log Logger) {
	log(slog.LevelInfo, "serving", "metrics", "http://"+e.Address+"/metrics")
}

// Log implements [Event].
func (e Answering) Log(log Logger) {
	log(slog.LevelInfo, "answering", "url", e.URL)
}

// Log implements [Event].
func (e Answers) Log(log Logger) {
	if e.Version == 0 {
		log(slog.LevelWarn, "no version", "because", e.Why)
	} else {
		log(slog.LevelInfo, "answers", "version", e.Version)
	}
}

// Log implements [Event].
func (e Scored) Log(log Logger) {
	log(slog.LevelInfo, "scored", "partition", e.Partition, "messages", e.Messages, "rows", e.Rows, "bad", e.Bad, "version", e.Version)
}

// Log implements [Event].
func (e ScoringLag) Log(log Logger) {
	for partition, offsets := range e.Offsets {
		log(slog.LevelDebug, "scoring lag", "partition", partition, "offsets", offsets)
	}
}

// Log implements [Event].
func (e PageServed) Log(log Logger) {
	log(slog.LevelInfo, "shown", "url", e.URL)
}

// Log implements [Event].
func (e Began) Log(log Logger) {
	log(slog.LevelInfo, "began", "resumed", e.Resumed, "stages", len(e.Stages))
}

// Log implements [Event].
func (e Retrained) Log(log Logger) {
	attributes := []any{
		"version", e.Version, "number", e.Number, "kind", e.Kind, "rows", e.Rows, "window_rows", e.WindowRows, "forgotten", e.Forgotten,
		"unknown_rows", e.UnknownRows, "overflow", e.Overflow, "no_label", e.NoLabel, "lost", e.Lost, "gone", e.Gone,
		"offered", e.Offered, "drift", e.Drift, "seconds", rounded(e.Seconds),
	}
	for _, measured := range []struct {
		name  string
		value *float64
	}{
		{"prequential_error", e.PrequentialError}, {"prequential_loss", e.PrequentialLoss}, {"prequential_log_loss", e.PrequentialLogLoss},
		{"prequential_brier", e.PrequentialBrier}, {"prequential_ece", e.PrequentialECE}, {"prequential_rmse", e.PrequentialRMSE},
		{"holdout_error", e.HoldoutError},
	} {
		if measured.value != nil {
			attributes = append(attributes, measured.name, *measured.value)
		}
	}
	for _, s := range e.Served {
		attributes = append(attributes, slog.Group("served_"+strconv.Itoa(s.Version), "error", s.Error, "rows", s.Rows))
	}
	if g := e.Gate; g != nil {
		attributes = append(attributes, "gate_loss", g.Loss, "gate_offered_loss", g.OfferedLoss)
	}
	if e.AtLeast > 0 {
		attributes = append(attributes, "at_least", e.AtLeast)
	}
	if len(e.Lacking) > 0 {
		attributes = append(attributes, "lacking", e.Lacking, "unseen", e.Unseen)
	}
	if o := e.Outcomes; o != nil {
		attributes = append(attributes, "outcomes", o.Outcomes, "without_row", o.Alone, "late", o.Late)
		if o.Withhold() {
			attributes = append(attributes, "why", o.Why())
		}
	}
	level := slog.LevelInfo
	if e.Drift || !e.Offered || e.MostlyBad != nil || e.Lost+e.Gone > 0 || e.Unseen {
		level = slog.LevelWarn
	}
	if b := e.MostlyBad; b != nil {
		attributes = append(attributes, "bad_messages", b.Messages, "of_messages", b.Of, "partition", b.Partition, "offset", b.Offset,
			"reason", b.Reason)
	}
	log(level, "retrained", attributes...)
}

// Log implements [Event].
func (e Replaced) Log(log Logger) {
	log(slog.LevelWarn, "replaced", "topic", e.Topic, "partition", e.Partition, "learnt_before", e.Looked,
		"proven_before", e.Proven, "rows", e.Rows)
}

// Log implements [Event].
func (e Lost) Log(log Logger) {
	log(slog.LevelWarn, "lost messages", "topic", e.Topic, "partition", e.Partition, "from", e.From, "to", e.To, "messages", e.To-e.From)
}

// Log implements [Event].
func (e ColumnLost) Log(log Logger) {
	if e.Rows > 0 {
		log(slog.LevelWarn, "column lost", "topic", e.Topic, "file", e.File, "column", e.Column, "rows", e.Rows,
			"optional", e.Optional)
	}
}

// Log implements [Event].
func (e Incomplete) Log(log Logger) {
	log(slog.LevelWarn, "incomplete version", "version", e.Version, "because", e.Why)
}

// Log implements [Event].
func (e Expecting) Log(log Logger) {
	level := slog.LevelInfo
	if e.Again {
		level = slog.LevelDebug
	}
	attributes := []any{"rows", e.Rows, "of", e.Of, "after_seconds", e.After.Seconds()}
	if e.After > 0 && !e.Until.IsZero() {
		attributes = append(attributes, "until", e.Until)
	}
	log(level, "waits for rows", attributes...)
}

// Log implements [Event].
func (e StoodBy) Log(log Logger) {
	log(slog.LevelInfo, "stands by", "role", e.Role, "because", e.Why)
}

// Log implements [Event].
func (e Behind) Log(log Logger) {
	log(slog.LevelDebug, "behind", "messages", e.Messages, "rows", e.Rows)
}

// Log implements [Event].
func (e SourceLag) Log(log Logger) {
	log(slog.LevelDebug, "source lag", "topic", e.Topic, "messages", e.Messages)
}

// Log implements [Event].
func (e Quarantined) Log(log Logger) {
	log(slog.LevelWarn, "quarantined", "topic", cmp.Or(e.Topic, "examples"), "partition", e.Partition, "offset", e.Offset, "reason", e.Reason,
		"messages", max(e.Messages, 1))
}

// Log implements [Event].
func (e Surveyed) Log(log Logger) {
	log(slog.LevelInfo, "surveyed", "rows", e.Rows[examples.Train], "features", e.Features, "inputs", e.Inputs, "classes", e.Classes,
		"passed_over", e.PassedOver, "seconds", rounded(e.Elapsed.Seconds()))
}

// Log implements [Event].
func (e Passed) Log(log Logger) {
	train := e.Metrics[examples.Train]
	attributes := []any{"stage", e.Stage, "visit", e.Visit, "pass", e.Pass, "accepted", e.Accepted, "objective", e.Objective,
		"train_loss", train.Loss, "train_error", train.Error}
	if holdout := e.Metrics[examples.Holdout]; holdout.Rows > 0 {
		attributes = append(attributes, "holdout_error", holdout.Error, "holdout_loss", holdout.Loss)
	}
	if test := e.Metrics[examples.Test]; test.Rows > 0 {
		attributes = append(attributes, "test_error", test.Error, "test_loss", test.Loss)
	}
	log(slog.LevelInfo, "passed", attributes...)
}

// Log implements [Event].
func (e StageEnded) Log(log Logger) {
	attributes := []any{"stage", e.Stage, "link", e.Link, "passes", e.Passes, "seconds", rounded(e.Seconds), "train_error", e.TrainError,
		"train_loss", e.TrainLoss}
	if e.Member > 0 {
		attributes = append(attributes, "member", e.Member)
	}
	attributes = appendMeasured(attributes, "holdout", e.HoldoutError, e.HoldoutLoss)
	log(slog.LevelInfo, "stage ended", appendMeasured(attributes, "test", e.TestError, e.TestLoss)...)
	if a := e.Average; a != nil {
		attributes := []any{"members", a.Members, "train_error", a.TrainError, "train_loss", a.TrainLoss}
		attributes = appendMeasured(attributes, "holdout", a.HoldoutError, a.HoldoutLoss)
		log(slog.LevelInfo, "members averaged", appendMeasured(attributes, "test", a.TestError, a.TestLoss)...)
	}
}

// Log implements [Event].
func (e Followed) Log(log Logger) {
	level := slog.LevelInfo
	if !e.Staff.Embedded && (len(e.Staff.Workers) == 0 || len(e.Staff.Solvers) == 0) {
		level = slog.LevelWarn
	}
	log(level, "follows", "behind", e.Behind, "stage", e.Stage, "visit", e.Visit,
		"workers", e.Staff.Workers, "solvers", e.Staff.Solvers, "embedded", e.Staff.Embedded, "waited_seconds", rounded(e.Quiet.Seconds()))
}

// Log implements [Event].
func (e StoodAside) Log(log Logger) {
	if e.Over {
		log(slog.LevelInfo, "no longer stands aside", "for", e.Run)
	} else {
		log(slog.LevelWarn, "stands aside", "for", e.Run, "because", e.Why)
	}
}

// Log implements [Event].
func (e Solving) Log(log Logger) {
	if e.Active {
		log(slog.LevelInfo, "solves")
	} else {
		log(slog.LevelInfo, "stands by")
	}
}

// Log implements [Event].
func (e Progressed) Log(log Logger) {
	log(slog.LevelDebug, "progressed", "stage", e.Stage, "visit", e.Visit, "rows", e.Rows, "of", e.Of)
}

// Log implements [Event].
func (e Ended) Log(log Logger) {
	log(levelOf(e.State), "ended", "state", e.State, "reason", e.Reason)
}

// Log implements [Event].
func (e Owned) Log(log Logger) {
	log(slog.LevelInfo, "owns", "partitions", e.Partitions)
}

// Log implements [Event].
func (e Visited) Log(log Logger) {
	log(slog.LevelInfo, "visited", "stage", e.Stage, "visit", e.Visit, "partitions", e.Partitions, "rows", e.Rows,
		"seconds", rounded(e.Elapsed.Seconds()))
}

// Log implements [Event].
func (e Sealed) Log(log Logger) {
	log(slog.LevelInfo, "sealed", "stage", e.Stage, "partitions", e.Partitions, "rows", e.Rows, "seconds", rounded(e.Elapsed.Seconds()))
}

// Log implements [Event].
func (e Solved) Log(log Logger) {
	log(slog.LevelInfo, "solved", "stage", e.Stage, "visit", e.Visit, "waited_seconds", rounded(e.Waited.Seconds()),
		"seconds", rounded(e.Elapsed.Seconds()))
}

// Log implements [Event].
func (e Advanced) Log(log Logger) {
	log(slog.LevelInfo, "advanced", "stage", e.Stage, "visit", e.Visit)
}

// Log implements [Event].
func (e Waiting) Log(log Logger) {
	switch {
	case e.Over && e.Err == nil:
		log(slog.LevelInfo, "resumed", "after", e.What, "seconds", rounded(e.Since.Seconds()))
	case e.Over:
		log(slog.LevelError, "gave up", "after", e.What, "seconds", rounded(e.Since.Seconds()), "because", e.Err)
	default:
		log(slog.LevelWarn, "waiting", "for", e.What, "seconds", rounded(e.Since.Seconds()), "because", e.Err)
	}
}

// Log implements [Event].
func (e Noticed) Log(log Logger) {
	log(slog.LevelWarn, e.Text)
}

// Log implements [Event]. A log says nothing of it.
func (Rewritten) Log(Logger) {}

// levelOf returns the level of the end of a run.
func levelOf(state string) slog.Level {
	switch state {
	case schemas.Done:
		return slog.LevelInfo
	case schemas.Cancelled:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// appendMeasured appends the error and the loss of a split's rows, if there are any.
func appendMeasured(attributes []any, split string, wrong, loss *float64) []any {
	if wrong == nil || loss == nil {
		return attributes
	}
	return append(attributes, split+"_error", *wrong, split+"_loss", *loss)
}

// rounded returns seconds in whole microseconds: clocks measure no more, and people need not read nine digits.
func rounded(seconds float64) float64 { return math.Round(1e6*seconds) / 1e6 }
