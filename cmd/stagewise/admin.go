package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

func newTopics() *cobra.Command {
	return newGroup("topics", newTopicsCreate(), newTopicsList(), newTopicsApply(), newTopicsDelete())
}

func newTopicsCreate() *cobra.Command {
	return onLog(withLog, &cobra.Command{
		Use: "create -c FILE", Args: cobra.NoArgs,
	}, nil, func(cmd *cobra.Command, _ []string, c *config.Config, log *kafkalog.Log) error {
		return topics.CreateTopics(cmd.Context(), topics.OpenFor(log, c.Job(), nil), c.Job(), waitRecorder(cmd))
	})
}

func newTopicsList() *cobra.Command {
	return onLog(withLog, &cobra.Command{
		Use: "list -c FILE", Args: cobra.NoArgs,
	}, nil, func(cmd *cobra.Command, _ []string, c *config.Config, log *kafkalog.Log) error {
		found, err := topics.ReadSettings(cmd.Context(), topics.Open(log, c.Name, nil), c.Job())
		if err != nil {
			return err
		}
		if err := screen.WriteTopics(cmd.OutOrStdout(), found.Topics); err != nil {
			return err
		}
		return errors.Join(append([]error{screen.WriteDifferences(cmd.OutOrStdout(), found.Differences)}, found.Wrong...)...)
	})
}

