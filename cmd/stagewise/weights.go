package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

func newWeights() *cobra.Command {
	return group("weights", "The versions of a pipeline's weights", newWeightsList(), newWeightsExport())
}

func newWeightsList() *cobra.Command {
	var from choice
	cmd := &cobra.Command{
		Use: "list -c FILE", Short: "All finished versions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, trouble(cmd), func(log *kafkalog.Log) error {
				versions, err := pipeline.Versions(cmd.Context(), log, c.Name)
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "version\trun\tstages\ttest error\tdigest")
				for _, v := range versions {
					fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\n", v.Version, v.Run, len(v.Blocks), testError(v), v.WeightsDigest.Short())
				}
				return table.Flush()
			}))
		},
	}
	from.flags(cmd)
	return cmd
}

func testError(m schemas.Manifest) string {
	if v, ok := m.Metrics["test_error"]; ok {
		return percent(&v)
	}
	return none
}

func newWeightsExport() *cobra.Command {
	var (
		from            choice
		version, output string
	)
	cmd := &cobra.Command{
		Use: "export -c FILE -o FILE", Short: "Write a version to a file, for predict", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := writable(output); err != nil {
				return err
			}
			return failed(withLog(cmd.Context(), c, trouble(cmd), func(log *kafkalog.Log) error {
				m, err := pipeline.LoadModel(cmd.Context(), log, c.Name, version)
				if err != nil {
					return err
				}
				return writeModel(output, cmd.OutOrStdout(), m)
			}))
		},
	}
	from.flags(cmd)
	cmd.Flags().StringVar(&version, "version", "latest", "the `version`: its number, its run, or latest")
	cmd.Flags().StringVarP(&output, "output", "o", "", "where to write, a `file` (-: standard output)")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}
