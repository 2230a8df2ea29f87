package event

import (
	"cmp"
	"log/slog"
	"math"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Logger writes a record to a log.
type Logger func(level slog.Level, message string, attributes ...any)

// at returns the function that logs records of a level.
func (log Logger) at(level slog.Level) func(message string, attributes ...any) {
	return func(message string, attributes ...any) { log(level, message, attributes...) }
}

// Log calls log for each log record of an event, with attributes in the form of [slog.Logger.Log]: errors are in percent, as in a
// report, and durations in seconds.
func Log(e Event, log Logger) {
	debug, info, warn := log.at(slog.LevelDebug), log.at(slog.LevelInfo), log.at(slog.LevelWarn)
	switch e := e.(type) {
	case Ingested:
		if e.Done {
			info("ingested", "files", e.Files, "split", e.Split.String(), "rows", e.Rows, "known", e.Known)
		}
	case Joined:
		c := e.Counts
		debug("joined", "rows", c.Rows, "absent", c.Absent, "outcomes", c.Outcomes, "without_row", c.Alone(), "late", c.Late,
			"disorder_ms", c.Disorder)
	case Following:
		info("follows", "topic", e.Topic)
	case Serving:
		info("serving", "metrics", "http://"+e.Address+"/metrics")
	case Answering:
		info("answering", "url", e.URL)
	case Answers:
		if e.Version == 0 {
			warn("no version", "because", e.Why)
		} else {
			info("answers", "version", e.Version)
		}
	case Scored:
		info("scored", "partition", e.Partition, "messages", e.Messages, "rows", e.Rows, "bad", e.Bad, "version", e.Version)
	case ScoringLag:
		for partition, offsets := range e.Offsets {
			debug("scoring lag", "partition", partition, "offsets", offsets)
		}
	case PageServed:
		info("shown", "url", e.URL)
	case Began:
		info("began", "resumed", e.Resumed, "stages", len(e.Stages))
	case Retrained:
		retrainedRecord(e, log)
	case Replaced:
		warn("replaced", "topic", e.Topic, "partition", e.Partition, "learnt_before", e.Looked,
			"proven_before", e.Proven, "rows", e.Rows)
	case Lost:
		warn("lost messages", "topic", e.Topic, "partition", e.Partition, "from", e.From, "to", e.To, "messages", e.To-e.From)
	case ColumnLost:
		if e.Rows > 0 {
			warn("column lost", "topic", e.Topic, "file", e.File, "column", e.Column, "rows", e.Rows,
				"optional", e.Optional)
		}
	case Incomplete:
		warn("incomplete version", "version", e.Version, "because", e.Why)
	case Expecting:
		level := slog.LevelInfo
		if e.Again {
			level = slog.LevelDebug
		}
		attributes := []any{"rows", e.Rows, "of", e.Of, "after_seconds", e.After.Seconds()}
		if e.After > 0 && !e.Until.IsZero() {
			attributes = append(attributes, "until", e.Until)
		}
		log(level, "waits for rows", attributes...)
	case StoodBy:
		info("stands by", "role", e.Role, "because", e.Why)
	case Behind:
		debug("behind", "messages", e.Messages, "rows", e.Rows)
	case SourceLag:
		debug("source lag", "topic", e.Topic, "messages", e.Messages)
	case Quarantined:
		warn("quarantined", "topic", cmp.Or(e.Topic, "examples"), "partition", e.Partition, "offset", e.Offset, "reason", e.Reason,
			"messages", max(e.Messages, 1))
	case Surveyed:
		info("surveyed", "rows", e.Rows[examples.Train], "features", e.Features, "inputs", e.Inputs, "classes", e.Classes,
			"passed_over", e.PassedOver, "seconds", rounded(e.Elapsed.Seconds()))
	case Passed:
		passedRecord(e, log)
	case StageEnded:
		stageEndedRecord(e, log)
	case Followed:
		level := slog.LevelInfo
		if !e.Staff.Embedded && (len(e.Staff.Workers) == 0 || len(e.Staff.Solvers) == 0) {
			level = slog.LevelWarn
		}
		log(level, "follows", "behind", e.Behind, "stage", e.Stage, "visit", e.Visit,
			"workers", e.Staff.Workers, "solvers", e.Staff.Solvers, "embedded", e.Staff.Embedded, "waited_seconds", rounded(e.Quiet.Seconds()))
	case StoodAside:
		if e.Over {
			info("no longer stands aside", "for", e.Run)
		} else {
			warn("stands aside", "for", e.Run, "because", e.Why)
		}
	case Solving:
		if e.Active {
			info("solves")
		} else {
			info("stands by")
		}
	case Progressed:
		debug("progressed", "stage", e.Stage, "visit", e.Visit, "rows", e.Rows, "of", e.Of)
	case Ended:
		log(levelOf(e.State), "ended", "state", e.State, "reason", e.Reason)
	case Owned:
		info("owns", "partitions", e.Partitions)
	case Visited:
		info("visited", "stage", e.Stage, "visit", e.Visit, "partitions", e.Partitions, "rows", e.Rows,
			"seconds", rounded(e.Elapsed.Seconds()))
	case Sealed:
		info("sealed", "stage", e.Stage, "partitions", e.Partitions, "rows", e.Rows, "seconds", rounded(e.Elapsed.Seconds()))
	case Solved:
		info("solved", "stage", e.Stage, "visit", e.Visit, "waited_seconds", rounded(e.Waited.Seconds()),
			"seconds", rounded(e.Elapsed.Seconds()))
	case Advanced:
		info("advanced", "stage", e.Stage, "visit", e.Visit)
	case Waiting:
		switch {
		case e.Over && e.Err == nil:
			info("resumed", "after", e.What, "seconds", rounded(e.Since.Seconds()))
		case e.Over:
			log(slog.LevelError, "gave up", "after", e.What, "seconds", rounded(e.Since.Seconds()), "because", e.Err)
		default:
			warn("waiting", "for", e.What, "seconds", rounded(e.Since.Seconds()), "because", e.Err)
		}
	case Noticed:
		warn(e.Text)
	case Rewritten: // a metric counts them
	}
}

// retrainedRecord logs another version of a chain.
func retrainedRecord(e Retrained, log Logger) {
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

// passedRecord logs a reduced visit.
func passedRecord(e Passed, log Logger) {
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

// stageEndedRecord logs the end of a stage, and the average of members after it.
func stageEndedRecord(e StageEnded, log Logger) {
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
