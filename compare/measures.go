package compare

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// splits returns the names of the splits of a report.
func splits() []string {
	return []string{examples.Train.String(), examples.Holdout.String(), examples.Test.String()}
}

// measure is a measure of the rows of a split; text returns "" if it is unknown.
type measure struct {
	name string
	text func(schemas.SplitReport) string
}

// measures returns the measures of splits, in groups: a table has all splits of a group before the next one.
func measures() [][]measure {
	type split = schemas.SplitReport
	type atThreshold = statistics.Decided
	known := func(format func(float64) string, value func(split) *float64) func(split) string {
		return func(s split) string {
			if v := value(s); v != nil {
				return format(*v)
			}
			return ""
		}
	}
	decided := func(format func(float64) string, value func(*atThreshold) *float64) func(split) string {
		return known(format, func(s split) *float64 {
			if s.Decided == nil {
				return nil
			}
			return value(s.Decided)
		})
	}
	percent := func(v float64) string { return fmt.Sprintf("%.2f %%", v) }
	return [][]measure{
		{{"rows", func(s split) string { return humanize.Comma(s.Rows) }}},
		{{"error", known(percent, func(s split) *float64 { return &s.Error })}},
		{
			{"threshold", decided(number, func(d *atThreshold) *float64 { return &d.Threshold })},
			{"error at the threshold", decided(percent, func(d *atThreshold) *float64 { return &d.Error })},
			{"balanced error there", decided(percent, func(d *atThreshold) *float64 { return &d.BalancedError })},
			{"precision there", decided(number, func(d *atThreshold) *float64 { return &d.Precision })},
			{"recall there", decided(number, func(d *atThreshold) *float64 { return &d.Recall })},
			{"F1 there", decided(number, func(d *atThreshold) *float64 { return &d.F1 })},
			{"rows by class and decision", func(s split) string {
				if s.Decided == nil {
					return ""
				}
				c := s.Decided.Confusion
				return fmt.Sprintf("%.6g %.6g, %.6g %.6g", c[0][0], c[0][1], c[1][0], c[1][1])
			}},
			{"balanced error", known(percent, func(s split) *float64 { return s.BalancedError })},
			{"error of the commonest class", known(percent, func(s split) *float64 { return s.MajorityError })},
		},
		{
			{"loss", known(number, func(s split) *float64 { return &s.Loss })},
			{"log loss", known(number, func(s split) *float64 { return s.LogLoss })},
			{"calibration error", known(number, func(s split) *float64 { return s.ECE })},
			{"AUC", known(number, func(s split) *float64 { return s.AUC })},
			{"average precision", known(number, func(s split) *float64 { return s.AveragePrecision })},
			{"RMSE", known(number, func(s split) *float64 { return s.RMSE })},
			{"MAE", known(number, func(s split) *float64 { return s.MAE })},
			{"R²", known(number, func(s split) *float64 { return s.R2 })},
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

// number formats a loss.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
