package screen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"
	"gonum.org/v1/gonum/stat"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Compared converts runs for package page.
func Compared(runs []dispatch.RunDetails) (list []page.Compared) {
	several := len(Pipelines(runs)) > 1
	for _, r := range runs {
		title := "run " + r.Run
		if r.Version > 0 {
			title = fmt.Sprintf("version %d", r.Version)
		}
		if several {
			title = r.Pipeline + " " + title
		}
		list = append(list, page.Compared{Title: title, State: r.State, Date: date(r.Since), Plan: r.Plan, Report: r.Report})
	}
	return list
}

// Pipelines returns the names of the pipelines of runs.
func Pipelines(runs []dispatch.RunDetails) (names []string) {
	for _, r := range runs {
		if !slices.Contains(names, r.Pipeline) {
			names = append(names, r.Pipeline)
		}
	}
	return names
}

// maxValue is the maximum number of characters of a value on a terminal that compares runs. "runs show" does not cut values.
const maxValue = 24

// WriteCompared writes the results of runs, and then the differences of their plans, with a column for each run. On a
// terminal, runs that do not fit beside the others follow below them.
func WriteCompared(w io.Writer, runs []page.Compared, by page.Order) {
	rows, differ := comparison(runs, by)
	columns, most := 0, math.MaxInt
	if width := terminalWidth(w); width != nil {
		columns, most = width(), maxValue
	}
	for i, list := range beside(rows, columns, most) {
		if i > 0 {
			fmt.Fprintln(w)
		}
		table := tableOf(rows, list, most)
		if !differ {
			table.Row()
			table.Row("the plans are identical")
		}
		table.Write(w)
	}
}

// comparison returns the rows of a comparison, and whether the plans differ.
func comparison(runs []page.Compared, by page.Order) (rows []page.Row, differ bool) {
	var titles []string
	for _, r := range runs {
		titles = append(titles, r.Title)
	}
	rows = append([]page.Row{{Name: "result", Values: titles}, rank(runs, by)}, page.Measures(runs)...)
	differences := page.Differences(runs)
	if len(differences) > 0 {
		rows = append(rows, page.Row{Values: make([]string, len(runs))}, page.Row{Name: "plan", Values: titles})
	}
	return append(rows, differences...), len(differences) > 0
}

// tableOf returns the table of some columns of rows, with cells of at most the given number of characters.
func tableOf(rows []page.Row, list []int, most int) (table Table) {
	for _, r := range rows {
		cells := []any{r.Name}
		for _, i := range list {
			cells = append(cells, Cut(r.Values[i], most))
		}
		table.Row(cells...)
	}
	return table
}

// rank returns the ranks of runs, 1 for the best; a run without predictions has none.
func rank(runs []page.Compared, by page.Order) page.Row {
	row := page.Row{Name: "rank by " + by.Words(runs), Values: slices.Repeat([]string{none}, len(runs))}
	ranks, ranked := by.Ranks(runs)
	for place, i := range ranks[:ranked] {
		row.Values[i] = strconv.Itoa(place + 1)
	}
	return row
}

// beside groups the columns of rows that fit beside each other on a terminal with the given number of columns. 0 means no limit.
func beside(rows []page.Row, columns, most int) (lists [][]int) {
	const gap = 2
	names := 0
	for _, row := range rows {
		names = max(names, utf8.RuneCountInString(row.Name)+gap)
	}
	width := 0
	for i := range rows[0].Values {
		own := 0
		for _, row := range rows {
			own = max(own, utf8.RuneCountInString(Cut(row.Values[i], most))+gap)
		}
		if width += own; i == 0 || columns > 0 && names+width > columns {
			lists, width = append(lists, nil), own
		}
		lists[len(lists)-1] = append(lists[len(lists)-1], i)
	}
	return lists
}

// WriteRun writes the results, the stages and the plan of a run.
func WriteRun(w io.Writer, r *dispatch.RunDetails) {
	var table Table
	table.Row("run", r.Run+" of "+r.Pipeline)
	table.Row("since", date(r.Since))
	if r.Version > 0 {
		table.Row("version", r.Version)
	}
	if r.Reason != "" {
		table.Row("reason", r.Reason)
	}
	compared := Compared([]dispatch.RunDetails{*r})
	for _, row := range page.Measures(compared) {
		table.Row(row.Name, row.Values[0])
	}
	table.Write(w)
	fmt.Fprintln(w)
	if r.Report != nil {
		fmt.Fprint(w, stageHead())
		for t := range r.Report.Stages {
			fmt.Fprint(w, stageRows(&r.Report.Stages[t], len(r.Report.Stages)))
		}
		fmt.Fprintln(w)
		writeClasses(w, r.Report)
	}
	table = Table{}
	table.Row("plan", "")
	for _, row := range page.Fields(compared[0]) {
		table.Row(row.Name, row.Values[0])
	}
	table.Write(w)
}

// mostClasses is the maximum number of classes on the screen. The report has all.
const mostClasses = 50

