package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newTopics() *cobra.Command {
	return newGroup("topics", "Create, list, configure or delete the topics of a pipeline", newTopicsCreate(), newTopicsList(),
		newTopicsApply(), newTopicsDelete())
}

func newTopicsCreate() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "create -c FILE", Short: "Create missing topics", Args: cobra.NoArgs,
		Example: "  stagewise topics create -c digits.yaml",
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			rec := waitRecorder(cmd)
			return failed(withLog(cmd.Context(), c, rec, func(log *kafkalog.Log) error {
				return topics.CreateTopics(cmd.Context(), topics.Open(log, c.Job().Name, nil), c.Job(), rec)
			}))
		}),
	}
	from.add(cmd)
	return cmd
}

func newTopicsList() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "List existing topics and their differences from the configuration", Args: cobra.NoArgs,
		Example: "  stagewise topics list -c digits.yaml",
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				found, err := topics.ReadSettings(cmd.Context(), topics.Open(log, c.Job().Name, nil), c.Job())
				if err != nil {
					return err
				}
				if err := screen.WriteTopics(cmd.OutOrStdout(), found.Topics); err != nil {
					return err
				}
				return errors.Join(append([]error{screen.WriteDifferences(cmd.OutOrStdout(), found.Differences)}, found.Wrong...)...)
			}))
		}),
	}
	from.add(cmd)
	return cmd
}

func newTopicsApply() *cobra.Command {
	var (
		from configFlags
		dry  bool
	)
	cmd := &cobra.Command{
		Use: "apply -c FILE", Short: "Apply the configured settings to existing topics", Args: cobra.NoArgs,
		Long: "Apply the configured settings to existing topics: cleanup policies, and the times and sizes under\ntopics in the " +
			"configuration. Brokers delete messages beyond a shorter retention. The numbers of\npartitions and replicas do not " +
			"change.",
		Example: "  stagewise topics apply -c digits.yaml --dry-run",
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				found, err := topics.ReadSettings(cmd.Context(), topics.Open(log, c.Job().Name, nil), c.Job())
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
			}))
		}),
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the differences without applying them")
	return cmd
}

func topicNames(c *config.Config) []string {
	var names []string
	for _, t := range topics.Topics(c.Job()) {
		names = append(names, t.Name)
	}
	return append(names, protocol.TopicsOf(c.Name).Predictions) // of score, if anybody has used it
}

// deleteFlags are the flags of topics delete.
type deleteFlags struct {
	from       configFlags
	yes, force bool
}

func newTopicsDelete() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use: "delete -c FILE", Short: "Delete the topics, with all examples and weights, after confirmation", Args: cobra.NoArgs,
		Long: "Show the existing topics and their numbers of messages, ask for confirmation, and delete the topics.\nNothing is " +
			"deleted while a process works on the pipeline: it would use deleted topics or recreate\nthem. Read-only processes, " +
			"such as serve, page and subscribers, do not prevent deletion.",
		Example: "  stagewise topics delete -c digits.yaml\n" +
			"  stagewise topics delete -c digits.yaml --yes",
		RunE: f.from.run(f.run),
	}
	f.from.add(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "delete without confirmation")
	cmd.Flags().BoolVar(&f.force, "force", false, "delete even while processes work on the pipeline")
	return cmd
}

func (f *deleteFlags) run(cmd *cobra.Command, _ []string, c *config.Config) error {
	return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
		found, err := existing(cmd.Context(), log, c.Name, topicNames(c))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s has no topics\n", c.Name)
			return nil
		}
		if !f.force {
			if err := checkNobodyWorks(cmd.Context(), log, c.Name, c.Brokers); err != nil {
				return err
			}
		}
		var names []string
		for _, t := range found {
			names = append(names, t.name)
		}
		if !f.yes {
			if err := confirm(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), found); err != nil {
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
	}))
}

// existingTopic is a topic, and how many offsets it has.
type existingTopic struct {
	name     string
	messages int64
}

// existing returns those of the topics of a pipeline that exist.
func existing(ctx context.Context, log *kafkalog.Log, pipeline string, names []string) (found []existingTopic, err error) {
	client := protocol.NewClient(log, pipeline, nil)
	for _, name := range names {
		exists, err := log.Exists(ctx, name)
		if err != nil {
			return nil, err
		}
		if !exists {
			continue
		}
		spans, err := client.Log.Spans(ctx, name)
		if err != nil {
			return nil, err
		}
		t := existingTopic{name: name}
		for _, s := range spans {
			t.messages += s.Len()
		}
		found = append(found, t)
	}
	return found, nil
}

// checkNobodyWorks returns an error if a process works on a pipeline, or nobody can say whether one does.
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
	for _, role := range []struct{ name, group string }{
		{protocol.RoleIngest, t.Ingesters()}, {protocol.RoleRun, t.Runners()}, {protocol.RoleWork, t.Workers()}, {protocol.RoleSolve,
			t.Solvers()}, {protocol.RoleScore, t.Scorers()},
	} {
		hosts, err := log.Members(ctx, role.group)
		if err != nil {
			return fmt.Errorf("nothing is deleted: the processes that work on %s are unknown: %w; --force deletes anyway", pipeline, err)
		}
		if len(hosts) > 0 {
			working = append(working, fmt.Sprintf("stagewise %s on %s", role.name, english.WordSeries(hosts, "and")))
		}
	}
	if len(working) > 0 {
		return fmt.Errorf("nothing is deleted: %s works on %s: stop it, or use --force", english.WordSeries(working, "and"), pipeline)
	}
	return nil
}

// confirm shows what goes, and returns an error unless the answer is yes.
func confirm(ctx context.Context, in io.Reader, w io.Writer, found []existingTopic) error {
	var table screen.Table
	for _, t := range found {
		table.Row(t.name, english.Plural(int(t.messages), "message", ""))
	}
	if err := table.Write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "Permanently delete %s? (y/N) ", english.PluralWord(len(found), "this topic", fmt.Sprintf("these %d topics", len(found))))
	answers := make(chan string, 1)
	go func() { // it ends with the answer, or with the process, which an interruption ends
		answer, _ := bufio.NewReader(in).ReadString('\n') // what can't be read is no yes
		answers <- answer
	}()
	select {
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return errors.New("nothing is deleted; --yes deletes without confirmation")
	case <-ctx.Done():
		return ctx.Err()
	}
}
