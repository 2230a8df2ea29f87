// Command stagewise trains, exports and applies the models of a pipeline. It reads the configuration, opens the log, calls
// package pipeline, and shows the results. docs/configuration.md describes the keys of a configuration.
//
// The exit code is 0 for success, 1 if the run failed, 2 if the configuration or the command line is wrong, 130 if SIGINT (Ctrl-C)
// interrupted it, and 143 if SIGTERM did. A service ends with 0 after SIGTERM.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/memorylimit"
	"github.com/stagewise/stagewise/internal/option"
)

// The exit codes of the program.
const (
	exitDone        = 0
	exitFailed      = 1
	exitWrong       = 2
	exitInterrupted = 130 // 128 + SIGINT, as a shell says of a process that the signal has ended
	exitTerminated  = 143 // 128 + SIGTERM
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(memorylimit.Garbage(context.Background()))
	go func() {
		received := <-signals
		signal.Stop(signals) // a second signal ends the process at once
		cancel(&interruption{received})
	}()
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// interruption is why a context ended: the process has received a signal.
type interruption struct{ signal os.Signal }

func (i *interruption) Error() string { return i.signal.String() }

// terminated reports whether a context ended by SIGTERM, by which services are ended: that is no failure of theirs.
func terminated(ctx context.Context) bool {
	i, ok := errors.AsType[*interruption](context.Cause(ctx))
	return ok && i.signal == syscall.SIGTERM
}

// execute runs the command that args name and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	// After a signal, err depends on what was under way. The signal is what the user wants to read about.
	if ctx.Err() != nil {
		printLines(command, stderr, slog.LevelError, interrupted(command.Name()).Error())
		if terminated(ctx) {
			return exitTerminated
		}
		return exitInterrupted
	}
	printLines(command, stderr, slog.LevelError, err.Error())
	if errors.As(err, new(*failure)) {
		return exitFailed
	}
	return exitWrong
}

func interrupted(command string) error {
	if command == "train" || command == "ingest" || command == "score" {
		return errors.New("interrupted; to resume, run the same command again")
	}
	return errors.New("interrupted")
}

// failure is an error that neither the configuration nor the command line caused. It makes the exit code 1. All other errors,
// cobra's included, make it 2.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// failed wraps an error of a command that has read its configuration in a failure, unless the configuration is the cause
// after all: some values are only checked when they are used.
func failed(err error) error {
	switch {
	case err == nil,
		errors.As(err, new(*config.Error)), errors.As(err, new(option.Problem)), errors.As(err, new(*kernel.OpenError)),
		errors.As(err, new(*kernel.VectorError)):
		return err
	}
	return &failure{err}
}