func newTopicsApply() *cobra.Command {
	var dry bool
	cmd := onLog(withLog, &cobra.Command{
		Use: "apply -c FILE", Args: cobra.NoArgs,
	}, nil, func(cmd *cobra.Command, _ []string, c *config.Config, log *kafkalog.Log) error {
		found, err := topics.ReadSettings(cmd.Context(), topics.Open(log, c.Name, nil), c.Job())
		if err != nil {
			return err
		}
		if dry {
			return screen.WriteDifferences(cmd.OutOrStdout(), found.Differences)
		}
		applied, err := topics.Apply(cmd.Context(), log, found.Differences)
		for _, d := range applied {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s is %s now, it was %s\n", d.Topic, d.Name, d.Configured, d.Has)
		}
		return err
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the differences without applying them")
	return cmd
}

func topicNames(c *config.Config) []string {
	var names []string
	for _, t := range topics.Topics(c.Job()) {
		names = append(names, t.Name)
	}
	return append(names, protocol.TopicsOf(c.Name).Predictions) // of score, if it was used
}

func newTopicsDelete() *cobra.Command {
	var yes, force bool
	cmd := onLog(withLog, &cobra.Command{
		Use: "delete -c FILE", Args: cobra.NoArgs,
	}, nil, func(cmd *cobra.Command, _ []string, c *config.Config, log *kafkalog.Log) error {
		client := protocol.NewClient(log, c.Name, nil)
		var names []string
		var table screen.Table
		found, err := log.Topics(cmd.Context(), c.Name+".")
		if err != nil {
			return err
		}
		owned := topicNames(c)
		for _, t := range found {
			if topics.IsBeside(c.Name, t.Name) {
				owned = append(owned, t.Name)
			}
		}
		for _, name := range owned {
			if !slices.ContainsFunc(found, func(t kafkalog.Topic) bool { return t.Name == name }) {
				continue
			}
			spans, err := client.Log.Spans(cmd.Context(), name)
			if err != nil {
				return err
			}
			messages := int64(0)
			for _, s := range spans {
				messages += s.Len()
			}
			names = append(names, name)
			table.Row(name, english.Plural(int(messages), "message", ""))
		}
		if len(names) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s has no topics\n", c.Name)
			return nil
		}
		if !force {
			if err := checkNobodyWorks(cmd.Context(), log, c.Name, c.Brokers); err != nil {
				return err
			}
		}
		if !yes {
			if err := table.Write(cmd.ErrOrStderr()); err != nil {
				return err
			}
			if err := confirm(cmd, len(names)); err != nil {
				return err
			}
		}
		if err := log.Delete(cmd.Context(), names...); err != nil {
			return err
		}
		for _, name := range names {
			fmt.Fprintf(cmd.OutOrStdout(), "%s no longer exists\n", name)
		}
		return nil
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without confirmation")
	cmd.Flags().BoolVar(&force, "force", false, "delete even while processes work on the pipeline")
	return cmd
}

// checkNobodyWorks returns an error if a process works on a pipeline, or if that is unknown.
func checkNobodyWorks(ctx context.Context, log *kafkalog.Log, pipeline string, brokers []string) error {
	if log.Embedded() { // no other process has it
		return nil
	}
	embedded, err := log.IsEmbedded(ctx)
	if err != nil {
		return err
	}
	if embedded {
		return fmt.Errorf("nothing is deleted: the process at %s, which runs the embedded broker, works on %s: stop it and leave out "+
			"brokers, or use --force", strings.Join(brokers, ", "), pipeline)
	}
	t := protocol.TopicsOf(pipeline)
	var working []string
	for _, role := range []string{protocol.RoleIngest, protocol.RoleRun, protocol.RoleWork, protocol.RoleSolve, protocol.RoleScore} {
		hosts, err := log.Members(ctx, t.Group(role))
		if err != nil {
			return fmt.Errorf("nothing is deleted: the processes that work on %s are unknown: %w; --force deletes anyway", pipeline, err)
		}
		if len(hosts) > 0 {
			working = append(working, fmt.Sprintf("stagewise %s on %s", role, english.WordSeries(hosts, "and")))
		}
	}
	if len(working) > 0 {
		return fmt.Errorf("nothing is deleted: %s works on %s: stop it, or use --force", english.WordSeries(working, "and"), pipeline)
	}
	return nil
}

// confirm asks whether to delete topics, and returns an error unless the answer is yes.
func confirm(cmd *cobra.Command, n int) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "Permanently delete %s? (y/N) ", english.PluralWord(n, "this topic", fmt.Sprintf("these %d topics", n)))
	answers := make(chan string, 1)
	go func() { // it ends with the answer, or with the process, which an interruption ends
		answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // unreadable input is not a yes
		answers <- answer
	}()
	select {
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return errors.New("nothing is deleted; --yes deletes without confirmation")
	case <-cmd.Context().Done():
		return cmd.Context().Err()
	}
}

func newWeights() *cobra.Command {
	return newGroup("weights", newWeightsList(), newWeightsExport(), newWeightsPin(), newWeightsRemove())
}

func newWeightsList() *cobra.Command {
	var asJSON bool
	read := func(ctx context.Context, p *topics.Pipeline) ([]protocol.Finished, error) { return p.Versions(ctx) }
	write := func(w io.Writer, versions []protocol.Finished) error {
		if asJSON {
			return screen.WriteVersionsJSON(w, versions)
		}
		return screen.WriteVersions(w, versions)
	}
	cmd := newList(&cobra.Command{Use: "list -c FILE"}, nil, read, write)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a line of JSON for each version: offered, written, manifest")
	return cmd
}

func newWeightsPin() *cobra.Command {
	var off bool
	cmd := onLog(withPipeline, &cobra.Command{
		Use: "pin -c FILE (VERSION | --off)", Args: cobra.MaximumNArgs(1),
	}, func(_ *config.Config, args []string) error {
		if off == (len(args) == 1) {
			return errors.New("expected a version or --off; see weights list")
		}
		return nil
	}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
		if off {
			return unpin(cmd, log, c.Name)
		}
		pinned, err := topics.Pin(cmd.Context(), topics.Open(log, c.Name, nil), args[0])
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), pinned)
		}
		return err
	})
	cmd.Flags().BoolVar(&off, "off", false, "unpin the pinned version")
	return cmd
}

