package main

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/explanation"
	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/compare"
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

func newRunsShow() *cobra.Command {
	var (
		from configFlags
		html string
	)
	cmd := &cobra.Command{
		Use: "show -c FILE RUN", Short: "Show the plan and the results of a run", Args: exactly("RUN"),
		Long: "Show a run, given its id or version number: its results, its stages, and the fields of its plan.\n--html writes a page " +
			"with diagrams of errors and losses, reliability and confusion, and for a\nversion trained on a table the importance of " +
			"columns and errors by slices of held-out\nrows, or on images its filters and misclassified test images.",
		Example: "  stagewise runs show -c digits.yaml 1\n  stagewise runs show -c digits.yaml 1 --html run.html",
		RunE: from.onPipeline(func(*config.Config, []string) error {
			return screen.CheckWritable(html)
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			runs, err := dispatch.Describe(cmd.Context(), log, c.Name, args...)
			if err != nil {
				return err
			}
			if html != "" {
				blas, err := openBLAS()
				if err != nil {
					return err
				}
				open := func(pipeline string) *topics.Pipeline { return openExamples(log, c, pipeline) }
				list := screen.Compared(runs)
				if list[0].Galleries, err = screen.Galleries(cmd.Context(), open, blas, &runs[0]); err != nil {
					return err
				}
				if list[0].Bars, err = explanation.OfRun(cmd.Context(), open, blas, &runs[0]); err != nil {
					return err
				}
				if err := writePage(cmd, html, screen.AboutRun(list[0], runs[0]), list); err != nil {
					return err
				}
			}
			if html == screen.StandardOutput {
				return nil
			}
			return screen.WriteRun(cmd.OutOrStdout(), &runs[0])
		}),
	}
	from.add(cmd)
	cmd.Flags().StringVar(&html, "html", "", "write the run as a page to a `file` (-: standard output)")
	return cmd
}

func newRunsCompare() *cobra.Command {
	var (
		from     configFlags
		by, html string
	)
	cmd := &cobra.Command{
		Use: "compare -c FILE RUN RUN…", Short: "Compare the plans and the results of runs",
		Long: "Compare runs, given by id or version number. For a run of another pipeline on the same brokers,\nprefix the name of " +
			"the pipeline: wide/3. --html writes a self-contained page with diagrams of errors\nand losses by stage and by pass, " +
			"reliability and confusion.",
		Example: `  stagewise runs compare -c digits.yaml 1 2
  stagewise runs compare -c digits.yaml 3 wide/1 wide/2 --html compared.html`,
		RunE: from.onPipeline(func(_ *config.Config, args []string) error {
			if len(args) < 2 {
				return errors.New("expected two or more runs: run ids or version numbers; see runs list and weights list")
			}
			return errors.Join(checkBy(by), screen.CheckWritable(html))
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			runs, err := dispatch.Describe(cmd.Context(), log, c.Name, args...)
			if err != nil {
				return err
			}
			list, order := screen.Compared(runs), compare.Order{By: by}
			if html != "" {
				if err := writePage(cmd, html, screen.AboutRuns(runs, by), list); err != nil {
					return err
				}
			}
			if html == screen.StandardOutput {
				return nil
			}
			if cmd.Flags().Changed("by") {
				list = order.Sorted(list)
			}
			return screen.WriteCompared(cmd.OutOrStdout(), list, order)
		}),
	}
	from.add(cmd)
	cmd.Flags().StringVar(&by, "by", screen.ByError, "sort by this `measure` of the holdout rows, or without any of the test rows; without "+
		"--by only the page is sorted: error, loss, auc, average_precision or balanced_error")
	cmd.Flags().StringVar(&html, "html", "", "write the comparison as a page to a `file` (-: standard output)")
	return cmd
}

// writePage writes a page about runs to a file.
func writePage(cmd *cobra.Command, file string, about compare.About, runs []compare.Run) error {
	return screen.Write(file, cmd.OutOrStdout(), func(w io.Writer) error { return compare.WritePage(w, about, runs) })
}
