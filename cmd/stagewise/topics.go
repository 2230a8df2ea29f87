package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run"
)

func newTopics() *cobra.Command {
	return newGroup("topics", "Create, list, configure or delete the topics of a pipeline", newTopicsCreate(), newTopicsList(), newTopicsApply(), newTopicsDelete())
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
			rec := waitRecorder(cmd)
			return failed(withLog(cmd.Context(), c, rec, func(log *kafkalog.Log) error {
				return pipeline.CreateTopics(cmd.Context(), log, c.Job(), rec)
			}))
		},
	}
	from.add(cmd)
	return cmd
}

func newTopicsList() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "List the topics that exist, and what differs from the configuration", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				found, err := pipeline.ReadSettings(cmd.Context(), log, c.Job())
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "topic\tpartitions\treplicas\tcleanup")
				for _, t := range found.Topics {
					fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", t.Name, t.Partitions, t.Replication, cleanup(t))
				}
				if err := table.Flush(); err != nil {
					return err
				}
				return errors.Join(append([]error{writeDifferences(cmd.OutOrStdout(), found.Differences)}, found.Wrong...)...)
			}))
		},
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
		Use: "apply -c FILE", Short: "Give the topics that exist the settings of the configuration", Args: cobra.NoArgs,
		Long: "Change the settings of the topics that exist to those that they would be created with: cleanup policies, and the times and sizes under\n" +
			"topics in the configuration. Brokers delete what a shorter retention does not keep. The numbers of partitions and of replicas stay.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				found, err := pipeline.ReadSettings(cmd.Context(), log, c.Job())
				if err != nil {
					return err
				}
				if dry {
					return writeDifferences(cmd.OutOrStdout(), found.Differences)
				}
				applied, err := pipeline.Apply(cmd.Context(), log, found.Differences)
				for _, d := range applied {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s is %s now, it was %s\n", d.Topic, d.Name, d.Configured, d.Has)
				}
				return err
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what differs, and change nothing")
	return cmd
}

// writeDifferences writes how topics differ from the configuration.
func writeDifferences(w io.Writer, differences []pipeline.Difference) error {
	if len(differences) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ntopic\tsetting\thas\tconfigured\t")
	for _, d := range differences {
		how := "topics apply changes it"
		if !d.Applies() {
			how = "Kafka's own tools change it"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", d.Topic, d.Name, d.Has, d.Configured, how)
	}
	return table.Flush()
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
