// Command stagewise is the mouth of the system: it reads the configuration, opens the log, has the pipeline do the work,
// and tells people what became of it. See docs/configuration.md for the keys.
//
// It exits with 0 when it is done, 1 when the run failed, 2 when the configuration or the command line is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

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

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	// What fails because it was told to end has many names, by where it was.
	if ctx.Err() != nil {
		err = &failure{errors.New(interrupted(command.Name()))}
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "stagewise: %s\n", strings.TrimSpace(line))
	}
	if errors.As(err, new(*failure)) {
		return exitFailed
	}
	return exitWrong
}

func interrupted(command string) string {
	if command == "train" || command == "ingest" {
		return "interrupted; the same command goes on where it was"
	}
	return "interrupted"
}

// failure is an error of a command that was right. All others are of the command line, as cobra's are, or of the
// configuration.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// failed makes a failure of what went wrong after the configuration was read, unless that is to blame after all.
func failed(err error) error {
	switch {
	case err == nil,
		errors.As(err, new(*config.Error)), errors.As(err, new(schemas.Problem)), errors.As(err, new(*kernel.OpenError)),
		errors.As(err, new(*kafkalog.SecurityError)):
		return err
	}
	return &failure{err}
}
