package main

import (
	"log/slog"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// logs is the recorder that writes logs: a record for each event except those that only report progress. From the beginning of
// a run to its end each record has the id of the run.
type logs struct {
	*slog.Logger
	plain *slog.Logger // without the id of a run
}

// newLogs returns a recorder that logs to a handler.
func newLogs(handler slog.Handler) *logs {
	logger := slog.New(handler)
	return &logs{logger, logger}
}

func (l *logs) Record(e event.Event) {
	switch e := e.(type) {
	case event.Ingested:
		if e.Done {
			l.Info("ingested", "files", e.Files, "split", e.Split.String(), "rows", e.Rows, "known", e.Known)
		}
	case event.Serving:
		l.Info("serving", "metrics", "http://"+e.Address+"/metrics")
	case event.Began:
		l.Logger = l.plain.With("run", e.Run)
		l.Info("began", "resumed", e.Resumed, "stages", len(e.Stages))
	case event.Quarantined:
		l.Warn("quarantined", "partition", e.Partition, "offset", e.Offset, "reason", e.Reason)
	case event.Surveyed:
		l.Info("surveyed", "rows", e.Rows[schemas.Train], "features", e.Features, "inputs", e.Inputs, "classes", e.Classes, "passed_over", e.PassedOver, "elapsed", e.Elapsed)
	case event.Passed:
		train := e.Metrics[schemas.Train]
		attributes := []any{"stage", e.Stage, "visit", e.Visit, "pass", e.Pass, "accepted", e.Accepted, "objective", e.Objective, "train_loss", train.Loss, "train_error", train.Error}
		if test := e.Metrics[schemas.Test]; test.Rows > 0 {
			attributes = append(attributes, "test_error", test.Error, "test_loss", test.Loss)
		}
		l.Info("passed", attributes...)
	case event.StageEnded:
		attributes := []any{"stage", e.Stage, "link", e.Link, "passes", e.Passes, "seconds", e.Seconds, "train_error", e.TrainError, "train_loss", e.TrainLoss}
		if e.TestError != nil && e.TestLoss != nil {
			attributes = append(attributes, "test_error", *e.TestError, "test_loss", *e.TestLoss)
		}
		l.Info("stage ended", attributes...)
	case event.Ended:
		l.Info("ended", "state", e.State, "reason", e.Reason)
		l.Logger = l.plain
	case event.Owned:
		l.Info("owns", "partitions", e.Partitions)
	case event.Visited:
		l.Info("visited", "stage", e.Stage, "visit", e.Visit, "partitions", e.Partitions, "rows", e.Rows, "elapsed", e.Elapsed)
	case event.Sealed:
		l.Info("sealed", "stage", e.Stage, "partitions", e.Partitions, "rows", e.Rows, "elapsed", e.Elapsed)
	case event.Solved:
		l.Info("solved", "stage", e.Stage, "visit", e.Visit, "waited", e.Waited, "elapsed", e.Elapsed)
	case event.Advanced:
		l.Info("advanced", "stage", e.Stage, "visit", e.Visit)
	case event.Waiting:
		switch {
		case e.Over && e.Err == nil:
			l.Info("resumed", "after", e.What)
		case e.Over:
			l.Warn("gave up", "after", e.What, "because", e.Err)
		default:
			l.Warn("waiting", "for", e.What, "since", e.Since, "because", e.Err)
		}
	case event.Noticed:
		l.Warn(e.Text)
	}
}
