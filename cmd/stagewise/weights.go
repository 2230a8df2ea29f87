package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

func newWeights() *cobra.Command {
	return newGroup("weights", "List, export, pin or remove the finished versions of a pipeline", newWeightsList(), newWeightsExport(), newWeightsPin(), newWeightsRemove())
}

func newWeightsList() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "List the finished versions", Args: cobra.NoArgs,
		Long: "List the finished versions. The column offered has yes, no or pinned. What subscribers get as " + run.Latest + " is the version that is pinned. If\n" +
			"none is, it is the last one with yes.",
		Example: "  stagewise weights list -c digits.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				versions, err := pipeline.Versions(cmd.Context(), log, c.Name)
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "version\trun\tdate\trows\tstages\tridge\ttrain error\tholdout error\ttest error\tdigest\toffered\tparameters")
				for _, v := range versions {
					fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Version, v.Run, date(v.Written), v.Rows[schemas.Train.String()], len(v.Blocks), ridges(v.Manifest),
						metric(v.Manifest, "train_error"), metric(v.Manifest, "holdout_error"), metric(v.Manifest, "test_error"), v.WeightsDigest.Short(), offered(v), parameters(v.Plan))
				}
				return table.Flush()
			}))
		},
	}
	from.add(cmd)
	return cmd
}

// offered says whether a version is offered to subscribers, or pinned.
func offered(v run.Finished) string {
	switch {
	case v.Pinned:
		return "pinned"
	case v.Offered:
		return "yes"
	}
	return "no"
}

// ridges returns the ridges of a version's stages, each once, in the order of the stages.
func ridges(m schemas.Manifest) string {
	var list []string
	for stage := range m.Plan.Stages {
		if ridge := m.Ridge(stage).String(); !slices.Contains(list, ridge) {
			list = append(list, ridge)
		}
	}
	return strings.Join(list, ", ")
}

// parameters describes the preparation of a run and the features and links of its stages.
func parameters(plan *schemas.Plan) string {
	var parts []string
	if p := plan.Prepare; p != (schemas.Prepare{Scale: stages.ScaleNone}) {
		parts = append(parts, preparation(p))
	}
	list := plan.Stages[:plan.MemberStages()]
	if plan.Members() > 1 {
		parts = append(parts, fmt.Sprintf("mean of %d members", plan.Members()))
	}
	for first := 0; first < len(list); {
		text, next := kind(list[first]), first+1
		for next < len(list) && kind(list[next]) == text {
			next++
		}
		if next > first+1 {
			text = fmt.Sprintf("%d × %s", next-first, text)
		}
		parts, first = append(parts, text), next
	}
	return strings.Join(parts, ", ")
}

// kind describes the features and the link of a stage.
func kind(s schemas.Stage) string { return fmt.Sprintf("%s %s", features(s), s.Link) }

// metric returns an error of a version, in percent.
func metric(m schemas.Manifest, name string) string {
	if v, ok := m.Metrics[name]; ok {
		return percent(&v)
	}
	return none
}

func newWeightsPin() *cobra.Command {
	var (
		from configFlags
		off  bool
	)
	cmd := &cobra.Command{
		Use: "pin -c FILE (VERSION | --off)", Short: "Choose which version subscribers get as the latest, and print its number", Args: cobra.MaximumNArgs(1),
		Long: "Pin a version, given by its number, the id of its run, or " + run.Latest + ": subscribers get it as " + run.Latest + " until another is pinned, whatever versions\n" +
			"are made after it. So an earlier version is brought back. With --off they get the newest version again that is offered. Training goes\n" +
			"on from the newest version all the same, and a version that is pinned is not removed by keep.",
		Example: "  stagewise weights pin -c digits.yaml 7\n" +
			"  stagewise weights pin -c digits.yaml --off",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if off == (len(args) == 1) {
				return errors.New("expected a version, or --off; weights list has the versions")
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				if off {
					return unpin(cmd, log, c.Name)
				}
				pinned, err := pipeline.Pin(cmd.Context(), log, c.Name, args[0])
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), pinned)
				}
				return err
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&off, "off", false, "pin no version")
	return cmd
}

// unpin pins no version, and prints the number of the version that subscribers get then.
func unpin(cmd *cobra.Command, log *kafkalog.Log, name string) error {
	before, latest, err := pipeline.Unpin(cmd.Context(), log, name)
	if err != nil {
		return err
	}
	if before == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no version was pinned")
	}
	if latest == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no version is offered: subscribers get none as "+run.Latest)
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
		Long: "Remove versions, given by their numbers, the ids of their runs, or " + run.Latest + ". Nobody can read them any more, and no later version gets the\n" +
			"number of one of them. If one can't be removed, none is: a version that subscribers get as " + run.Latest + ", or would if none were pinned, needs\n" +
			"--even-latest, and one that an unfinished run needs stays until that run has ended.",
		Example: "  stagewise weights remove -c digits.yaml 3 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return errors.New("expected versions; weights list has them")
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				removed, err := pipeline.RemoveVersions(cmd.Context(), log, c.Name, args, evenLatest)
				for _, number := range removed {
					fmt.Fprintln(cmd.OutOrStdout(), number)
				}
				return err
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&evenLatest, "even-latest", false, "also remove a version that is pinned, or the newest that is offered")
	return cmd
}
