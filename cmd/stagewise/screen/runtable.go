package screen

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// WriteRun writes the results, the stages and the plan of a run.
func WriteRun(w io.Writer, r *dispatch.RunDetails) error {
	var table artifact.Table
	table.Row("run", r.Run+" of "+r.Pipeline)
	table.Row("since", date(r.Since))
	if r.Version > 0 {
		table.Row("version", r.Version)
	}
	if r.Reason != "" {
		table.Row("reason", r.Reason)
	}
	compared := Compared([]dispatch.RunDetails{*r})
	for _, row := range compare.Measures(compared) {
		table.Row(row.Name, row.Values[0])
	}
	if err := table.Write(w); err != nil {
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
	table = artifact.Table{}
	table.Row("plan", "")
	for _, row := range compare.Fields(compared[0]) {
		table.Row(row.Name, row.Values[0])
	}
	return table.Write(w)
}

// mostClasses is the maximum number of classes on the screen. The report has all.
const mostClasses = 50

// writeClasses writes precision, recall and F1 of each class, of test rows, or else of holdout or training rows.
func writeClasses(w io.Writer, r *schemas.Report) error {
	for _, split := range []examples.Split{examples.Test, examples.Holdout, examples.Train} {
		s := r.Splits[split.String()]
		n := len(s.F1)
		if n == 0 || n > mostClasses || n != len(r.Labels) || n != len(s.Precision) || n != len(s.Recall) {
			continue
		}
		var table artifact.Table
		table.Row("class", fmt.Sprintf("%s precision", split), "recall", "F1")
		for c, label := range r.Labels {
			table.Row(label, fmt.Sprintf("%.4f", s.Precision[c]), fmt.Sprintf("%.4f", s.Recall[c]), fmt.Sprintf("%.4f", s.F1[c]))
		}
		table.Row()
		return table.Write(w)
	}
	return nil
}

// WriteRuns writes a row for each run.
func WriteRuns(w io.Writer, runs []dispatch.RunState) error {
	var table artifact.Table
	table.Row("run", "state", "since", "rows", "version", "reason")
	for _, r := range runs {
		rows, version := none, none
		if r.Rows >= 0 {
			rows = strconv.FormatInt(r.Rows, 10)
		}
		if r.Version > 0 {
			version = strconv.Itoa(r.Version)
		}
		table.Row(r.Run, r.State, date(r.Since), rows, version, cmp.Or(r.Reason, none))
	}
	return table.Write(w)
}

// The formats of the table, which fits into 80 columns, without and with a holdout.
const (
	head        = "                                error             loss\n"
	row         = "%6s  %-10s  %6s  %7s  %7s  %7s  %7s  %7s\n"
	headHoldout = "                                   error                    loss\n"
	rowHoldout  = "%6s %-10s %6s %7s %7s %7s %7s %7s %7s %7s\n"
)

// stageHead returns the head of the table.
func stageHead(heldOut bool) string {
	if heldOut {
		return headHoldout + fmt.Sprintf(rowHoldout, "stage", "link", "passes", "train", "holdout", "test", "train", "holdout", "test", "seconds")
	}
	return head + fmt.Sprintf(row, "stage", "link", "passes", "train", "test", "train", "test", "seconds")
}

// stageRows returns the row of a stage. After the last stage of the second and each later member comes a row of the mean of all members so
// far.
func stageRows(s *schemas.StageReport, stages int, heldOut bool) string {
	of := func(number, link, passes, seconds string, m *schemas.AverageReport) string {
		text := fmt.Sprintf(row, number, link, passes, Percent(&m.TrainError), Percent(m.TestError), loss(&m.TrainLoss), loss(m.TestLoss),
			seconds)
		if heldOut {
			text = fmt.Sprintf(rowHoldout, number, link, passes, Percent(&m.TrainError), Percent(m.HoldoutError), Percent(m.TestError),
				loss(&m.TrainLoss), loss(m.HoldoutLoss), loss(m.TestLoss), seconds)
		}
		return strings.TrimRight(text, " \n") + "\n"
	}
	text := of(fmt.Sprintf("%d/%d", s.Stage+1, stages), s.Link, fmt.Sprint(s.Passes), fmt.Sprintf("%.1f", s.Seconds), &schemas.AverageReport{
		TrainError: s.TrainError, HoldoutError: s.HoldoutError, TestError: s.TestError, TrainLoss: s.TrainLoss,
		HoldoutLoss: s.HoldoutLoss, TestLoss: s.TestLoss,
	})
	if a := s.Average; a != nil && a.Members > 1 {
		text += of("mean", fmt.Sprintf("of %d", a.Members), "", "", a)
	}
	return text
}
