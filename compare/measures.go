package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// splits are the splits of a report, by the names that it has for them, and by what people call them.
func splits() []string {
	return []string{examples.Train.String(), examples.Holdout.String(), examples.Test.String()}
}

// Measures returns how runs went: rows, errors and losses of the splits, seconds, and the digests of the weights. A row
// in which no run has a value is left out.
func Measures(runs []Run) (rows []Row) {
	add := func(name string, value func(*schemas.Report) (string, bool)) {
		row, any := Row{Name: name}, false
		for _, r := range runs {
			text := None
			if r.Report != nil {
				if v, ok := value(r.Report); ok {
					text, any = v, true
				}
			}
			row.Values = append(row.Values, text)
		}
		if any {
			rows = append(rows, row)
		}
	}
	of := func(split string, value func(schemas.SplitReport) string) func(*schemas.Report) (string, bool) {
		return func(r *schemas.Report) (string, bool) {
			s, ok := r.Splits[split]
			return value(s), ok
		}
	}
	type known struct {
		name  string
		value func(schemas.SplitReport) *float64 // nil: not known
	}
	addKnown := func(split string, format func(float64) string, measures []known) {
		for _, m := range measures {
			add(split+" "+m.name, func(r *schemas.Report) (string, bool) {
				v := m.value(r.Splits[split])
				if v == nil {
					return "", false
				}
				return format(*v), true
			})
		}
	}
	percent := func(v float64) string { return fmt.Sprintf("%.2f %%", v) }
	states := Row{Name: "state"}
	for _, r := range runs {
		states.Values = append(states.Values, r.State)
	}
	rows = append(rows, states)
	for _, split := range splits() {
		add(split+" rows", of(split, func(s schemas.SplitReport) string { return humanize.Comma(s.Rows) }))
	}
	for _, split := range splits() {
		add(split+" error", of(split, func(s schemas.SplitReport) string { return percent(s.Error) }))
	}
	for _, split := range splits() {
		for _, m := range []struct {
			name  string
			value func(*statistics.Decided) string
		}{
			{"threshold", func(d *statistics.Decided) string { return number(d.Threshold) }},
			{"error at the threshold", func(d *statistics.Decided) string { return percent(d.Error) }},
			{"balanced error there", func(d *statistics.Decided) string { return percent(d.BalancedError) }},
			{"precision there", func(d *statistics.Decided) string { return number(d.Precision) }},
			{"recall there", func(d *statistics.Decided) string { return number(d.Recall) }},
			{"F1 there", func(d *statistics.Decided) string { return number(d.F1) }},
			{"rows by class and decision", func(d *statistics.Decided) string {
				c := d.Confusion
				return fmt.Sprintf("%.6g %.6g, %.6g %.6g", c[0][0], c[0][1], c[1][0], c[1][1])
			}},
		} {
			add(split+" "+m.name, func(r *schemas.Report) (string, bool) {
				d := r.Splits[split].Decided
				if d == nil {
					return "", false
				}
				return m.value(d), true
			})
		}
		addKnown(split, percent, []known{
			{"balanced error", func(s schemas.SplitReport) *float64 { return s.BalancedError }},
			{"error of the commonest class", func(s schemas.SplitReport) *float64 { return s.MajorityError }},
		})
	}
	for _, split := range splits() {
		add(split+" loss", of(split, func(s schemas.SplitReport) string { return number(s.Loss) }))
		addKnown(split, number, []known{
			{"log loss", func(s schemas.SplitReport) *float64 { return s.LogLoss }},
			{"calibration error", func(s schemas.SplitReport) *float64 { return s.ECE }},
			{"AUC", func(s schemas.SplitReport) *float64 { return s.AUC }},
			{"average precision", func(s schemas.SplitReport) *float64 { return s.AveragePrecision }},
			{"RMSE", func(s schemas.SplitReport) *float64 { return s.RMSE }},
			{"MAE", func(s schemas.SplitReport) *float64 { return s.MAE }},
			{"R²", func(s schemas.SplitReport) *float64 { return s.R2 }},
		})
	}
	add("passes", func(r *schemas.Report) (string, bool) {
		passes := 0
		for i := range r.Stages {
			passes += r.Stages[i].Passes
		}
		return strconv.Itoa(passes), true
	})
	add("temperature", func(r *schemas.Report) (string, bool) { return number(r.Temperature), r.Temperature != 0 })
	add("seconds", func(r *schemas.Report) (string, bool) { return fmt.Sprintf("%.2f", r.Seconds), true })
	add("weights digest", func(r *schemas.Report) (string, bool) { return r.WeightsDigest.Short(), r.WeightsDigest != "" })
	return rows
}

// bySplit returns the measures of one run that are of splits, with a value for each of these, and the others.
func bySplit(measures []Row) (of []string, rows, others []Row) {
	for _, split := range splits() {
		if slices.ContainsFunc(measures, func(r Row) bool { return r.Name == split+" rows" }) {
			of = append(of, split)
		}
	}
	for _, measure := range measures {
		split, name, _ := strings.Cut(measure.Name, " ")
		column := slices.Index(of, split)
		if column < 0 {
			others = append(others, measure)
			continue
		}
		at := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
		if at < 0 {
			at, rows = len(rows), append(rows, Row{Name: name, Values: slices.Repeat([]string{None}, len(of))})
		}
		rows[at].Values[column] = measure.Values[0]
	}
	return of, rows, others
}

// number formats a loss.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
