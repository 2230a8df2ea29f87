package screen

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/dustin/go-humanize/english"
	"gonum.org/v1/gonum/stat"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// ByError is the default measure by which a search ranks candidates: see [page.Orders].
const ByError = "error"

// Candidate is a configuration of a search, and its run once that has ended.
type Candidate struct {
	*config.Config
	Settings []page.Setting // of the searched keys, which are the same for all candidates
	replay.Candidate

	folds folds // of cross-validation
}

// WriteSearch writes the requested files of a search that has ended, and its results unless a file is the standard output: a row for each
// candidate, and the one that is best by a measure. An empty path stands for no file.
func WriteSearch(stdout io.Writer, list []Candidate, by, output, html string) error {
	var keys []string
	for _, of := range list[0].Settings {
		keys = append(keys, of.Key)
	}
	var runs []page.Compared
	for i, c := range list {
		state := schemas.Done
		if c.Err != nil {
			state = schemas.Failed
		}
		runs = append(runs, page.Compared{Title: fmt.Sprintf("run %d", i+1), State: state, Settings: c.Settings, Plan: c.Plan, Report: c.Report})
	}
	order := page.Order{Split: examples.Holdout.String(), By: by}
	if html != "" {
		about := page.About{Title: "Search over " + english.WordSeries(keys, "and"), Pipeline: list[0].Name, Date: date(time.Now()), By: order}
		if err := Write(html, stdout, func(w io.Writer) error { return page.WritePage(w, about, runs) }); err != nil {
			return err
		}
	}
	best := order.Best(runs) // of those with predictions of the holdout rows, the first of several; negative: there is none
	if best >= 0 && output != "" {
		text, err := list[best].YAML()
		if err != nil {
			return err
		}
		if err := Write(output, stdout, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
			return err
		}
	}
	if output == StandardOutput || html == StandardOutput {
		return nil
	}
	ranks, _ := order.Ranks(runs)
	writeCandidates(stdout, list, ranks, order)
	if best < 0 {
		return errors.New("no run made a version that predicts holdout rows: see the table")
	}
	fmt.Fprint(stdout, "best:")
	for _, s := range list[best].Settings {
		fmt.Fprintf(stdout, " --set %s=%s", s.Key, s.Value)
	}
	fmt.Fprintln(stdout)
	if test := list[best].Report.TestError; test != nil {
		fmt.Fprintf(stdout, "test error %s\n", Percent(test))
	}
	return nil
}

// writeCandidates writes a row for each candidate, the best first.
func writeCandidates(w io.Writer, list []Candidate, ranks []int, order page.Order) {
	var table Table
	titles := []any{"run"} // in the order of the values, as the page numbers them
	for _, of := range list[0].Settings {
		titles = append(titles, of.Key)
	}
	more := !page.OfEveryTask(order.By) // the measure that ranks the runs has a column
	if more {
		titles = append(titles, "holdout "+order.Measure())
	}
	last := "digest"
	if len(list[0].folds) > 0 {
		last = "means"
	}
	table.Row(append(titles, "holdout error", "holdout log loss", "train error", "seconds", last)...)
	for _, n := range ranks {
		c := &list[n]
		cells := []any{n + 1}
		for _, of := range c.Settings {
			cells = append(cells, of.Value)
		}
		if more {
			cells = append(cells, order.Text(c.Report))
		}
		if c.Report == nil {
			table.Row(append(cells, none, none, none, none, c.Err)...)
			continue
		}
		holdout, logLoss := none, none
		if split, ok := c.Report.Splits[order.Split]; ok {
			holdout = Percent(&split.Error) + c.folds.after("%.2f", func(s *schemas.SplitReport) *float64 { return &s.Error })
			logLoss = loss(split.LogLoss) + c.folds.after("%.4f", func(s *schemas.SplitReport) *float64 { return s.LogLoss })
		}
		digest := c.Report.WeightsDigest.Short()
		if n := len(c.folds); n > 0 {
			digest = fmt.Sprintf("of %d folds", n)
		}
		table.Row(append(cells, holdout, logLoss, Percent(&c.Report.TrainError), fmt.Sprintf("%.2f", c.Report.Seconds), digest)...)
	}
	table.Write(w)
}

