package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/cmd/stagewise/telemetry"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
)

// displayFlags are the flags that choose how a command shows its progress. The zero value shows it on the screen.
type displayFlags struct {
	quiet bool
	log   string // logText, logJSON, or empty for no logs
	level string // of logs: debug, info, warn or error; empty: info
}

// The formats of logs.
const (
	logText = "text"
	logJSON = "json"
)

// add defines the flags of cmd. The value of f.log is the default of --log.
func (f *displayFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.quiet, "quiet", false, "show errors and requested output, such as --report -, but no progress or summary")
	cmd.Flags().StringVar(&f.log, "log", f.log, "log progress to standard error in this `format`: text or json")
	cmd.Flags().StringVar(&f.level, "log-level", "", "minimum log `level`: debug, info, warn or error (default info)")
}

func (f *displayFlags) check() error {
	if f.log != "" && f.log != logText && f.log != logJSON {
		return fmt.Errorf("--log: %s: expected text or json", f.log)
	}
	if _, ok := logLevels()[f.level]; f.level != "" && !ok {
		return fmt.Errorf("--log-level: %s: expected debug, info, warn or error", f.level)
	}
	if f.level != "" && f.log == "" {
		return fmt.Errorf("--log-level: %s: expected --log too: only logs have levels", f.level)
	}
	return nil
}

// logLevels returns the levels of logs by their names. The zero value is info.
func logLevels() map[string]slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
}

// onScreen reports whether progress is shown on the screen.
func (f *displayFlags) onScreen() bool { return !f.quiet && f.log == "" }

// recorder returns the recorder that the flags choose for a pipeline, and a function to call after the last event. All of them write to
// standard error: the standard output is for results.
func (f *displayFlags) recorder(c *config.Config, stderr io.Writer) (recorder event.Recorder, finish func()) {
	options := &slog.HandlerOptions{Level: logLevels()[f.level]}
	switch {
	case f.quiet:
		return event.Ignore{}, func() {}
	case f.log == logJSON:
		recorder, finish = telemetry.NewLogs(slog.NewJSONHandler(stderr, options), c.Name), func() {}
	case f.log == logText:
		recorder, finish = telemetry.NewLogs(slog.NewTextHandler(stderr, options), c.Name), func() {}
	default:
		p := screen.NewProgress(stderr, time.Now)
		recorder, finish = p, p.Finish
	}
	gathered := event.NewGathered(recorder, time.Now)
	end := finish
	return event.Serialised(reasons{gathered, c.Logs.Values}), func() {
		gathered.Finish()
		end()
	}
}

// session opens the log of a configuration, calls do with it and with a recorder that shows what the command does, and closes it. finish
// ends what is shown, so that results can follow. role is that of a service, whose metrics are served, and which SIGTERM may end; "": none.
func (f *displayFlags) session(cmd *cobra.Command, c *config.Config, role string,
	with func(context.Context, *config.Config, event.Recorder, func(*kafkalog.Log) error) error,
	do func(log *kafkalog.Log, recorder event.Recorder, finish func()) error) error {
	recorder, finish := f.recorder(c, cmd.ErrOrStderr())
	defer finish()
	if role != "" {
		var stop func()
		var err error
		if recorder, stop, err = telemetry.Serve(cmd.Context(), c, role, recorder); err != nil {
			return err
		}
		defer stop()
	}
	err := with(cmd.Context(), c, recorder, func(log *kafkalog.Log) error { return do(log, recorder, finish) })
	if role != "" && terminated(cmd.Context()) {
		return nil
	}
	return failed(err)
}

// reasons passes events on, without values of rows in the reasons why messages can't be used unless they are wanted.
type reasons struct {
	to     event.Recorder
	values bool
}

// Record implements [event.Recorder].
func (r reasons) Record(e event.Event) {
	if q, ok := e.(event.Quarantined); ok && !r.values {
		q.Reason = schemas.WithoutValues(q.Reason)
		e = q
	}
	r.to.Record(e)
}

// waitRecorder returns the recorder of a short command, which only shows the operations that wait for brokers.
func waitRecorder(cmd *cobra.Command) event.Recorder {
	return event.Serialised(screen.NewProgress(cmd.ErrOrStderr(), time.Now))
}

// printLines writes a text to stderr, a line for each line of it: as a log if the command logs JSON, so that whoever reads the logs finds
// nothing else there. It writes no notices if the command is quiet or logs errors only.
func printLines(cmd *cobra.Command, stderr io.Writer, level slog.Level, text string) {
	flag := func(name string) string {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	if level < slog.LevelError && (flag("quiet") == "true" || level < logLevels()[flag("log-level")]) {
		return
	}
	print := func(line string) { fmt.Fprintf(stderr, "stagewise: %s\n", line) }
	if flag("log") == logJSON {
		logger := slog.New(slog.NewJSONHandler(stderr, nil))
		if name, ok := cmd.Annotations[pipelineOf]; ok {
			logger = logger.With("pipeline", name)
		}
		print = func(line string) { logger.Log(cmd.Context(), level, line) }
	}
	for line := range strings.Lines(text) {
		print(strings.TrimSpace(line))
	}
}
