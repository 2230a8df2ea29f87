// Command stagewise trains, exports and applies the models of a pipeline. It reads the configuration, opens the log, calls
// package pipeline, and shows the results. docs/configuration.md describes the keys of a configuration.
//
// The exit code is 0 for success, 1 if the run failed, 2 if the configuration or the command line is wrong, 130 if SIGINT (Ctrl-C)
// interrupted it, 143 if SIGTERM did, and 129 if SIGHUP did. A service ends with 0 after SIGTERM.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/cmd/stagewise/telemetry"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// The exit codes of the program.
const (
	exitDone        = 0
	exitFailed      = 1
	exitWrong       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells report a process that the signal ended
)

func main() {
	signals := make(chan os.Signal, 1)
	caught := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as by nohup
		caught = append(caught, syscall.SIGHUP)
	}
	signal.Notify(signals, caught...)
	ctx, cancel := context.WithCancelCause(limitGarbage(context.Background()))
	go func() {
		received := <-signals
		signal.Stop(signals) // a second signal ends the process at once
		cancel(&interruption{received})
	}()
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// interruption is the cause of an ended context: the process has received a signal.
type interruption struct{ signal os.Signal }

func (i *interruption) Error() string { return i.signal.String() }

// terminated reports whether a context ended by SIGTERM, the normal end of a service.
func terminated(ctx context.Context) bool {
	i, ok := errors.AsType[*interruption](context.Cause(ctx))
	return ok && i.signal == syscall.SIGTERM
}

// execute runs the command that args name and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &output{to: stdout}
	root := newRoot(out, stderr)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if out.err != nil {
		err = &failure{cmp.Or(err, out.err)}
	}
	if err == nil {
		return exitDone
	}
	// After a signal, err depends on the interrupted operation, so the signal is reported instead.
	if ctx.Err() != nil {
		said, name := "interrupted", command.Name()
		if name == "train" || name == "ingest" || name == "score" {
			said += "; to resume, run the same command again"
		}
		printLines(command, stderr, slog.LevelError, said)
		if i, ok := errors.AsType[*interruption](context.Cause(ctx)); ok {
			return 128 + int(i.signal.(syscall.Signal))
		}
		return exitInterrupted
	}
	printLines(command, stderr, slog.LevelError, err.Error())
	if errors.As(err, new(*failure)) {
		return exitFailed
	}
	return exitWrong
}

// output is standard output. It keeps the first error of a write, such as that of a full disk, so that commands need not return it.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// Fd returns the descriptor, by which the width of a terminal is found; an invalid one if the output is not a file.
func (o *output) Fd() uintptr {
	if f, ok := o.to.(*os.File); ok {
		return f.Fd()
	}
	return math.MaxUint
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

// newRoot returns the command stagewise with all commands below it.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := newGroup("stagewise",
		newInit(), newTrain(), newRun(), newRole(protocol.RoleWork, dispatch.Work), newRole(protocol.RoleSolve, dispatch.Solve),
		newIngest(), newPredict(), newExplain(), newServe(), newScore(), newPage(), newSearch(), newVerify(), newForget(),
		newGroup("weights", newWeightsList(), newWeightsExport(), newWeightsPin(), newWeightsRemove()),
		newGroup("runs", newList(nil, dispatch.Runs, screen.WriteRuns), newRunsShow(), newRunsCompare(), newRunsCancel()),
		newGroup("sources", newSourcesList(), newSourcesRemove()),
		newGroup("quarantine", newQuarantineList()),
		newGroup("topics", newTopicsCreate(), newTopicsList(), newTopicsApply(), newTopicsDelete()),
		newRepair(), newCheck(), newHealth(), newMan(), newVersion())
	describe(root)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(wrongFlag)
	root.PersistentPreRun = unsetEmpty
	return root
}

// help has a section for each command: its name, what it does in a line, more about it, and examples, which are indented.
//
//go:embed help.txt
var help string

// describe gives a command, and those below it, their texts. Formats of a command stand below its text.
func describe(cmd *cobra.Command) {
	_, text, found := strings.Cut(help, "# "+cmd.CommandPath()+"\n")
	if !found {
		panic("help.txt has no section of " + cmd.CommandPath())
	}
	text, _, _ = strings.Cut(text, "\n# ")
	text, examples, any := strings.Cut(text, "\n\n  ")
	short, long, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
	cmd.Short, cmd.Long = short, strings.TrimSpace(long+"\n\n"+cmd.Long)
	if any {
		cmd.Example = "  " + strings.TrimSpace(examples)
	}
	for _, below := range cmd.Commands() {
		describe(below)
	}
}

// exactly accepts one argument, given its name in the usage: a URL, a FILE.
func exactly(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return fmt.Errorf("expected one argument, %s, found %d; see %s --help", name, len(args), cmd.CommandPath())
	}
}

// newGroup returns a command that does nothing itself: the given commands are below it.
func newGroup(use string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use,
		// Without this check cobra answers an unknown command below the root with help, and without an error.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return fmt.Errorf("unknown command %q for %s; did you mean %s?", args[0], cmd.CommandPath(), strings.Join(near, " or "))
			}
			return fmt.Errorf("unknown command %q for %s; see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("no command; see %s --help", cmd.CommandPath())
		},
		// The flags after a misspelt command belong to that command. The error must name the command, not its flags.
		FParseErrWhitelist:         cobra.FParseErrWhitelist{UnknownFlags: true},
		SuggestionsMinimumDistance: 2, // cobra's own default, which it sets only after Args has run
		DisableFlagsInUseLine:      true,
	}
	cmd.AddCommand(commands...)
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, revision := telemetry.Build()
			fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace("stagewise "+version+" "+revision), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
			return nil
		},
	}
}

// newHealth returns the command for health checks in containers, which have no other program for them.
func newHealth() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health URL", Args: exactly("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.HasPrefix(args[0], "http://") && !strings.HasPrefix(args[0], "https://") {
				return fmt.Errorf("%q: expected a URL, such as http://127.0.0.1:9464/ready", args[0])
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return failed(telemetry.Ask(ctx, args[0]))
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "`time` to wait for the answer")
	return cmd
}

// newMan returns the command for packagers; make release runs it.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Args: exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return failed(err)
			}
			return failed(writeManuals(args[0], "", cmd.Root()))
		},
	}
}

// writeManuals writes the manual pages of a command and of those below it into a folder, in the macros of man(7).
func writeManuals(folder, parent string, cmd *cobra.Command) error {
	text := strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'", "\n\n", "\n.PP\n").Replace
	name, also, examples := strings.ReplaceAll(cmd.CommandPath(), " ", "-"), parent, ""
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			also += "\n.BR " + text(name+"-"+below.Name()) + " (1)"
			if err := writeManuals(folder, "\n.BR "+text(name)+" (1)", below); err != nil {
				return err
			}
		}
	}
	if cmd.Example != "" {
		examples = "\n.SH EXAMPLES\n.EX\n" + text(cmd.Example) + "\n.EE"
	}
	cmd.InitDefaultHelpFlag()
	return screen.Write(filepath.Join(folder, name+".1"), nil, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n.SH DESCRIPTION\n%s\n"+
			".SH OPTIONS\n.EX\n%s.EE%s\n.SH SEE ALSO%s\n", strings.ToUpper(name), text(name), text(cmd.Short), text(cmd.UseLine()),
			text(cmp.Or(cmd.Long, cmd.Short)), text(cmd.LocalFlags().FlagUsages()), examples, also)
		return err
	})
}
