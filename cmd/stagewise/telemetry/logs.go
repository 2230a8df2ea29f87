package telemetry

import (
	"context"
	"log/slog"

	"github.com/stagewise/stagewise/pipeline/event"
)

// logs is the recorder that writes logs. Each record has the name of the pipeline, and from the beginning of a run to its end the id of
// the run.
type logs struct {
	*slog.Logger
	plain *slog.Logger // without the id of a run
}

// NewLogs returns a recorder that logs what happens in a pipeline to a handler.
func NewLogs(handler slog.Handler, pipeline string) event.Recorder {
	logger := slog.New(handler).With("pipeline", pipeline)
	return &logs{logger, logger}
}

// Record logs an event.
func (l *logs) Record(e event.Event) {
	if began, ok := e.(event.Began); ok {
		l.Logger = l.plain.With("run", began.Run)
	}
	e.Log(func(level slog.Level, message string, attributes ...any) {
		l.Logger.Log(context.Background(), level, message, attributes...)
	})
	if _, ok := e.(event.Ended); ok {
		l.Logger = l.plain
	}
}
