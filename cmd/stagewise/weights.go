package main

import (
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
	return newGroup("weights", "List or export the finished versions of a pipeline", newWeightsList(), newWeightsExport())
}

func newWeightsList() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "List the finished versions", Args: cobra.NoArgs,
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
				fmt.Fprintln(table, "version\trun\tdate\trows\tstages\tridge\ttrain error\tholdout error\ttest error\tdigest\tparameters")
				for _, v := range versions {
					fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Version, v.Run, date(v.Written), v.Rows[schemas.Train.String()], len(v.Blocks), ridges(v.Manifest),
						metric(v.Manifest, "train_error"), metric(v.Manifest, "holdout_error"), metric(v.Manifest, "test_error"), v.WeightsDigest.Short(), parameters(v.Plan))
				}
				return table.Flush()
			}))
		},
	}
	from.add(cmd)
	return cmd
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
	if p := plan.Prepare; p.PCA > 0 || p.Scale != stages.ScaleNone {
		parts = append(parts, preparation(p))
	}
	for first := 0; first < len(plan.Stages); {
		text, next := kind(plan.Stages[first]), first+1
		for next < len(plan.Stages) && kind(plan.Stages[next]) == text {
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

func newWeightsExport() *cobra.Command {
	var (
		from            configFlags
		version, output string
	)
	cmd := &cobra.Command{
		Use: "export -c FILE -o FILE", Short: "Write a version as a model file, which predict reads", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := checkWritable(output); err != nil {
				return err
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				m, err := pipeline.LoadModel(cmd.Context(), log, c.Name, version)
				if err != nil {
					return err
				}
				return writeModel(output, cmd.OutOrStdout(), m)
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().StringVar(&version, "version", run.Latest, "the `version` to export: its number, the id of its run, or "+run.Latest)
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the model to a `file` (-: standard output)")
	markRequired(cmd, "output")
	return cmd
}
