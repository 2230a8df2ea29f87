package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/cmd/stagewise/telemetry"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// configFlags are the flags that name the configuration and override its keys.
type configFlags struct {
	file string
	set  []string
	cmd  *cobra.Command
}

// pipelineOf is the annotation with the name of a command's pipeline, set when the configuration is loaded.
const pipelineOf = "pipeline"

// add defines the flags of cmd.
func (f *configFlags) add(cmd *cobra.Command) {
	f.cmd = cmd
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "read the configuration from a YAML `file`")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "override a configuration key (`key=value`), such as --set stages.0.passes=3; "+
		"repeatable")
	must(cmd.MarkFlagFilename("config", "yaml", "yml"))
	must(cmd.RegisterFlagCompletionFunc("set", func(
		_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeKeys(typed), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}))
}

// completeKeys returns the keys of the configuration that begin with the typed text, followed by =, with their
// meanings. Keys of stages contain the typed stage number, or else 0.
func completeKeys(typed string) []cobra.Completion {
	stage := "0"
	if parts := strings.Split(typed, "."); parts[0] == "stages" && len(parts) > 2 {
		stage = parts[1]
	}
	var keys []cobra.Completion
	for _, k := range config.Keys() {
		if name := strings.Replace(k.Name, "*", stage, 1) + "="; strings.HasPrefix(name, typed) {
			keys = append(keys, cobra.CompletionWithDesc(name, k.Meaning))
		}
	}
	return keys
}

// load reads and checks the configuration. The error may be a *[config.Error].
func (f *configFlags) load() (*config.Config, error) {
	c, err := config.Load(f.file, f.set)
	if err != nil {
		return nil, err
	}
	f.cmd.Annotations = map[string]string{pipelineOf: c.Name}
	if notice := c.Notice(); notice != "" {
		printLines(f.cmd, f.cmd.ErrOrStderr(), slog.LevelWarn, notice)
	}
	return c, nil
}

// call is a call of a command: its configuration, and what the command has opened.
type call struct {
	*cobra.Command
	args     []string
	config   *config.Config
	show     *displayFlags // nil for a short command, which only shows its results
	blas     *kernel.BLAS
	log      *kafkalog.Log
	recorder event.Recorder
	finish   func() // ends the display, so that results can follow
}

// pipeline returns the pipeline of the configuration.
func (c *call) pipeline() *topics.Pipeline { return topics.Open(c.log, c.config.Name, nil) }

// examples returns the pipeline with the examples as the configuration describes them.
func (c *call) examples() *topics.Pipeline { return topics.OpenFor(c.log, c.config.Job(), nil) }

// command returns a command with the flags of its configuration and its display: it loads the configuration, and calls do. A nil show is
// for a short command.
func (f *configFlags) command(use string, args cobra.PositionalArgs, show *displayFlags, do func(c *call) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Args: args}
	f.add(cmd)
	markRequired(cmd, "config")
	if show != nil {
		show.add(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.load()
		if err == nil && show != nil {
			err = show.check()
		}
		if err != nil {
			return err
		}
		return do(&call{Command: cmd, args: args, config: c, show: show})
	}
	return cmd
}

// opener opens the log of a configuration: withLog or withPipeline.
type opener func(context.Context, *config.Config, event.Recorder, func(*kafkalog.Log) error) error

// onLog returns a short command on a log. check may be nil; its error is about the command line.
func onLog(with opener, use string, args cobra.PositionalArgs, check, do func(c *call) error) *cobra.Command {
	return new(configFlags).command(use, args, nil, func(c *call) error {
		if check != nil {
			if err := check(c); err != nil {
				return err
			}
		}
		return c.session(session{with: with}, func() error { return do(c) })
	})
}

// untilEnd is the value of --until that ends a command at the end that a topic has now.
const untilEnd = "end"

// printEach prints values that a command has changed, each on a line.
func printEach[T any](c *call, values []T) {
	for _, v := range values {
		fmt.Fprintln(c.OutOrStdout(), v)
	}
}

