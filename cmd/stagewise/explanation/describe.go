package explanation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/explain"
)

// describe returns the tables of a report: the importance of columns, the partial dependence on some of them, the errors by slices, and the
// rows with the largest loss. of says which rows were permuted, in the caption of the first one, which has the top columns.
func describe(r *explain.Report, of string, top int) (importance compare.Table, dependence, slices []compare.Table, wrong compare.Table) {
	for _, c := range r.Dependence {
		if len(c.Points) > 0 {
			dependence = append(dependence, curve(r, &c))
		}
	}
	for _, s := range r.Slices {
		slices = append(slices, errorsBy(r, s))
	}
	for _, list := range []struct {
		title  string
		tables []compare.Table
	}{{"partial dependence", dependence}, {"errors by slices", slices}} {
		if len(list.tables) > 0 {
			list.tables[0].Title = list.title
		}
	}
	return importanceOf(r, of, top), dependence, slices, mostWrong(r)
}

// ofTask leaves out the last of some cells or heads, that of the log loss, of a model of numbers.
func ofTask(r *explain.Report, cells ...string) []string {
	if r.Task == explain.Regression {
		return cells[:len(cells)-1]
	}
	return cells
}

func importanceOf(r *explain.Report, of string, top int) compare.Table {
	t := compare.Table{Title: "importance of columns", Head: ofTask(r, "column", "error, %", "log loss"),
		Caption: fmt.Sprintf("increase of the error%s if a column is permuted, mean ± deviation of %d", of, r.Shuffles)}
	longest := math.SmallestNonzeroFloat64
	for _, c := range r.Importance {
		longest = max(longest, c.Rise.Loss)
	}
	for _, c := range r.Importance[:min(len(r.Importance), top)] {
		t.Rows = append(t.Rows, compare.Bar{Name: c.Name, Length: c.Rise.Loss / longest,
			Cells: ofTask(r, percent(c.Rise.Error)+" ± "+percent(c.Deviation.Error), number(c.Rise.Loss)+" ± "+number(c.Deviation.Loss))})
	}
	return t
}

// curve returns the partial dependence on a column. The labels whose probability changes most come first. Those that a screen has place for
// are in the order of the model, as the probabilities of two labels change alike but for rounding.
func curve(r *explain.Report, c *explain.Curve) compare.Table {
	what := "mean probability"
	if r.Task == explain.Regression {
		what = "mean prediction"
	}
	t := compare.Table{Caption: what + " if all rows had this value of " + c.Name, Head: []string{c.Name}}
	order, spread := make([]int, len(r.Labels)), make([]float64, len(r.Labels))
	for k := range order {
		order[k] = k
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range c.Points {
			low, high = min(low, p.Mean[k]), max(high, p.Mean[k])
		}
		spread[k] = high - low
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spread[b], spread[a]) })
	slices.Sort(order[:min(len(order), maxCells)])
	for _, k := range order {
		t.Head = append(t.Head, r.Labels[k])
	}
	for _, p := range c.Points {
		row := compare.Bar{Name: p.Value}
		for _, k := range order {
			row.Cells = append(row.Cells, number(p.Mean[k]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func errorsBy(r *explain.Report, s explain.Slices) compare.Table {
	t := compare.Table{Caption: "errors by " + s.Name, Head: ofTask(r, s.Name, "rows", "error, %", "log loss"), Wrong: true}
	most := math.SmallestNonzeroFloat64
	for _, slice := range s.Slices {
		most = max(most, slice.Error)
	}
	for _, slice := range s.Slices {
		t.Rows = append(t.Rows, compare.Bar{Name: slice.Value, Length: slice.Error / most,
			Cells: ofTask(r, humanize.Comma(int64(slice.Rows)), percent(slice.Error), number(slice.Loss))})
	}
	return t
}

func mostWrong(r *explain.Report) compare.Table {
	t := compare.Table{Title: "rows with the largest loss", Caption: "the rows with the largest loss, counted from 0",
		Head: []string{"row", "label", "predicted", "probability", "log loss"}}
	if r.Task == explain.Regression {
		t.Head = t.Head[:1]
		for _, name := range r.Labels {
			t.Head = append(t.Head, name, "predicted")
		}
	}
	for _, w := range r.Wrong {
		row := compare.Bar{Name: strconv.FormatInt(w.Row, 10), Cells: []string{w.Label, w.Predicted, number(w.Probability), number(w.Loss)}}
		if r.Task == explain.Regression {
			row.Cells = nil
			for k := range r.Labels {
				row.Cells = append(row.Cells, number(w.Numbers[k]), number(w.Predictions[k]))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func measured(r *explain.Report) string {
	if r.Task == explain.Regression {
		return fmt.Sprintf("squared error %s %% of the variance", percent(r.Measures.Error))
	}
	return fmt.Sprintf("error %s %%, log loss %s", percent(r.Measures.Error), number(r.Measures.Loss))
}

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// number writes a measure with three or four digits.
func number(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1e6:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case size >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case size < 0.00005:
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}
