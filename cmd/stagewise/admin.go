package main

import (
	"bufio"
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

func newTopicsCreate() *cobra.Command {
	return onLog(withLog, "create -c FILE", cobra.NoArgs, nil, func(c *call) error {
		return topics.CreateTopics(c.Context(), c.examples(), c.config.Job(), c.recorder)
	})
}

func newTopicsList() *cobra.Command {
	return onLog(withLog, "list -c FILE", cobra.NoArgs, nil, func(c *call) error {
		found, err := topics.ReadSettings(c.Context(), c.pipeline(), c.config.Job())
		if err != nil {
			return err
		}
		screen.WriteTopics(c.OutOrStdout(), found.Topics)
		screen.WriteDifferences(c.OutOrStdout(), found.Differences)
		return errors.Join(found.Wrong...)
	})
}

func newTopicsApply() *cobra.Command {
	var dry bool
	cmd := onLog(withLog, "apply -c FILE", cobra.NoArgs, nil, func(c *call) error {
		found, err := topics.ReadSettings(c.Context(), c.pipeline(), c.config.Job())
		if err != nil {
			return err
		}
		if dry {
			screen.WriteDifferences(c.OutOrStdout(), found.Differences)
			return nil
		}
		applied, err := topics.Apply(c.Context(), c.log, found.Differences)
		for _, d := range applied {
			fmt.Fprintf(c.OutOrStdout(), "%s: %s is %s now, it was %s\n", d.Topic, d.Name, d.Configured, d.Has)
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
	cmd := onLog(withLog, "delete -c FILE", cobra.NoArgs, nil, func(c *call) error {
		var names []string
		var table screen.Table
		found, err := c.log.Topics(c.Context(), c.config.Name+".")
		if err != nil {
			return err
		}
		owned, of := topicNames(c.config), c.pipeline().Log
		for _, t := range found {
			if topics.IsBeside(c.config.Name, t.Name) {
				owned = append(owned, t.Name)
			}
		}
		for _, name := range owned {
			if !slices.ContainsFunc(found, func(t kafkalog.Topic) bool { return t.Name == name }) {
				continue
			}
			spans, err := of.Spans(c.Context(), name)
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
			fmt.Fprintf(c.ErrOrStderr(), "%s has no topics\n", c.config.Name)
			return nil
		}
		if !force {
			if err := checkNobodyWorks(c); err != nil {
				return err
			}
		}
		if !yes {
			table.Write(c.ErrOrStderr())
			if err := confirm(c.Command, len(names)); err != nil {
				return err
			}
		}
		if err := c.log.Delete(c.Context(), names...); err != nil {
			return err
		}
		for _, name := range names {
			fmt.Fprintf(c.OutOrStdout(), "%s no longer exists\n", name)
		}
		return nil
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without confirmation")
	cmd.Flags().BoolVar(&force, "force", false, "delete even while processes work on the pipeline")
	return cmd
}

// checkNobodyWorks returns an error if a process works on a pipeline, or if that is unknown.
func checkNobodyWorks(c *call) error {
	if c.log.Embedded() { // no other process has it
		return nil
	}
	pipeline := c.config.Name
	embedded, err := c.log.IsEmbedded(c.Context())
	if err != nil {
		return err
	}
	if embedded {
		return fmt.Errorf("nothing is deleted: the process at %s, which runs the embedded broker, works on %s: stop it and leave out "+
			"brokers, or use --force", strings.Join(c.config.Brokers, ", "), pipeline)
	}
	t := protocol.TopicsOf(pipeline)
	var working []string
	for _, role := range []string{protocol.RoleIngest, protocol.RoleRun, protocol.RoleWork, protocol.RoleSolve, protocol.RoleScore} {
		hosts, err := c.log.Members(c.Context(), t.Group(role))
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

func newWeightsList() *cobra.Command {
	var asJSON bool
	read := func(ctx context.Context, p *topics.Pipeline) ([]protocol.Finished, error) { return p.Versions(ctx) }
	write := func(w io.Writer, versions []protocol.Finished) {
		if asJSON {
			screen.WriteVersionsJSON(w, versions)
		} else {
			screen.WriteVersions(w, versions)
		}
	}
	cmd := newList(nil, read, write)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a line of JSON for each version: offered, written, manifest")
	return cmd
}

func newWeightsPin() *cobra.Command {
	var off bool
	cmd := onLog(withPipeline, "pin -c FILE (VERSION | --off)", cobra.MaximumNArgs(1), func(c *call) error {
		if off == (len(c.args) == 1) {
			return errors.New("expected a version or --off; see weights list")
		}
		return nil
	}, func(c *call) error {
		if !off {
			pinned, err := topics.Pin(c.Context(), c.pipeline(), c.args[0])
			if err == nil {
				fmt.Fprintln(c.OutOrStdout(), pinned)
			}
			return err
		}
		before, latest, err := topics.Unpin(c.Context(), c.pipeline())
		if err != nil {
			return err
		}
		if before == 0 {
			fmt.Fprintln(c.ErrOrStderr(), "no version was pinned")
		}
		if latest == 0 {
			fmt.Fprintln(c.ErrOrStderr(), "no version is offered: subscribers get none as "+protocol.Latest)
		} else {
			fmt.Fprintln(c.OutOrStdout(), latest) // which subscribers get now
		}
		return nil
	})
	cmd.Flags().BoolVar(&off, "off", false, "unpin the pinned version")
	return cmd
}

func newWeightsRemove() *cobra.Command {
	var evenLatest bool
	cmd := onLog(withPipeline, "remove -c FILE VERSION…", nil, func(c *call) error {
		if len(c.args) == 0 {
			return errors.New("expected versions; see weights list")
		}
		return nil
	}, func(c *call) error {
		removed, err := topics.RemoveVersions(c.Context(), c.pipeline(), c.args, evenLatest)
		printEach(c, removed)
		return err
	})
	cmd.Flags().BoolVar(&evenLatest, "even-latest", false, "also remove a pinned version, or the newest offered one")
	return cmd
}

func newWeightsExport() *cobra.Command {
	var (
		of             modelFlags
		output, format string
		names, formats []string // formats are lines of the help text
	)
	for _, f := range model.Exports() {
		names, formats = append(names, f.Name), append(formats, fmt.Sprintf("  %-13s%s", f.Name, f.Doc))
	}
	cmd := &cobra.Command{
		Use: "export (-c FILE | --model FILE) -o FILE", Args: cobra.NoArgs, Long: strings.Join(formats, "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			export := model.ExportTo(output, format)
			return of.use(cmd, func(m *model.Model, _ *topics.Pipeline) error {
				return failed(screen.Write(output, cmd.OutOrStdout(), func(w io.Writer) error { return export.Write(w, m) }))
			})
		},
	}
	of.add(cmd, "the `version` to export: a version number, a run id, or "+protocol.Latest+", the pinned version or else the newest offered "+
		"one (default "+protocol.Latest+")", "export the model in a `file`, without connecting to brokers")
	choose(cmd, &format, "format", "output `format`: "+strings.Join(names, ", ")+"; default: by the extension of the file, or "+
		"else "+names[0], names...)
	addOutput(cmd, &output, "output", "o", "write the model to a `file` (-: standard output)")
	markRequired(cmd, "output")
	excludes(cmd, "model", "it selects the version, and needs no configuration", "config", "version", "set")
	return cmd
}

func newRunsCancel() *cobra.Command {
	var all bool
	cmd := onLog(withPipeline, "cancel -c FILE (RUN | --all)", cobra.MaximumNArgs(1), func(c *call) error {
		if all == (len(c.args) == 1) || len(c.args) == 1 && c.args[0] == "" {
			return errors.New("expected a run id or --all; see runs list")
		}
		return nil
	}, func(c *call) error {
		cancelled, err := dispatch.Cancel(c.Context(), c.pipeline(), strings.Join(c.args, "")) // "": all
		printEach(c, cancelled)
		return err
	})
	cmd.Flags().BoolVar(&all, "all", false, "cancel all unfinished runs")
	return cmd
}

func newRunsShow() *cobra.Command {
	var html string
	cmd := onLog(withPipeline, "show -c FILE RUN", exactly("RUN"), nil, func(c *call) error {
		runs, err := dispatch.Describe(c.Context(), c.log, c.config.Name, c.args...)
		if err != nil {
			return err
		}
		if html != "" {
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			open := func(pipeline string) *topics.Pipeline { return openExamples(c.log, c.config, pipeline) }
			list := screen.Compared(runs)
			if err := screen.AddLearnt(c.Context(), &list[0], open, blas, &runs[0]); err != nil {
				return err
			}
			title := list[0].Title
			about := page.About{Title: strings.ToUpper(title[:1]) + title[1:], Pipeline: fmt.Sprintf("%s, run %s", runs[0].Pipeline, runs[0].Run)}
			if err := writePage(c, html, about, list); err != nil {
				return err
			}
		}
		if html == screen.StandardOutput {
			return nil
		}
		screen.WriteRun(c.OutOrStdout(), &runs[0])
		return nil
	})
	addOutput(cmd, &html, "html", "", "write the run as a page to a `file` (-: standard output)")
	return cmd
}

func newRunsCompare() *cobra.Command {
	html, by := "", screen.ByError
	cmd := onLog(withPipeline, "compare -c FILE RUN RUN…", nil, func(c *call) error {
		if len(c.args) < 2 {
			return errors.New("expected two or more runs: run ids or version numbers; see runs list and weights list")
		}
		return nil
	}, func(c *call) error {
		runs, err := dispatch.Describe(c.Context(), c.log, c.config.Name, c.args...)
		if err != nil {
			return err
		}
		list, order := screen.Compared(runs), page.Order{By: by}
		if html != "" {
			about := page.About{Title: "Runs compared", Pipeline: english.WordSeries(screen.Pipelines(runs), "and"), By: order}
			if err := writePage(c, html, about, list); err != nil {
				return err
			}
		}
		if html == screen.StandardOutput {
			return nil
		}
		if c.Flags().Changed("by") {
			list = order.Sorted(list)
		}
		screen.WriteCompared(c.OutOrStdout(), list, order)
		return nil
	})
	choose(cmd, &by, "by", "sort by this `measure` of the holdout rows, or without any of the test rows; without --by only the page is "+
		"sorted: error, loss, auc, average_precision or balanced_error", page.Orders()...)
	addOutput(cmd, &html, "html", "", "write the comparison as a page to a `file` (-: standard output)")
	return cmd
}

// writePage writes a page about runs to a file.
func writePage(c *call, file string, about page.About, runs []page.Compared) error {
	return screen.Write(file, c.OutOrStdout(), func(w io.Writer) error { return page.WritePage(w, about, runs) })
}

func newSourcesList() *cobra.Command {
	own := func(c *call) error {
		return requireOwnExamples(c.config, "list the sources of the pipeline that owns it")
	}
	return newList(own, source.Sources, screen.WriteSources)
}

func newSourcesRemove() *cobra.Command {
	return onLog(withPipeline, "remove -c FILE SOURCE…", nil, func(c *call) error {
		if len(c.args) == 0 && c.config.Examples.Topic == "" {
			return errors.New("expected source ids, or their first digits; see sources list")
		}
		return requireOwnExamples(c.config, "only the pipeline that owns it removes sources")
	}, func(c *call) error {
		removed, err := source.RemoveSources(c.Context(), c.pipeline(), c.args)
		for _, s := range removed {
			if id := wire.Digest(s.ID).Short(); s.State == source.Removed {
				fmt.Fprintf(c.ErrOrStderr(), "source %s (%s) was already removed\n", id, strings.Join(s.Files, ", "))
			} else {
				fmt.Fprintln(c.OutOrStdout(), id)
			}
		}
		return err
	})
}

func newQuarantineList() *cobra.Command {
	values := false
	return newList(func(c *call) error {
		values = c.config.Logs.Values
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
	cmd := onLog(withPipeline, "forget -c FILE ROW…", nil, func(c *call) error {
		if err := requireOwnExamples(c.config, "forget rows in the pipeline that owns it, and the next run here excludes them"); err != nil {
			return err
		}
		what.Answers = c.config.Serve.Answers.Topic
		if len(c.args)+len(what.Sources)+len(what.Keys) == 0 && what.Lost == "" {
			return errors.New("expected rows, --source, --key or --lost")
		}
		for _, arg := range c.args {
			if err := what.AddRows(protocol.TopicsOf(c.config.Name).Examples, c.config.Examples.FromTopic, arg); err != nil {
				return err
			}
		}
		return nil
	}, func(c *call) error {
		if o := c.config.Examples.Outcome; o.Topic != "" {
			fmt.Fprintf(c.ErrOrStderr(), "rows that wait for their outcomes are not forgotten: repeat the command in %v\n", o.Within+o.Grace)
		}
		done, err := source.Forget(c.Context(), c.examples(), c.config.Job(), what)
		if done == nil {
			return err
		}
		if report != screen.StandardOutput {
			screen.WriteForgot(c.OutOrStdout(), done, what.Now)
		}
		return errors.Join(err, screen.WriteJSON(report, c.OutOrStdout(), struct {
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
	addOutput(cmd, &report, "report", "", "write what was forgotten, and where data of it stays, as JSON to a `file` (-: standard "+
		"output)")
	cmd.Flags().BoolVar(&what.Now, "now", false, "remove affected versions first, even the one that subscribers get as latest")
	return cmd
}

func newRepair() *cobra.Command {
	return new(configFlags).command("repair -c FILE", cobra.NoArgs, nil, func(c *call) error {
		if len(c.config.Brokers) > 0 {
			return option.Problem{Key: "brokers", Value: strings.Join(c.config.Brokers, ", "),
				Want: "no value: repair is for the files of the embedded broker"}
		}
		repaired, err := kafkalog.Repair(c.Context(), c.config.DataDir)
		screen.WriteRepaired(c.OutOrStdout(), repaired)
		if _, locked := errors.AsType[*kafkalog.LockedError](err); locked {
			err = fmt.Errorf("%w: stop that process first", err)
		}
		if err != nil {
			return failed(fmt.Errorf("repair the log in %s: %w", c.config.DataDir, err))
		}
		if len(repaired) == 0 {
			fmt.Fprintf(c.OutOrStdout(), "the log in %s is intact\n", c.config.DataDir)
		}
		return nil
	})
}
