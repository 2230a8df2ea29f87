package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

func newSources() *cobra.Command {
	return newGroup("sources", "List or remove ingested files", newSourcesList(), newSourcesRemove())
}

func newSourcesList() *cobra.Command {
	own := func(c *config.Config, _ []string) error {
		return requireOwnExamples(c, "list the sources of the pipeline that owns it")
	}
	return newList(&cobra.Command{
		Use: "list -c FILE", Short: "List the ingested files, and how much of each is retained",
		Long: "List the sources of the examples topic: ingested files. A run whose configuration names no files\ntrains on all " +
			"sealed sources. An interrupted ingest leaves an unfinished source, which runs ignore.\nA followed topic is listed with " +
			"the offsets read so far.",
		Example: "  stagewise sources list -c digits.yaml",
	}, own, source.Sources, screen.WriteSources)
}

func newSourcesRemove() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "remove -c FILE SOURCE…", Short: "Remove ingested files from all later runs, and print their ids",
		Long: "Remove sources: ingested files. Runs submitted later do not train on them; runs submitted earlier\ndo. Their messages " +
			"stay on the examples topic. To restore a source, ingest its files again, or train\non them. A followed topic can't " +
			"be removed.",
		Example: "  stagewise sources remove -c digits.yaml 724a0b99d628",
		RunE: from.onPipeline(func(c *config.Config, args []string) error {
			if len(args) == 0 && c.Examples.Topic == "" {
				return errors.New("expected source ids, or their first digits; see sources list")
			}
			return requireOwnExamples(c, "only the pipeline that owns it removes sources")
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			removed, err := source.RemoveSources(cmd.Context(), topics.Open(log, c.Name, nil), args)
			for _, s := range removed {
				if id := wire.Digest(s.ID).Short(); s.Before {
					fmt.Fprintf(cmd.ErrOrStderr(), "source %s (%s) was already removed\n", id, strings.Join(s.Files, ", "))
				} else {
					fmt.Fprintln(cmd.OutOrStdout(), id)
				}
			}
			return err
		}),
	}
	from.add(cmd)
	return cmd
}
