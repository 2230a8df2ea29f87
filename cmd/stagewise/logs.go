package main

import (
	"log/slog"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// logs is the recorder for machines: what happens, but not how far it has come. Between a run's begin and its end all lines
// name it.
type logs struct {
	*slog.Logger
	all *slog.Logger // of no run
}

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
		l.Logger = l.all.With("run", e.Run)
		l.Info("began", "resumed", e.Resumed, "stages", len(e.Stages))
	case event.Quarantined:
		l.Warn("quarantined", "partition", e.Partition, "offset", e.Offset, "reason", e.Reason)
	case event.Surveyed:
		l.Info("surveyed", "rows", e.Rows[schemas.Train], "features", e.Features, "inputs", e.Inputs, "classes", e.Classes, "elapsed", e.Elapsed)
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
		l.Logger = l.all
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
		if e.Over {
			l.Info("goes on", "after", e.What)
		} else {
			l.Warn("waiting", "for", e.What, "since", e.Since, "because", e.Err)
		}
	case event.Noticed:
		l.Warn(e.Text)
	}
}
