// Command stagewise trains, exports and applies the models of a pipeline. It reads the configuration, opens the log, calls
// package pipeline, and shows the results. docs/configuration.md describes the keys of a configuration.
//
// The exit code is 0 for success, 1 if the run failed, and 2 if the configuration or the command line is wrong.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// The exit codes of the program.
const (
	exitDone   = 0
	exitFailed = 1
	exitWrong  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
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
		err = &failure{errors.New(interrupted(command.Name()))}
	}
	printError(command, stderr, err)
	if errors.As(err, new(*failure)) {
		return exitFailed
	}
	return exitWrong
}

func interrupted(command string) string {
	if command == "train" || command == "ingest" {
		return "interrupted; to resume, run the same command again"
	}
	return "interrupted"
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
		errors.As(err, new(*config.Error)), errors.As(err, new(schemas.Problem)), errors.As(err, new(*kernel.OpenError)),
		errors.As(err, new(*kafkalog.SecurityError)):
		return err
	}
	return &failure{err}
}