// withLog opens the log of a configuration, calls do with it, and closes it. If do fails before it has written anything, withLog removes a
// data directory that it has created. It records the operations that are retried because brokers fail.
func withLog(ctx context.Context, c *config.Config, rec event.Recorder, do func(*kafkalog.Log) error) (err error) {
	options := c.Log()
	options.Waiting = func(w kafkalog.Wait) {
		rec.Record(event.Waiting{What: w.What, Since: w.Since, Err: w.Err, Over: w.Over})
	}
	options.Repeated = func(topic string) { rec.Record(event.Rewritten{Topic: topic}) }
	log, err := kafkalog.Open(ctx, options)
	if locked, ok := errors.AsType[*kafkalog.LockedError](err); ok {
		if locked.Listen != "" {
			return fmt.Errorf("%w: its broker listens; connect to it with --set brokers=%s", err, locked.Listen)
		}
		return fmt.Errorf("%w: the embedded broker serves a single process. Restart that process with --set listen=%s, and connect this one to "+
			"it with --set brokers=%[2]s; or use Kafka for both (key brokers; make kafka-up starts one). The page needs neither: train and "+
			"run have the flag --page", err, embeddedListen)
	}
	if err != nil {
		return err
	}
	if err := do(log); err != nil {
		return errors.Join(err, log.Discard())
	}
	return log.Close()
}

// embeddedListen is an address at which the embedded broker may listen.
const embeddedListen = "127.0.0.1:9092"

// withPipeline is withLog for commands on an existing pipeline. If the pipeline has no topics, the error says what to do.
func withPipeline(ctx context.Context, c *config.Config, rec event.Recorder, do func(*kafkalog.Log) error) error {
	return withLog(ctx, c, rec, func(log *kafkalog.Log) error {
		if err := protocol.RequirePipeline(ctx, log, c.Name); err != nil {
			return err
		}
		return do(log)
	})
}

// requireCluster returns an error if the configuration names no Kafka cluster, which other processes could reach too.
func requireCluster(c *config.Config) error {
	if len(c.Brokers) == 0 {
		return option.Problem{Key: "brokers", Value: "not set",
			Want: "the addresses of a Kafka cluster: the embedded broker serves a single process"}
	}
	return nil
}

// requireOwnExamples returns an error, which ends with why, if a configuration reads the examples of another pipeline. Commands that change
// examples call it.
func requireOwnExamples(c *config.Config, why string) error {
	if c.Examples.Topic == "" {
		return nil
	}
	want := "no value for this command: " + why
	if owner, ok := topics.OwnerOf(c.Examples.Topic); ok {
		want += "; use a configuration with name: " + owner
	}
	return option.Problem{Key: "examples.topic", Value: c.Examples.Topic, Want: want}
}

// openExamples returns a pipeline with the examples of its versions. Those of the configured pipeline are made again if they have expired.
func openExamples(log *kafkalog.Log, c *config.Config, pipeline string) *topics.Pipeline {
	if pipeline != c.Name || c.Examples.Topic != "" { // plans name another pipeline's topic
		return topics.Open(log, pipeline, nil)
	}
	return topics.OpenFor(log, c.Job(), nil)
}

// openBLAS opens the BLAS that the environment variable STAGEWISE_BLAS names, or the best one that it finds. STAGEWISE_VECTOR
// chooses the vector instructions; without it they are the best that the machine has.
func openBLAS() (*kernel.BLAS, error) {
	if err := kernel.UseVector(os.Getenv("STAGEWISE_VECTOR")); err != nil {
		return nil, fmt.Errorf("STAGEWISE_VECTOR: %w", err)
	}
	return kernel.Open(os.Getenv("STAGEWISE_BLAS"))
}

// newList returns a command that lists what read finds in a pipeline. check may be nil.
func newList[T any](check func(c *call) error, read func(context.Context, *topics.Pipeline) (T, error),
	write func(io.Writer, T)) *cobra.Command {
	return onLog(withPipeline, "list -c FILE", cobra.NoArgs, check, func(c *call) error {
		found, err := read(c.Context(), c.pipeline())
		if err == nil {
			write(c.OutOrStdout(), found)
		}
		return err
	})
}

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
	choose(cmd, &f.log, "log", "log progress to standard error in this `format`: text or json", logText, logJSON)
	choose(cmd, &f.level, "log-level", "minimum log `level`: debug, info, warn or error (default info)", "debug", "info", "warn", "error")
}

// check returns an error for a level without logs.
func (f *displayFlags) check() error {
	if f.level != "" && f.log == "" {
		return fmt.Errorf("--log-level: %s: expected --log too: only logs have levels", f.level)
	}
	return nil
}

// levelOf returns the level of logs by its name; "" is info.
func levelOf(name string) (level slog.Level) {
	_ = level.UnmarshalText([]byte(name)) // flags have been checked
	return level
}

// onScreen reports whether progress is shown on the screen.
func (f *displayFlags) onScreen() bool { return !f.quiet && f.log == "" }