// writeClasses writes precision, recall and F1 of each class, of test rows, or else of holdout or training rows.
func writeClasses(w io.Writer, r *schemas.Report) {
	for _, split := range []examples.Split{examples.Test, examples.Holdout, examples.Train} {
		s := r.Splits[split.String()]
		n := len(s.F1)
		if n == 0 || n > mostClasses || n != len(r.Labels) || n != len(s.Precision) || n != len(s.Recall) {
			continue
		}
		var table Table
		table.Row("class", fmt.Sprintf("%s precision", split), "recall", "F1")
		for c, label := range r.Labels {
			table.Row(label, fmt.Sprintf("%.4f", s.Precision[c]), fmt.Sprintf("%.4f", s.Recall[c]), fmt.Sprintf("%.4f", s.F1[c]))
		}
		table.Row()
		table.Write(w)
		return
	}
}

// WriteRuns writes a row for each run.
func WriteRuns(w io.Writer, runs []dispatch.RunState) {
	var table Table
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
	table.Write(w)
}

// stageRow is the format of the table of stages, which fits into 80 columns.
const stageRow = "%6s %-10s %6s %7s %7s %7s %7s %7s %7s %7s\n"

// stageHead returns the head of the table.
func stageHead() string {
	return "                                   error                    loss\n" +
		fmt.Sprintf(stageRow, "stage", "link", "passes", "train", "holdout", "test", "train", "holdout", "test", "seconds")
}

// stageRows returns the row of a stage. After the last stage of the second and each later member comes a row of the mean of all members so
// far.
func stageRows(s *schemas.StageReport, stages int) string {
	of := func(number, link, passes, seconds string, m *schemas.Measured) string {
		return strings.TrimRight(fmt.Sprintf(stageRow, number, link, passes, Percent(&m.TrainError), Percent(m.HoldoutError),
			Percent(m.TestError), loss(&m.TrainLoss), loss(m.HoldoutLoss), loss(m.TestLoss), seconds), " \n") + "\n"
	}
	text := of(fmt.Sprintf("%d/%d", s.Stage+1, stages), s.Link, fmt.Sprint(s.Passes), fmt.Sprintf("%.1f", s.Seconds), &s.Measured)
	if a := s.Average; a != nil && a.Members > 1 {
		text += of("mean", fmt.Sprintf("of %d", a.Members), "", "", &a.Measured)
	}
	return text
}

// Maximum numbers of filters of a stage and of mistakes on a page.
const (
	maxFilters  = 128
	maxMistakes = 200
)

// AddLearnt adds the results of a run to its page: for images, the filters of its stages and the misclassified test
// images; for tables, the importance of columns and the errors by slices. It adds nothing for a run without a version.
func AddLearnt(ctx context.Context, to *page.Compared, open func(name string) *topics.Pipeline, blas *kernel.BLAS,
	r *dispatch.RunDetails) error {
	if r.Version == 0 {
		return nil
	}
	m, err := open(r.Pipeline).Model(ctx, fmt.Sprint(r.Version))
	if err != nil {
		return err
	}
	p := open(m.Manifest.Plan.Name)
	if m.Image() != (examples.Image{}) {
		if to.Galleries, err = galleries(ctx, p, blas, m); err != nil {
			return err
		}
	}
	if m.Columns() != nil && len(m.Columns()) <= columnsOfRun && explain.CheckModel(m) == nil {
		to.Bars, err = bars(ctx, p, blas, m)
	}
	return err
}

// galleries returns the filters of a model of images, and the misclassified test images.
func galleries(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, m *model.Model) (list []page.Gallery, err error) {
	for t := range m.Manifest.Plan.Stages {
		filters, shape := m.Filters(t)
		if filters.Rows == 0 {
			continue
		}
		g := page.Gallery{Title: fmt.Sprintf("Filters of stage %d", t+1)}
		if filters.Rows > maxFilters {
			g.Title = fmt.Sprintf("The first %d of %d filters of stage %d", maxFilters, filters.Rows, t+1)
		}
		for i := range min(filters.Rows, maxFilters) {
			g.Pictures = append(g.Pictures, page.Picture{Shape: shape, Values: filters.Row(i)})
		}
		list = append(list, g)
	}
	mistakes, err := replay.Mistakes(ctx, p, blas, m, maxMistakes)
	if err != nil || len(mistakes) == 0 {
		return list, err
	}
	g := page.Gallery{Title: fmt.Sprintf("%d misclassified test images", len(mistakes))}
	if len(mistakes) == maxMistakes {
		g.Title = fmt.Sprintf("The first %d misclassified test images", maxMistakes)
	}
	for _, wrong := range mistakes {
		g.Pictures = append(g.Pictures, page.Picture{
			Caption: fmt.Sprintf("%s as %s", wrong.Label, wrong.Predicted), Shape: m.Image(), Values: wrong.Features,
		})
	}
	return append(list, g), nil
}

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
