package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/pipeline/run/event"
)

// displayFlags are the flags that choose how a command shows its progress. The zero value shows it on the screen.
type displayFlags struct {
	quiet bool
	log   string // text, json, or empty for no logs
}

// add defines the flags of cmd. The value of f.log is the default of --log.
func (f *displayFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.quiet, "quiet", false, "print nothing but errors")
	cmd.Flags().StringVar(&f.log, "log", f.log, "show progress as logs on standard error, in this `format`: text or json")
}

func (f *displayFlags) check() error {
	if f.log != "" && f.log != "text" && f.log != "json" {
		return fmt.Errorf("--log: %s: expected text or json", f.log)
	}
	return nil
}

// onScreen reports whether progress is shown on the screen.
func (f *displayFlags) onScreen() bool { return !f.quiet && f.log == "" }

// recorder returns the recorder that the flags choose, and a function to call after the last event.
func (f *displayFlags) recorder(out, stderr io.Writer) (recorder event.Recorder, finish func()) {
	switch {
	case f.quiet:
		return event.Ignore{}, func() {}
	case f.log == "json":
		return event.Serialised(newLogs(slog.NewJSONHandler(stderr, nil))), func() {}
	case f.log == "text":
		return event.Serialised(newLogs(slog.NewTextHandler(stderr, nil))), func() {}
	}
	p := newProgress(out, stderr, time.Now)
	return event.Serialised(p), p.finish
}

// waitRecorder returns the recorder of a short command, which only shows the operations that wait for brokers.
func waitRecorder(cmd *cobra.Command) event.Recorder {
	return event.Serialised(newProgress(cmd.ErrOrStderr(), io.Discard, time.Now))
}
