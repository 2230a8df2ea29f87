package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

func newSources() *cobra.Command {
	return newGroup("sources", "List the files that were ingested, or remove them", newSourcesList(), newSourcesRemove())
}

func newSourcesList() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "List the files that were ingested, and what is left of them", Args: cobra.NoArgs,
		Long: "List the sources of the examples topic: files that were ingested. A run whose configuration names no files trains on all that are\n" +
			"sealed. An interrupted ingest leaves a source that is unfinished, of which nothing counts. A topic that ingest follows has no end; it is\n" +
			"listed with the offsets that its partitions were read to.",
		Example: "  stagewise sources list -c digits.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := requireOwnExamples(c, "its owner knows the sources"); err != nil {
				return err
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				sources, err := pipeline.Sources(cmd.Context(), log, c.Name)
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "source\tstate\tsince\tsplit\trows\tmessages\tleft\tfiles")
				for _, s := range sources {
					rows, split, files := none, none, none
					id, messages, left := short(s.ID, sources), strconv.FormatInt(s.Messages, 10), strconv.FormatInt(s.Left, 10)
					switch s.State {
					case pipeline.Followed:
						id, messages, left, split, files = s.ID, none, none, s.Split, readTo(s.Read)
					case pipeline.Unfinished:
					default:
						rows, split, files = strconv.FormatInt(s.Rows, 10), s.Split, strings.Join(s.Files, ", ")
					}
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", id, s.State, date(s.Since), split, rows, messages, left, files)
				}
				return table.Flush()
			}))
		},
	}
	from.add(cmd)
	return cmd
}

// readTo says how far the partitions of a topic were read.
func readTo(positions []schemas.TopicPosition) string {
	offsets := make([]string, len(positions))
	for i, p := range positions {
		offsets[i] = fmt.Sprintf("[%d]@%d", p.Partition, p.Next)
	}
	return "read to " + strings.Join(offsets, " ")
}

// short returns the first digits of the id of a source: as many as people are shown of other ids, or more if another of the sources begins
// with these too.
func short(id string, sources []pipeline.SourceState) string {
	digits := len(schemas.Digest(id).Short())
	for _, other := range sources {
		for other.ID != id && digits < len(id) && strings.HasPrefix(other.ID, id[:digits]) {
			digits++
		}
	}
	return id[:digits]
}

func newSourcesRemove() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "remove -c FILE SOURCE…", Short: "Remove ingested files from all later runs, and print their ids",
		Long: "Remove sources: files that were ingested. No run that is submitted later trains on them. Runs that were submitted before do. Their\n" +
			"messages stay on the examples topic. To bring a source back, ingest its files again, or train on them. A topic that ingest follows\n" +
			"can't be removed.",
		Example: "  stagewise sources remove -c digits.yaml 724a0b99d628",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := requireOwnExamples(c, "only its owner removes sources"); err != nil {
				return err
			}
			if len(args) == 0 {
				return errors.New("expected the ids of sources, or their first digits; sources list has the ids")
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				removed, err := pipeline.RemoveSources(cmd.Context(), log, c.Name, args)
				for _, s := range removed {
					if id := schemas.Digest(s.ID).Short(); s.Before {
						fmt.Fprintf(cmd.ErrOrStderr(), "source %s (%s) had been removed already\n", id, strings.Join(s.Files, ", "))
					} else {
						fmt.Fprintln(cmd.OutOrStdout(), id)
					}
				}
				return err
			}))
		},
	}
	from.add(cmd)
	return cmd
}