// unpin removes the pin, and prints the number of the version that subscribers then get.
func unpin(cmd *cobra.Command, log *kafkalog.Log, name string) error {
	before, latest, err := topics.Unpin(cmd.Context(), topics.Open(log, name, nil))
	if err != nil {
		return err
	}
	if before == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no version was pinned")
	}
	if latest == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no version is offered: subscribers get none as "+protocol.Latest)
		return nil
	}
	fmt.Fprintln(cmd.OutOrStdout(), latest)
	return nil
}

func newWeightsRemove() *cobra.Command {
	var evenLatest bool
	cmd := onLog(withPipeline, &cobra.Command{Use: "remove -c FILE VERSION…"}, func(_ *config.Config, args []string) error {
		if len(args) == 0 {
			return errors.New("expected versions; see weights list")
		}
		return nil
	}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
		removed, err := topics.RemoveVersions(cmd.Context(), topics.Open(log, c.Name, nil), args, evenLatest)
		printEach(cmd, removed)
		return err
	})
	cmd.Flags().BoolVar(&evenLatest, "even-latest", false, "also remove a pinned version, or the newest offered one")
	return cmd
}

func newWeightsExport() *cobra.Command {
	var (
		from                               configFlags
		version, modelFile, output, format string
	)
	cmd := &cobra.Command{
		Use: "export (-c FILE | --model FILE) -o FILE", Args: cobra.NoArgs, Long: formats(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			export, _ := model.ExportNamed(cmp.Or(format, model.ExportOfFile(output)))
			write := func(m *model.Model, err error) error {
				if err != nil {
					return err
				}
				return screen.Write(output, cmd.OutOrStdout(), func(w io.Writer) error { return export.Write(w, m) })
			}
			if modelFile != "" {
				return failed(write(readModel(modelFile)))
			}
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				return write(topics.Open(log, c.Name, nil).Model(cmd.Context(), cmp.Or(version, protocol.Latest)))
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().StringVar(&version, "version", "", "the `version` to export: a version number, a run id, or "+protocol.Latest+
		", the pinned version or else the newest offered one (default "+protocol.Latest+")")
	cmd.Flags().StringVar(&modelFile, "model", "", "export the model in a `file`, without connecting to brokers")
	choose(cmd, &format, "format", "output `format`: "+strings.Join(model.ExportNames(), ", ")+"; default: by the extension of the file, or "+
		"else "+model.ExportNames()[0], model.ExportNames()...)
	new(outputs).add(cmd, &output, "output", "o", "write the model to a `file` (-: standard output)")
	markRequired(cmd, "output")
	cmd.MarkFlagsOneRequired("config", "model")
	excludes(cmd, "model", "it selects the version, and needs no configuration", "config", "version", "set")
	return cmd
}

// formats returns the formats as lines of a help text.
func formats() string {
	var lines []string
	for _, f := range model.Exports() {
		lines = append(lines, fmt.Sprintf("  %-13s%s", f.Name, f.Doc))
	}
	return strings.Join(lines, "\n")
}

func newRuns() *cobra.Command {
	return newGroup("runs", newRunsList(), newRunsShow(), newRunsCompare(), newRunsCancel())
}

func newRunsList() *cobra.Command {
	return newList(&cobra.Command{Use: "list -c FILE"}, nil, dispatch.Runs, screen.WriteRuns)
}

func newRunsCancel() *cobra.Command {
	var all bool
	cmd := onLog(withPipeline, &cobra.Command{
		Use: "cancel -c FILE (RUN | --all)", Args: cobra.MaximumNArgs(1),
	}, func(_ *config.Config, args []string) error {
		if all == (len(args) == 1) || len(args) == 1 && args[0] == "" {
			return errors.New("expected a run id or --all; see runs list")
		}
		return nil
	}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
		cancelled, err := dispatch.Cancel(cmd.Context(), topics.Open(log, c.Name, nil), strings.Join(args, "")) // "": all
		printEach(cmd, cancelled)
		return err
	})
	cmd.Flags().BoolVar(&all, "all", false, "cancel all unfinished runs")
	return cmd
}

func newRunsShow() *cobra.Command {
	var html string
	cmd := onLog(withPipeline, &cobra.Command{
		Use: "show -c FILE RUN", Args: exactly("RUN"),
	}, nil, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
		runs, err := dispatch.Describe(cmd.Context(), log, c.Name, args...)
		if err != nil {
			return err
		}
		if html != "" {
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			open := func(pipeline string) *topics.Pipeline { return openExamples(log, c, pipeline) }
			list := screen.Compared(runs)
			if err := screen.AddLearnt(cmd.Context(), &list[0], open, blas, &runs[0]); err != nil {
				return err
			}
			if err := writePage(cmd, html, screen.AboutRun(list[0], runs[0]), list); err != nil {
				return err
			}
		}
		if html == screen.StandardOutput {
			return nil
		}
		return screen.WriteRun(cmd.OutOrStdout(), &runs[0])
	})
	new(outputs).add(cmd, &html, "html", "", "write the run as a page to a `file` (-: standard output)")
	return cmd
}

