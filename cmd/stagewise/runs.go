package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newRuns() *cobra.Command {
	return newGroup("runs", "List, show, compare or cancel the runs of a pipeline", newRunsList(), newRunsShow(), newRunsCompare(),
		newRunsCancel())
}

func newRunsList() *cobra.Command {
	return newList(&cobra.Command{
		Use: "list -c FILE", Short: "List waiting, active and recently ended runs",
		Example: "  stagewise runs list -c digits.yaml",
	}, nil, dispatch.Runs, screen.WriteRuns)
}

func newRunsCancel() *cobra.Command {
	var (
		from configFlags
		all  bool
	)
	cmd := &cobra.Command{
		Use: "cancel -c FILE (RUN | --all)", Short: "Cancel a waiting or active run, or all of them, and print their ids",
		Example: "  stagewise runs cancel -c digits.yaml --all",
		Args:    cobra.MaximumNArgs(1),
		RunE: from.onPipeline(func(_ *config.Config, args []string) error {
			if all == (len(args) == 1) || len(args) == 1 && args[0] == "" {
				return errors.New("expected a run id or --all; see runs list")
			}
			return nil
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			cancelled, err := dispatch.Cancel(cmd.Context(), topics.Open(log, c.Name, nil), strings.Join(args, "")) // "": all
			printEach(cmd, cancelled)
			return err
		}),
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "cancel all unfinished runs")
	return cmd
}
