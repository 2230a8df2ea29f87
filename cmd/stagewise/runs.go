package main

import (
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
)

func newRuns() *cobra.Command {
	return newGroup("runs", "List, show, compare or cancel the runs of a pipeline", newRunsList(), newRunsShow(), newRunsCompare(), newRunsCancel())
}

func newRunsList() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "List the runs that wait, go on, or have ended lately", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				runs, err := pipeline.Runs(cmd.Context(), log, c.Name)
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "run\tstate\tsince\trows\tversion\treason")
				for _, r := range runs {
					rows := none
					if r.Rows >= 0 {
						rows = strconv.FormatInt(r.Rows, 10)
					}
					version := none
					if r.Version > 0 {
						version = strconv.Itoa(r.Version)
					}
					reason := r.Reason
					if reason == "" {
						reason = none
					}
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Run, r.State, date(r.Since), rows, version, reason)
				}
				return table.Flush()
			}))
		},
	}
	from.add(cmd)
	return cmd
}

// date formats a time as scripts sort it.
func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func newRunsCancel() *cobra.Command {
	var (
		from configFlags
		all  bool
	)
	cmd := &cobra.Command{
		Use: "cancel -c FILE (RUN | --all)", Short: "Cancel a run that waits or goes on, or all of them, and print their ids", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if all == (len(args) == 1) {
				return errors.New("expected the id of a run, or --all; runs list has the ids")
			}
			id := ""
			if !all {
				id = args[0]
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				cancelled, err := pipeline.Cancel(cmd.Context(), log, c.Name, id)
				for _, run := range cancelled {
					fmt.Fprintln(cmd.OutOrStdout(), run)
				}
				return err
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "cancel all runs that have not ended")
	return cmd
}
