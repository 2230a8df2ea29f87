package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
)

func newRunsShow() *cobra.Command {
	var (
		from configFlags
		html string
	)
	cmd := &cobra.Command{
		Use: "show -c FILE RUN", Short: "Show the plan of a run and how it went", Args: cobra.ExactArgs(1),
		Long: "Show a run, given its id or the number of its version: its results, its stages, and the fields of its plan. --html writes a page with\n" +
			"diagrams of errors and losses, reliability and confusion, and of a version that was trained on images with its filters and the test images\n" +
			"that it gets wrong.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := checkWritable(html); err != nil {
				return err
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				runs, err := pipeline.Describe(cmd.Context(), log, c.Name, args...)
				if err != nil {
					return err
				}
				if html != "" {
					list := compared(runs)
					if list[0].Galleries, err = galleries(cmd.Context(), log, &runs[0]); err != nil {
						return err
					}
					if err := write(html, cmd.OutOrStdout(), func(w io.Writer) error { return compare.WritePage(w, list) }); err != nil {
						return err
					}
				}
				if html == standardOutput {
					return nil
				}
				return showRun(cmd.OutOrStdout(), &runs[0])
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().StringVar(&html, "html", "", "write the run as a page to a `file` (-: standard output)")
	return cmd
}

// showRun writes what is known of a run.
func showRun(w io.Writer, r *pipeline.RunDetails) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "run\t%s of %s\nsince\t%s\n", r.Run, r.Pipeline, date(r.Since))
	if r.Version > 0 {
		fmt.Fprintf(table, "version\t%d\n", r.Version)
	}
	if r.Reason != "" {
		fmt.Fprintf(table, "reason\t%s\n", r.Reason)
	}
	compared := compared([]pipeline.RunDetails{*r})
	for _, row := range compare.Measures(compared) {
		fmt.Fprintf(table, "%s\t%s\n", row.Name, row.Values[0])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if r.Report != nil {
		fmt.Fprint(w, headHoldout)
		fmt.Fprintf(w, rowHoldout, "stage", "link", "passes", "train", "holdout", "test", "train", "holdout", "test", "seconds")
		for t := range r.Report.Stages {
			fmt.Fprint(w, stageRows(&r.Report.Stages[t], len(r.Report.Stages), true))
		}
		fmt.Fprintln(w)
	}
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "plan\t")
	for _, row := range compare.Fields(compared[0]) {
		fmt.Fprintf(table, "%s\t%s\n", row.Name, row.Values[0])
	}
	return table.Flush()
}

// compared returns runs as package compare knows them.
func compared(runs []pipeline.RunDetails) (list []compare.Run) {
	names := map[string]bool{}
	for _, r := range runs {
		names[r.Pipeline] = true
	}
	for _, r := range runs {
		title := "run " + r.Run
		if r.Version > 0 {
			title = fmt.Sprintf("version %d", r.Version)
		}
		if len(names) > 1 {
			title = r.Pipeline + " " + title
		}
		list = append(list, compare.Run{Title: title, State: r.State, Plan: r.Plan, Report: r.Report})
	}
	return list
}

func newRunsCompare() *cobra.Command {
	var (
		from configFlags
		html string
	)
	cmd := &cobra.Command{
		Use: "compare -c FILE RUN RUN…", Short: "Compare runs: what differs in their plans, and how they went",
		Long: "Compare runs, given by their ids or by the numbers of their versions. Those of other pipelines on the same brokers have the name\n" +
			"of the pipeline before them: wide/3. --html writes a page with diagrams of errors and losses by stage and by pass, reliability and\n" +
			"confusion. It is one file that needs nothing else.",
		Example: `  stagewise runs compare -c digits.yaml 1 2
  stagewise runs compare -c digits.yaml 3 wide/1 wide/2 --html compared.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if len(args) < 2 {
				return errors.New("expected two runs or more: ids, or numbers of versions; runs list and weights list have them")
			}
			if err := checkWritable(html); err != nil {
				return err
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				runs, err := pipeline.Describe(cmd.Context(), log, c.Name, args...)
				if err != nil {
					return err
				}
				list := compared(runs)
				if html != "" {
					if err := write(html, cmd.OutOrStdout(), func(w io.Writer) error { return compare.WritePage(w, list) }); err != nil {
						return err
					}
				}
				if html == standardOutput {
					return nil
				}
				return writeCompared(cmd.OutOrStdout(), list)
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().StringVar(&html, "html", "", "write the comparison as a page to a `file` (-: standard output)")
	return cmd
}

// writeCompared writes how runs went, and then in what their plans differ.
func writeCompared(w io.Writer, runs []compare.Run) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	titles := ""
	for _, r := range runs {
		titles += "\t" + r.Title
	}
	rows := func(list []compare.Row) {
		for _, row := range list {
			fmt.Fprintf(table, "%s\t%s\n", row.Name, strings.Join(row.Values, "\t"))
		}
	}
	fmt.Fprintln(table, "result"+titles)
	rows(compare.Measures(runs))
	fmt.Fprintln(table, "\t")
	differences := compare.Differences(runs)
	if len(differences) == 0 {
		fmt.Fprintln(table, "the plans are the same")
		return table.Flush()
	}
	fmt.Fprintln(table, "plan"+titles)
	rows(differences)
	return table.Flush()
}