func newRunsCompare() *cobra.Command {
	html, by := "", screen.ByError
	cmd := onLog(withPipeline, &cobra.Command{Use: "compare -c FILE RUN RUN…"}, func(_ *config.Config, args []string) error {
		if len(args) < 2 {
			return errors.New("expected two or more runs: run ids or version numbers; see runs list and weights list")
		}
		return nil
	}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
		runs, err := dispatch.Describe(cmd.Context(), log, c.Name, args...)
		if err != nil {
			return err
		}
		list, order := screen.Compared(runs), page.Order{By: by}
		if html != "" {
			if err := writePage(cmd, html, screen.AboutRuns(runs, by), list); err != nil {
				return err
			}
		}
		if html == screen.StandardOutput {
			return nil
		}
		if cmd.Flags().Changed("by") {
			list = order.Sorted(list)
		}
		return screen.WriteCompared(cmd.OutOrStdout(), list, order)
	})
	choose(cmd, &by, "by", "sort by this `measure` of the holdout rows, or without any of the test rows; without --by only the page is "+
		"sorted: error, loss, auc, average_precision or balanced_error", page.Orders()...)
	new(outputs).add(cmd, &html, "html", "", "write the comparison as a page to a `file` (-: standard output)")
	return cmd
}

// writePage writes a page about runs to a file.
func writePage(cmd *cobra.Command, file string, about page.About, runs []page.Compared) error {
	return screen.Write(file, cmd.OutOrStdout(), func(w io.Writer) error { return page.WritePage(w, about, runs) })
}

func newSources() *cobra.Command {
	return newGroup("sources", newSourcesList(), newSourcesRemove())
}

func newSourcesList() *cobra.Command {
	own := func(c *config.Config, _ []string) error {
		return requireOwnExamples(c, "list the sources of the pipeline that owns it")
	}
	return newList(&cobra.Command{Use: "list -c FILE"}, own, source.Sources, screen.WriteSources)
}

func newSourcesRemove() *cobra.Command {
	return onLog(withPipeline, &cobra.Command{Use: "remove -c FILE SOURCE…"}, func(c *config.Config, args []string) error {
		if len(args) == 0 && c.Examples.Topic == "" {
			return errors.New("expected source ids, or their first digits; see sources list")
		}
		return requireOwnExamples(c, "only the pipeline that owns it removes sources")
	}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
		removed, err := source.RemoveSources(cmd.Context(), topics.Open(log, c.Name, nil), args)
		for _, s := range removed {
			if id := wire.Digest(s.ID).Short(); s.State == source.Removed {
				fmt.Fprintf(cmd.ErrOrStderr(), "source %s (%s) was already removed\n", id, strings.Join(s.Files, ", "))
			} else {
				fmt.Fprintln(cmd.OutOrStdout(), id)
			}
		}
		return err
	})
}

