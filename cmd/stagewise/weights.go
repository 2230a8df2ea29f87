package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/admin"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newWeights() *cobra.Command {
	return newGroup("weights", "List, export, pin or remove the finished versions of a pipeline", newWeightsList(), newWeightsExport(),
		newWeightsPin(), newWeightsRemove())
}

func newWeightsList() *cobra.Command {
	read := func(ctx context.Context, p *topics.Pipeline) ([]protocol.Finished, error) { return p.Versions(ctx) }
	return newList(&cobra.Command{
		Use: "list -c FILE", Short: "List the finished versions",
		Long: "List the finished versions. The column offered has yes, no or pinned. Subscribers get as " + protocol.Latest +
			" the pinned version, or\nwithout one the last version with yes.",
		Example: "  stagewise weights list -c digits.yaml",
	}, nil, read, screen.WriteVersions)
}

func newWeightsPin() *cobra.Command {
	var (
		from configFlags
		off  bool
	)
	cmd := &cobra.Command{
		Use: "pin -c FILE (VERSION | --off)", Short: "Choose the version that subscribers get as latest, and print its number",
		Args: cobra.MaximumNArgs(1),
		Long: "Pin a version, given by its version number, its run id, or " + protocol.Latest + ": subscribers get it as " +
			protocol.Latest + " until another\nversion is pinned, regardless of later versions. Pin an earlier version to roll back. " +
			"With --off, they get\nthe newest offered version again. Training still continues from the newest version. keep " +
			"does not remove a\npinned version.",
		Example: "  stagewise weights pin -c digits.yaml 1\n" +
			"  stagewise weights pin -c digits.yaml --off",
		RunE: from.onPipeline(func(_ *config.Config, args []string) error {
			if off == (len(args) == 1) {
				return errors.New("expected a version or --off; see weights list")
			}
			return nil
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			if off {
				return unpin(cmd, log, c.Name)
			}
			pinned, err := admin.Pin(cmd.Context(), topics.Open(log, c.Name, nil), args[0])
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), pinned)
			}
			return err
		}),
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&off, "off", false, "unpin the pinned version")
	return cmd
}

// unpin pins no version, and prints the number of the version that subscribers get then.
func unpin(cmd *cobra.Command, log *kafkalog.Log, name string) error {
	before, latest, err := admin.Unpin(cmd.Context(), topics.Open(log, name, nil))
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
	var (
		from       configFlags
		evenLatest bool
	)
	cmd := &cobra.Command{
		Use: "remove -c FILE VERSION…", Short: "Remove versions from the topic, and print their numbers",
		Long: "Remove versions, given by version number, run id, or " + protocol.Latest +
			". They can no longer be read,\nand their numbers are not reused. Either all are removed or none: a version that " +
			"subscribers get as " + protocol.Latest +
			",\nor would get without the pin, requires --even-latest, and a version that an unfinished run needs stays until\nthat " +
			"run ends.",
		Example: "  stagewise weights remove -c digits.yaml 1",
		RunE: from.onPipeline(func(_ *config.Config, args []string) error {
			if len(args) == 0 {
				return errors.New("expected versions; see weights list")
			}
			return nil
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			removed, err := admin.RemoveVersions(cmd.Context(), topics.Open(log, c.Name, nil), args, evenLatest)
			printEach(cmd, removed)
			return err
		}),
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&evenLatest, "even-latest", false, "also remove a pinned version, or the newest offered one")
	return cmd
}
