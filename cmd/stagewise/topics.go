package main

import (
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run"
)

func newTopics() *cobra.Command {
	return newGroup("topics", "Create, list or delete the topics of a pipeline", newTopicsCreate(), newTopicsList(), newTopicsDelete())
}

func newTopicsCreate() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "create -c FILE", Short: "Create the topics that do not exist", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				job := c.Job()
				if topic := job.Examples.Topic; topic != "" { // each of its partitions has residuals
					if job.Examples.Partitions, err = log.Partitions(cmd.Context(), topic); err != nil {
						return fmt.Errorf("examples.topic: %w", err)
					}
				}
				return log.Create(cmd.Context(), pipeline.Topics(job)...)
			}))
		},
	}
	from.add(cmd)
	return cmd
}

func newTopicsList() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "List the topics that exist", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				found, err := log.Topics(cmd.Context(), c.Name+".")
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "topic\tpartitions\tcleanup")
				names := topicNames(c)
				for _, t := range found {
					// The topics of a pipeline named a.b begin with a. too.
					if slices.Contains(names, t.Name) {
						fmt.Fprintf(table, "%s\t%d\t%s\n", t.Name, t.Partitions, cleanup(t))
					}
				}
				return table.Flush()
			}))
		},
	}
	from.add(cmd)
	return cmd
}

func newTopicsDelete() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "delete -c FILE", Short: "Delete the topics, with all examples and weights on them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				names := topicNames(c)
				if err := log.Delete(cmd.Context(), names...); err != nil {
					return err
				}
				// Delete does not say which topics existed.
				for _, name := range names {
					fmt.Fprintf(cmd.OutOrStdout(), "%s no longer exists\n", name)
				}
				return nil
			}))
		},
	}
	from.add(cmd)
	return cmd
}

func topicNames(c *config.Config) []string {
	var names []string
	for _, t := range pipeline.Topics(c.Job()) {
		names = append(names, t.Name)
	}
	return append(names, run.TopicsOf(c.Name).Predictions) // of score, if anybody has used it
}

// cleanup returns the cleanup.policy of a topic.
func cleanup(t kafkalog.Topic) string {
	if t.Compact {
		return "compact"
	}
	return "delete"
}