func newQuarantine() *cobra.Command {
	return newGroup("quarantine", newQuarantineList())
}

func newQuarantineList() *cobra.Command {
	values := false
	return newList(&cobra.Command{Use: "list -c FILE"}, func(c *config.Config, _ []string) error {
		values = c.Logs.Values
		return nil
	}, func(ctx context.Context, p *topics.Pipeline) ([]source.QuarantineReason, error) {
		return source.Quarantine(ctx, p, values)
	}, screen.WriteQuarantine)
}

func newForget() *cobra.Command {
	var (
		what   source.ToForget
		report string
	)
	cmd := onLog(withPipeline, &cobra.Command{Use: "forget -c FILE ROW…"}, func(c *config.Config, args []string) error {
		if err := requireOwnExamples(c, "forget rows in the pipeline that owns it, and the next run here excludes them"); err != nil {
			return err
		}
		what.Answers = c.Serve.Answers.Topic
		if len(args)+len(what.Sources)+len(what.Keys) == 0 && what.Lost == "" {
			return errors.New("expected rows, --source, --key or --lost")
		}
		for _, arg := range args {
			if err := what.AddRows(protocol.TopicsOf(c.Name).Examples, c.Examples.FromTopic, arg); err != nil {
				return err
			}
		}
		return nil
	}, func(cmd *cobra.Command, _ []string, c *config.Config, log *kafkalog.Log) error {
		if o := c.Examples.Outcome; o.Topic != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "rows that wait for their outcomes are not forgotten: repeat the command in %v\n", o.Within+o.Grace)
		}
		done, err := source.Forget(cmd.Context(), topics.OpenFor(log, c.Job(), nil), c.Job(), what)
		if done == nil {
			return err
		}
		if report != screen.StandardOutput {
			err = errors.Join(err, screen.WriteForgot(cmd.OutOrStdout(), done, what.Now))
		}
		return errors.Join(err, screen.WriteJSON(report, cmd.OutOrStdout(), struct {
			*source.Forgot
			Unlisted string `json:"unlisted"`
		}{done, "copies of model files and exports: no list of them is kept"}))
	})
	cmd.Flags().StringArrayVar(&what.Sources, "source", nil, "all rows of a source, given by its id or the first digits; see sources "+
		"list")
	cmd.Flags().StringArrayVar(&what.Keys, "key", nil,
		"all rows of the messages with this key, on the examples topic or on the topic that they were ingested from")
	choose(cmd, &what.Lost, "lost", "if the forget topic has lost rows: restore the rows that versions name, or drop them, so that runs "+
		"learn them again", source.RestoreLost, source.DropLost)
	new(outputs).add(cmd, &report, "report", "", "write what was forgotten, and where data of it stays, as JSON to a `file` (-: standard "+
		"output)")
	cmd.Flags().BoolVar(&what.Now, "now", false, "remove affected versions first, even the one that subscribers get as latest")
	return cmd
}

func newRepair() *cobra.Command {
	return new(configFlags).command(&cobra.Command{
		Use: "repair -c FILE", Args: cobra.NoArgs,
	}, nil, func(cmd *cobra.Command, _ []string, c *config.Config) error {
		if len(c.Brokers) > 0 {
			return option.Problem{Key: "brokers", Value: strings.Join(c.Brokers, ", "),
				Want: "no value: repair is for the files of the embedded broker"}
		}
		repaired, err := kafkalog.Repair(cmd.Context(), c.DataDir)
		screen.WriteRepaired(cmd.OutOrStdout(), repaired)
		if _, locked := errors.AsType[*kafkalog.LockedError](err); locked {
			err = fmt.Errorf("%w: stop that process first", err)
		}
		if err != nil {
			return failed(fmt.Errorf("repair the log in %s: %w", c.DataDir, err))
		}
		if len(repaired) == 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "the log in %s is intact\n", c.DataDir)
		}
		return nil
	})
}
