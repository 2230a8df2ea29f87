package main

import (
	"log/slog"

	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

// logs is the recorder for machines: what happens, but not how far it has come.
type logs struct{ *slog.Logger }

func (l *logs) Record(e pipeline.Event) {
	switch e := e.(type) {
	case pipeline.Ingested:
		if e.Done {
			l.Info("ingested", "files", e.Files, "split", e.Split.String(), "rows", e.Rows, "known", e.Known)
		}
	case pipeline.Began:
		l.Info("began", "run", e.Run, "resumed", e.Resumed, "stages", len(e.Stages))
	case pipeline.Quarantined:
		l.Warn("quarantined", "partition", e.Partition, "offset", e.Offset, "reason", e.Reason)
	case pipeline.Surveyed:
		l.Info("surveyed", "rows", e.Rows[schemas.Train], "features", e.Features, "inputs", e.Inputs, "classes", e.Classes, "elapsed", e.Elapsed)
	case pipeline.Passed:
		train := e.Scores[schemas.Train]
		attributes := []any{"stage", e.Stage, "visit", e.Visit, "pass", e.Pass, "accepted", e.Accepted, "objective", e.Objective, "train_loss", train.Loss, "train_error", train.Error}
		if test := e.Scores[schemas.Test]; test.Rows > 0 {
			attributes = append(attributes, "test_error", test.Error, "test_loss", test.Loss)
		}
		l.Info("passed", attributes...)
	case pipeline.StageEnded:
		attributes := []any{"stage", e.Stage, "link", e.Link, "passes", e.Passes, "seconds", e.Seconds, "train_error", e.TrainError, "train_loss", e.TrainLoss}
		if e.TestError != nil && e.TestLoss != nil {
			attributes = append(attributes, "test_error", *e.TestError, "test_loss", *e.TestLoss)
		}
		l.Info("stage ended", attributes...)
	case pipeline.Ended:
		l.Info("ended", "run", e.Run, "state", e.State, "reason", e.Reason)
	case pipeline.Owned:
		l.Info("owns", "run", e.Run, "partitions", e.Partitions)
	case pipeline.Visited:
		l.Info("visited", "run", e.Run, "stage", e.Stage, "visit", e.Visit, "partitions", e.Partitions, "rows", e.Rows, "elapsed", e.Elapsed)
	case pipeline.Sealed:
		l.Info("sealed", "run", e.Run, "stage", e.Stage, "partitions", e.Partitions, "rows", e.Rows, "elapsed", e.Elapsed)
	case pipeline.Solved:
		l.Info("solved", "run", e.Run, "stage", e.Stage, "visit", e.Visit, "waited", e.Waited, "elapsed", e.Elapsed)
	case pipeline.Advanced:
		l.Info("advanced", "run", e.Run, "stage", e.Stage, "visit", e.Visit)
	case pipeline.Waiting:
		if e.Over {
			l.Info("goes on", "after", e.What)
		} else {
			l.Warn("waiting", "for", e.What, "since", e.Since, "because", e.Err)
		}
	case pipeline.Noticed:
		l.Warn(e.Text)
	}
}
