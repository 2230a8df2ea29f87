package compare

import (
	"cmp"
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

// measure is what a table has of the rows of a split; text returns "" if it is not known.
type measure struct {
	name string
	text func(schemas.SplitReport) string
}

// measures returns the measures of splits, in groups: a table has all splits of a group before the next one.
func measures() [][]measure {
	known := func(format func(float64) string, value func(schemas.SplitReport) *float64) func(schemas.SplitReport) string {
		return func(s schemas.SplitReport) string {
			if v := value(s); v != nil {
				return format(*v)
			}
			return ""
		}
	}
	decided := func(text func(*statistics.Decided) string) func(schemas.SplitReport) string {
		return func(s schemas.SplitReport) string {
			if s.Decided == nil {
				return ""
			}
			return text(s.Decided)
		}
	}
	percent := func(v float64) string { return fmt.Sprintf("%.2f %%", v) }
	return [][]measure{
		{{"rows", func(s schemas.SplitReport) string { return humanize.Comma(s.Rows) }}},
		{{"error", func(s schemas.SplitReport) string { return percent(s.Error) }}},
		{
			{"threshold", decided(func(d *statistics.Decided) string { return number(d.Threshold) })},
			{"error at the threshold", decided(func(d *statistics.Decided) string { return percent(d.Error) })},
			{"balanced error there", decided(func(d *statistics.Decided) string { return percent(d.BalancedError) })},
			{"precision there", decided(func(d *statistics.Decided) string { return number(d.Precision) })},
			{"recall there", decided(func(d *statistics.Decided) string { return number(d.Recall) })},
			{"F1 there", decided(func(d *statistics.Decided) string { return number(d.F1) })},
			{"rows by class and decision", decided(func(d *statistics.Decided) string {
				c := d.Confusion
				return fmt.Sprintf("%.6g %.6g, %.6g %.6g", c[0][0], c[0][1], c[1][0], c[1][1])
			})},
			{"balanced error", known(percent, func(s schemas.SplitReport) *float64 { return s.BalancedError })},
			{"error of the commonest class", known(percent, func(s schemas.SplitReport) *float64 { return s.MajorityError })},
		},
		{
			{"loss", func(s schemas.SplitReport) string { return number(s.Loss) }},
			{"log loss", known(number, func(s schemas.SplitReport) *float64 { return s.LogLoss })},
			{"calibration error", known(number, func(s schemas.SplitReport) *float64 { return s.ECE })},
			{"AUC", known(number, func(s schemas.SplitReport) *float64 { return s.AUC })},
			{"average precision", known(number, func(s schemas.SplitReport) *float64 { return s.AveragePrecision })},
			{"RMSE", known(number, func(s schemas.SplitReport) *float64 { return s.RMSE })},
			{"MAE", known(number, func(s schemas.SplitReport) *float64 { return s.MAE })},
			{"R²", known(number, func(s schemas.SplitReport) *float64 { return s.R2 })},
		},
	}
}

// Measures returns how runs went: rows, errors and losses of the splits, seconds, and the digests of the weights. A row
// in which no run has a value is left out.
func Measures(runs []Run) []Row {
	rows := []Row{{Name: "state"}}
	for _, r := range runs {
		rows[0].Values = append(rows[0].Values, r.State)
	}
	add := func(name string, text func(*schemas.Report) string) {
		row, any := Row{Name: name}, false
		for _, r := range runs {
			value := ""
			if r.Report != nil {
				value = text(r.Report)
			}
			any = any || value != ""
			row.Values = append(row.Values, cmp.Or(value, None))
		}
		if any {
			rows = append(rows, row)
		}
	}
	for _, group := range measures() {
		for _, split := range splits() {
			for _, m := range group {
				add(split+" "+m.name, func(r *schemas.Report) string {
					if s, ok := r.Splits[split]; ok {
						return m.text(s)
					}
					return ""
				})
			}
		}
	}
	add("passes", func(r *schemas.Report) string {
		passes := 0
		for i := range r.Stages {
			passes += r.Stages[i].Passes
		}
		return strconv.Itoa(passes)
	})
	add("temperature", func(r *schemas.Report) string {
		if r.Temperature == 0 {
			return ""
		}
		return number(r.Temperature)
	})
	add("seconds", func(r *schemas.Report) string { return fmt.Sprintf("%.2f", r.Seconds) })
	add("weights digest", func(r *schemas.Report) string { return r.WeightsDigest.Short() })
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
