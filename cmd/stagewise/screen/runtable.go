package screen

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// WriteRun writes what is known of a run.
func WriteRun(w io.Writer, r *dispatch.RunDetails) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "run\t%s of %s\nsince\t%s\n", r.Run, r.Pipeline, date(r.Since))
	if r.Version > 0 {
		fmt.Fprintf(table, "version\t%d\n", r.Version)
	}
	if r.Reason != "" {
		fmt.Fprintf(table, "reason\t%s\n", r.Reason)
	}
	compared := Compared([]dispatch.RunDetails{*r})
	for _, row := range compare.Measures(compared) {
		fmt.Fprintf(table, "%s\t%s\n", row.Name, row.Values[0])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if r.Report != nil {
		fmt.Fprint(w, stageHead(true))
		for t := range r.Report.Stages {
			fmt.Fprint(w, stageRows(&r.Report.Stages[t], len(r.Report.Stages), true))
		}
		fmt.Fprintln(w)
		if err := writeClasses(w, r.Report); err != nil {
			return err
		}
	}
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "plan\t")
	for _, row := range compare.Fields(compared[0]) {
		fmt.Fprintf(table, "%s\t%s\n", row.Name, row.Values[0])
	}
	return table.Flush()
}

// mostClasses is of how many classes a run has rows on the screen. The report has more.
const mostClasses = 50

// writeClasses writes a row for each class: how well rows of the first split of test, holdout and training rows are told to be of it.
func writeClasses(w io.Writer, r *schemas.Report) error {
	for _, split := range []examples.Split{examples.Test, examples.Holdout, examples.Train} {
		s := r.Splits[split.String()]
		n := len(s.F1)
		if n == 0 || n > mostClasses || n != len(r.Labels) || n != len(s.Precision) || n != len(s.Recall) {
			continue
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "class\t%s precision\trecall\tF1\n", split)
		for c, label := range r.Labels {
			fmt.Fprintf(table, "%s\t%.4f\t%.4f\t%.4f\n", label, s.Precision[c], s.Recall[c], s.F1[c])
		}
		fmt.Fprintln(table)
		return table.Flush()
	}
	return nil
}

// WriteRuns writes a row for each run.
func WriteRuns(w io.Writer, runs []dispatch.RunState) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "run\tstate\tsince\trows\tversion\treason")
	for _, r := range runs {
		rows, version := none, none
		if r.Rows >= 0 {
			rows = strconv.FormatInt(r.Rows, 10)
		}
		if r.Version > 0 {
			version = strconv.Itoa(r.Version)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Run, r.State, date(r.Since), rows, version, cmp.Or(r.Reason, none))
	}
	return table.Flush()
}
