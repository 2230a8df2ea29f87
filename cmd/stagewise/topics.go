package main

import (
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
)

func newTopics() *cobra.Command {
	return group("topics", "The topics of a pipeline", newTopicsCreate(), newTopicsList(), newTopicsDelete())
}

func newTopicsCreate() *cobra.Command {
	var from choice
	cmd := &cobra.Command{
		Use: "create -c FILE", Short: "Make those that are not there", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, trouble(cmd), func(log *kafkalog.Log) error {
				return log.Create(cmd.Context(), pipeline.Topics(c.Job())...)
			}))
		},
	}
	from.flags(cmd)
	return cmd
}

func newTopicsList() *cobra.Command {
	var from choice
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "Those that are there", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, trouble(cmd), func(log *kafkalog.Log) error {
				found, err := log.Topics(cmd.Context(), c.Name+".")
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "topic\tpartitions\tclean-up")
				names := topicNames(c)
				for _, t := range found {
					// The topics of a pipeline named a.b begin with a. too.
					if slices.Contains(names, t.Name) {
						fmt.Fprintf(table, "%s\t%d\t%s\n", t.Name, t.Partitions, cleanUp(t))
					}
				}
				return table.Flush()
			}))
		},
	}
	from.flags(cmd)
	return cmd
}

func newTopicsDelete() *cobra.Command {
	var from choice
	cmd := &cobra.Command{
		Use: "delete -c FILE", Short: "Delete them with all that they hold: examples, weights, everything", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, trouble(cmd), func(log *kafkalog.Log) error {
				names := topicNames(c)
				if err := log.Delete(cmd.Context(), names...); err != nil {
					return err
				}
				for _, name := range names {
					fmt.Fprintf(cmd.OutOrStdout(), "%s is not there any more\n", name)
				}
				return nil
			}))
		},
	}
	from.flags(cmd)
	return cmd
}

func topicNames(c *config.Config) []string {
	var names []string
	for _, t := range pipeline.Topics(c.Job()) {
		names = append(names, t.Name)
	}
	return names
}

func cleanUp(t kafkalog.Topic) string {
	if t.Compact {
		return "compact"
	}
	return "delete"
}
