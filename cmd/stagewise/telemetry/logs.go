package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"strconv"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// logs is the recorder that writes logs: a record for each event. Each has the name of the pipeline, and from the beginning of a run
// to its end the id of the run. Errors are in percent, as in a report, and all durations in seconds.
type logs struct {
	*slog.Logger
	plain *slog.Logger // without the id of a run
}

// NewLogs returns a recorder that logs what happens in a pipeline to a handler.
func NewLogs(handler slog.Handler, pipeline string) event.Recorder {
	logger := slog.New(handler).With("pipeline", pipeline)
	return &logs{logger, logger}
}

func (l *logs) Record(e event.Event) {
	switch e := e.(type) {
	case event.Ingested:
		if e.Done {
			l.Info("ingested", "files", e.Files, "split", e.Split.String(), "rows", e.Rows, "known", e.Known)
		}
	case event.Joined:
		c := e.Counts
		l.Debug("joined", "rows", c.Rows, "absent", c.Absent, "outcomes", c.Outcomes, "without_row", c.Alone(), "late", c.Late,
			"disorder_ms", c.Disorder)
	case event.Following:
		l.Info("follows", "topic", e.Topic)
	case event.Serving:
		l.Info("serving", "metrics", "http://"+e.Address+"/metrics")
	case event.Answering:
		l.Info("answering", "url", e.URL)
	case event.Answers:
		if e.Version == 0 {
			l.Warn("no version", "because", e.Why)
		} else {
			l.Info("answers", "version", e.Version)
		}
	case event.Scored:
		l.Info("scored", "partition", e.Partition, "messages", e.Messages, "rows", e.Rows, "bad", e.Bad, "version", e.Version)
	case event.ScoringLag:
		for partition, offsets := range e.Offsets {
			l.Debug("scoring lag", "partition", partition, "offsets", offsets)
		}
	case event.PageServed:
		l.Info("shown", "url", e.URL)
	case event.Began:
		l.Logger = l.plain.With("run", e.Run)
		l.Info("began", "resumed", e.Resumed, "stages", len(e.Stages))
	case event.Retrained:
		l.retrained(e)
	case event.Replaced:
		l.Warn("replaced", "topic", e.Topic, "partition", e.Partition, "learnt_before", e.Looked, "proven_before", e.Proven, "rows", e.Rows)
	case event.ColumnLost:
		if e.Rows > 0 {
			l.Warn("column lost", "topic", e.Topic, "column", e.Column, "rows", e.Rows, "optional", e.Optional)
		}
	case event.Incomplete:
		l.Warn("incomplete version", "version", e.Version, "because", e.Why)
	case event.Expecting:
		level := slog.LevelInfo
		if e.Again {
			level = slog.LevelDebug
		}
		attributes := []any{"rows", e.Rows, "of", e.Of, "after_seconds", e.After.Seconds()}
		if e.After > 0 && !e.Until.IsZero() {
			attributes = append(attributes, "until", e.Until)
		}
		l.Log(context.Background(), level, "waits for rows", attributes...)
	case event.StoodBy:
		l.Info("stands by", "role", e.Role, "because", e.Why)
	case event.Behind:
		l.Debug("behind", "messages", e.Messages, "rows", e.Rows)
	case event.SourceLag:
		l.Debug("source lag", "topic", e.Topic, "messages", e.Messages)
	case event.Quarantined:
		l.Warn("quarantined", "topic", cmp.Or(e.Topic, "examples"), "partition", e.Partition, "offset", e.Offset, "reason", e.Reason,
			"messages", max(e.Messages, 1))
	case event.Surveyed:
		l.Info("surveyed", "rows", e.Rows[examples.Train], "features", e.Features, "inputs", e.Inputs, "classes", e.Classes,
			"passed_over", e.PassedOver, "seconds", rounded(e.Elapsed.Seconds()))
	case event.Passed:
		train := e.Metrics[examples.Train]
		attributes := []any{"stage", e.Stage, "visit", e.Visit, "pass", e.Pass, "accepted", e.Accepted, "objective", e.Objective,
			"train_loss", train.Loss, "train_error", train.Error}
		if holdout := e.Metrics[examples.Holdout]; holdout.Rows > 0 {
			attributes = append(attributes, "holdout_error", holdout.Error, "holdout_loss", holdout.Loss)
		}
		if test := e.Metrics[examples.Test]; test.Rows > 0 {
			attributes = append(attributes, "test_error", test.Error, "test_loss", test.Loss)
		}
		l.Info("passed", attributes...)
	case event.StageEnded:
		attributes := []any{"stage", e.Stage, "link", e.Link, "passes", e.Passes, "seconds", rounded(e.Seconds), "train_error", e.TrainError,
			"train_loss", e.TrainLoss}
		if e.Member > 0 {
			attributes = append(attributes, "member", e.Member)
		}
		attributes = appendMeasured(attributes, "holdout", e.HoldoutError, e.HoldoutLoss)
		l.Info("stage ended", appendMeasured(attributes, "test", e.TestError, e.TestLoss)...)
		if a := e.Average; a != nil {
			attributes := []any{"members", a.Members, "train_error", a.TrainError, "train_loss", a.TrainLoss}
			attributes = appendMeasured(attributes, "holdout", a.HoldoutError, a.HoldoutLoss)
			l.Info("members averaged", appendMeasured(attributes, "test", a.TestError, a.TestLoss)...)
		}
	case event.Followed:
		level := slog.LevelInfo
		if !e.Staff.Embedded && (len(e.Staff.Workers) == 0 || len(e.Staff.Solvers) == 0) {
			level = slog.LevelWarn
		}
		l.Log(context.Background(), level, "follows", "behind", e.Behind, "stage", e.Stage, "visit", e.Visit,
			"workers", e.Staff.Workers, "solvers", e.Staff.Solvers, "embedded", e.Staff.Embedded, "waited_seconds", rounded(e.Quiet.Seconds()))
	case event.StoodAside:
		if e.Over {
			l.Info("no longer stands aside", "for", e.Run)
		} else {
			l.Warn("stands aside", "for", e.Run, "because", e.Why)
		}
	case event.Solving:
		if e.Active {
			l.Info("solves")
		} else {
			l.Info("stands by")
		}
	case event.Progressed:
		l.Debug("progressed", "stage", e.Stage, "visit", e.Visit, "rows", e.Rows, "of", e.Of)
	case event.Ended:
		l.Log(context.Background(), levelOf(e.State), "ended", "state", e.State, "reason", e.Reason)
		l.Logger = l.plain
	case event.Owned:
		l.Info("owns", "partitions", e.Partitions)
	case event.Visited:
		l.Info("visited", "stage", e.Stage, "visit", e.Visit, "partitions", e.Partitions, "rows", e.Rows, "seconds", rounded(e.Elapsed.Seconds()))
	case event.Sealed:
		l.Info("sealed", "stage", e.Stage, "partitions", e.Partitions, "rows", e.Rows, "seconds", rounded(e.Elapsed.Seconds()))
	case event.Solved:
		l.Info("solved", "stage", e.Stage, "visit", e.Visit, "waited_seconds", rounded(e.Waited.Seconds()),
			"seconds", rounded(e.Elapsed.Seconds()))
	case event.Advanced:
		l.Info("advanced", "stage", e.Stage, "visit", e.Visit)
	case event.Waiting:
		switch {
		case e.Over && e.Err == nil:
			l.Info("resumed", "after", e.What, "seconds", rounded(e.Since.Seconds()))
		case e.Over:
			l.Error("gave up", "after", e.What, "seconds", rounded(e.Since.Seconds()), "because", e.Err)
		default:
			l.Warn("waiting", "for", e.What, "seconds", rounded(e.Since.Seconds()), "because", e.Err)
		}
	case event.Noticed:
		l.Warn(e.Text)
	}
}

// retrained logs a version of a chain. What needs an operator is a warning.
func (l *logs) retrained(e event.Retrained) {
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
	l.Log(context.Background(), level, "retrained", attributes...)
}

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
