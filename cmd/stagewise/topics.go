package main

import (
	"errors"
	"fmt"

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