// recorder returns the recorder that the flags choose for a pipeline, and a function to call after the last event. All of them write to
// standard error: the standard output is for results.
func (f *displayFlags) recorder(c *config.Config, stderr io.Writer) (recorder event.Recorder, finish func()) {
	options := &slog.HandlerOptions{Level: levelOf(f.level)}
	switch {
	case f.quiet:
		return nil, func() {}
	case f.log == logJSON:
		recorder, finish = telemetry.NewLogs(slog.NewJSONHandler(stderr, options), c.Name), func() {}
	case f.log == logText:
		recorder, finish = telemetry.NewLogs(slog.NewTextHandler(stderr, options), c.Name), func() {}
	default:
		p := screen.NewProgress(stderr, time.Now)
		recorder, finish = p.Record, p.Finish
	}
	gathered := event.NewGathered(recorder, time.Now)
	end := finish
	return event.Serialised(reasons(gathered.Record, c.Logs.Values)), func() {
		gathered.Finish()
		end()
	}
}

// session configures how a command uses the log of its configuration.
type session struct {
	role string // of a service, whose metrics are served, and which SIGTERM may end
	ends bool   // the command ends on its own: it is no service
	with opener
	// input are options that may name the standard input, which is copied to a temporary file for the session. nil means that it is not read.
	input  *ingest.Options
	solves bool // the command needs a BLAS, also for solves
	head   bool // the first lines on the screen name the pipeline and the BLAS
	page   pageFlag
	// untilSignal means that the command works until a signal ends it, which is not a failure.
	untilSignal bool
}

// minGarbage is the minimum limit of garbage: a lower limit would make collections of a small heap frequent.
const minGarbage = 64 << 20

// session opens the log of a configuration, calls do with it and with a recorder that shows what the command does, and closes it. Garbage
// is limited to a quarter of the memory that the configuration sets.
func (c *call) session(of session, do func() error) (err error) {
	service := of.role != "" && !of.ends
	if of.solves {
		if c.blas, err = openBLAS(); err != nil {
			return err
		}
		c.blas.UseForSolves()
	}
	if of.input != nil && slices.Contains(slices.Concat(of.input.Train, of.input.Test), ingest.StandardInput) {
		remove, err := of.input.Spool(c.Context(), c.InOrStdin())
		if err != nil {
			return failed(err)
		}
		defer remove()
	}
	if c.config.Memory > 0 {
		allowGarbage(c.Context(), max(int64(c.config.Memory)/4, minGarbage))
	}
	if c.recorder, c.finish = waitRecorder(c.Command), func() {}; c.show != nil {
		c.recorder, c.finish = c.show.recorder(c.config, c.ErrOrStderr())
	}
	defer c.finish()
	if service {
		var stop func()
		if c.recorder, stop, err = telemetry.Serve(c.Context(), c.config, of.role, c.recorder); err != nil {
			return err
		}
		defer stop()
	}
	err = of.with(c.Context(), c.config, c.recorder, func(log *kafkalog.Log) error {
		c.log = log
		if of.head && c.show.onScreen() {
			screen.Describe(c.ErrOrStderr(), c.config, c.blas)
		}
		unshow, err := of.page.show(c)
		if err != nil {
			return err
		}
		defer unshow()
		return do()
	})
	if service && terminated(c.Context()) || of.untilSignal && c.Context().Err() != nil {
		return nil
	}
	return failed(err)
}

// reasons returns a recorder that forwards events. Unless values is set, it removes the values of rows from the reasons of quarantined
// messages.
func reasons(to event.Recorder, values bool) event.Recorder {
	return func(e event.Event) {
		if q, ok := e.(event.Quarantined); ok && !values {
			q.Reason = schemas.WithoutValues(q.Reason)
			e = q
		}
		to.Record(e)
	}
}

// waitRecorder returns the recorder of a short command, which only shows the operations that wait for brokers.
func waitRecorder(cmd *cobra.Command) event.Recorder {
	return event.Serialised(screen.NewProgress(cmd.ErrOrStderr(), time.Now).Record)
}

// printLines writes a text to stderr line by line, as log records if the command logs JSON, so that readers of the logs
// find nothing else. It writes no notices if the command is quiet or logs only errors.
func printLines(cmd *cobra.Command, stderr io.Writer, level slog.Level, text string) {
	flag := func(name string) string {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	if level < slog.LevelError && (flag("quiet") == "true" || level < levelOf(flag("log-level"))) {
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