// folds are the runs of a candidate in cross-validation, each of which holds out a different part of the rows.
type folds []replay.Candidate

// Add adds a run of the candidate. With folds, the report has means of measures, and sums of seconds and of the rows of splits.
func (c *Candidate) Add(made *replay.Candidate) {
	if made.Plan.Fold == (examples.Fold{}) {
		c.Candidate = *made
		return
	}
	c.folds = append(c.folds, *made)
	c.Candidate = c.folds.mean()
}

// mean returns the runs as one, without the parts that belong to a single run: weights, stages and reliability.
func (f folds) mean() replay.Candidate {
	plan := *f[0].Plan
	plan.Fold = examples.Fold{}
	all := replay.Candidate{Plan: &plan}
	var reports []*schemas.Report
	for _, made := range f {
		if made.Err != nil {
			all.Err = fmt.Errorf("fold %d: %w", made.Plan.Fold.Number+1, made.Err)
			return all
		}
		reports = append(reports, made.Report)
	}
	r := *reports[0]
	r.Stages, r.WeightsDigest, r.Thresholds, r.Splits = nil, "", nil, map[string]schemas.SplitReport{}
	r.TrainError = *meanOf(reports, func(r *schemas.Report) *float64 { return &r.TrainError })
	r.TestError = meanOf(reports, func(r *schemas.Report) *float64 { return r.TestError })
	for _, other := range reports[1:] {
		r.Seconds += other.Seconds
		r.Rows = max(r.Rows, other.Rows)
	}
	for name := range reports[0].Splits {
		var splits []*schemas.SplitReport
		for _, r := range reports {
			if s, ok := r.Splits[name]; ok && s.Rows > 0 {
				splits = append(splits, &s)
			}
		}
		if len(splits) > 0 {
			r.Splits[name] = meanSplit(splits)
		}
	}
	all.Report = &r
	return all
}

// meanSplit returns the means of measures that all splits have, and sums of rows.
func meanSplit(splits []*schemas.SplitReport) (s schemas.SplitReport) {
	to := reflect.ValueOf(&s).Elem()
	for i := range to.NumField() {
		switch measure := to.Field(i).Addr().Interface().(type) {
		case *float64:
			for _, split := range splits {
				*measure += reflect.ValueOf(*split).Field(i).Float()
			}
			*measure /= float64(len(splits))
		case **float64:
			*measure = meanOf(splits, func(split *schemas.SplitReport) *float64 {
				return reflect.ValueOf(*split).Field(i).Interface().(*float64)
			})
		}
	}
	for _, split := range splits {
		s.Rows += split.Rows
		for i, row := range split.Confusion {
			if len(s.Confusion) <= i {
				s.Confusion = append(s.Confusion, make([]int64, len(row)))
			}
			for j := range min(len(row), len(s.Confusion[i])) {
				s.Confusion[i][j] += row[j]
			}
		}
	}
	return s
}

// meanOf returns the mean of a measure; nil if any of the values is absent.
func meanOf[T any](of []T, measure func(T) *float64) *float64 {
	sum := 0.0
	for _, v := range of {
		m := measure(v)
		if m == nil {
			return nil
		}
		sum += *m
	}
	sum /= float64(len(of))
	return &sum
}

// after returns the standard deviation of a measure of the holdout rows over the folds, formatted to follow the mean;
// "" with fewer than two values.
func (f folds) after(format string, measure func(*schemas.SplitReport) *float64) string {
	var values []float64
	for _, made := range f {
		if made.Report == nil {
			continue
		}
		if s, ok := made.Report.Splits[examples.Holdout.String()]; ok && measure(&s) != nil {
			values = append(values, *measure(&s))
		}
	}
	if len(values) < 2 {
		return ""
	}
	return fmt.Sprintf(" ± "+format, stat.StdDev(values, nil))
}
