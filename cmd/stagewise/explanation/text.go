package explanation

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/explain"
)

var nan = math.NaN()

const (
	nameWidth = 24 // characters of a column, a value or a label
	barWidth  = 20 // of the longest bar
	maxLabels = 5  // whose probabilities are shown
)

// regression is the task of a model of numbers.
const regression = "regression"

// writeText writes a report for people, in lines of at most 80 characters.
func writeText(w io.Writer, r *explain.Report, a About) error {
	var out strings.Builder
	numbers := r.Task == regression
	fmt.Fprintf(&out, "%s of %s, version %d: %s\n", english.Plural(r.Rows, "row", ""), a.File, r.Version, measured(r.Measures, numbers))
	if r.Unlabelled > 0 {
		fmt.Fprintf(&out, "%s rows without a label are left out\n", humanize.Comma(r.Unlabelled))
	}
	if r.Unknown > 0 {
		fmt.Fprintf(&out, "%s rows are left out: their labels are unknown to the model\n", humanize.Comma(r.Unknown))
	}
	importance(&out, r, numbers, a.Top)
	for _, c := range r.Dependence {
		curve(&out, r, &c, numbers)
	}
	for _, s := range r.Slices {
		t := table{{s.Name, "rows", "error %", "log loss"}}
		for _, slice := range s.Slices {
			t = append(t, []string{slice.Value, humanize.Comma(int64(slice.Rows)), percent(slice.Error), number(slice.Loss)})
		}
		title(&out, "errors by "+s.Name)
		t.write(&out, columnsOf(numbers, 3))
	}
	wrong(&out, r, numbers)
	_, err := io.WriteString(w, out.String())
	return err
}

// columnsOf leaves out the last column, the log loss, of a model of numbers.
func columnsOf(numbers bool, last int) int {
	if numbers {
		return last
	}
	return last + 1
}

func measured(m explain.Measures, numbers bool) string {
	if numbers {
		return fmt.Sprintf("squared error %s %% of the variance", percent(m.Error))
	}
	return fmt.Sprintf("error %s %%, log loss %s", percent(m.Error), number(m.Loss))
}

func title(out *strings.Builder, text string) { out.WriteString("\n" + text + "\n\n") }

// importance writes the most important columns.
func importance(out *strings.Builder, r *explain.Report, numbers bool, top int) {
	title(out, fmt.Sprintf("importance: increase of the error if a column is permuted, mean ± deviation of %d", r.Shuffles))
	shown := r.Importance[:min(top, len(r.Importance))]
	t := table{{"column", "error %", "log loss", ""}}
	if numbers {
		t[0] = []string{"column", "error %", ""}
	}
	most := max(shown[0].Rise.Loss, math.SmallestNonzeroFloat64)
	for _, c := range shown {
		bar := strings.Repeat("█", max(int(barWidth*c.Rise.Loss/most+0.5), 0))
		if t = append(t, []string{c.Name, percents(c.Rise.Error, c.Deviation.Error)}); !numbers {
			t[len(t)-1] = append(t[len(t)-1], plusMinus(c.Rise.Loss, c.Deviation.Loss))
		}
		t[len(t)-1] = append(t[len(t)-1], bar+strings.Repeat(" ", barWidth-utf8.RuneCountInString(bar)))
	}
	t.write(out, len(t[0]))
	if more := len(r.Importance) - len(shown); more > 0 {
		fmt.Fprintf(out, "and %s: --top %d\n", english.Plural(more, "less important column", ""), len(r.Importance))
	}
}

// curve writes the partial dependence on a column. Of many labels it shows those whose probability changes most.
func curve(out *strings.Builder, r *explain.Report, c *explain.Curve, numbers bool) {
	if len(c.Points) == 0 {
		return
	}
	what := "mean probability"
	if numbers {
		what = "mean prediction"
	}
	title(out, what+" if all rows had this value of "+c.Name)
	order := make([]int, len(r.Labels))
	spread := make([]float64, len(r.Labels))
	for k := range order {
		order[k] = k
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range c.Points {
			low, high = min(low, p.Mean[k]), max(high, p.Mean[k])
		}
		spread[k] = high - low
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spread[b], spread[a]) })
	order = order[:min(len(order), maxLabels)]
	slices.Sort(order)
	t := table{{c.Name}}
	for _, k := range order {
		t[0] = append(t[0], artifact.Cut(r.Labels[k], 10))
	}
	for _, p := range c.Points {
		row := []string{p.Value}
		for _, k := range order {
			row = append(row, number(p.Mean[k]))
		}
		t = append(t, row)
	}
	t.write(out, len(t[0]))
	if more := len(r.Labels) - len(order); more > 0 {
		fmt.Fprintf(out, "and %s that changes less\n", english.Plural(more, "label", ""))
	}
}

// wrong writes the rows that are most wrong.
func wrong(out *strings.Builder, r *explain.Report, numbers bool) {
	title(out, "the rows with the largest loss, counted from 0")
	if !numbers {
		t := table{{"row", "label", "predicted", "probability", "log loss"}}
		for _, w := range r.Wrong {
			t = append(t, []string{strconv.FormatInt(w.Row, 10), w.Label, w.Predicted, number(w.Probability), number(w.Loss)})
		}
		t.write(out, len(t[0]))
		return
	}
	t := table{{"row"}}
	shown := min(len(r.Labels), 3)
	for _, name := range r.Labels[:shown] {
		t[0] = append(t[0], artifact.Cut(name, 12), "predicted")
	}
	for _, w := range r.Wrong {
		row := []string{strconv.FormatInt(w.Row, 10)}
		for k := range shown {
			row = append(row, number(w.Numbers[k]), number(w.Predictions[k]))
		}
		t = append(t, row)
	}
	t.write(out, len(t[0]))
}

func plusMinus(mean, deviation float64) string { return number(mean) + " ± " + number(deviation) }

// percents writes a mean in percent and its deviation.
func percents(mean, deviation float64) string { return percent(mean) + " ± " + percent(deviation) }

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

// table is rows of texts, the first of which has the titles.
type table [][]string

// write writes the first columns: the first to the left, the others to the right.
func (t table) write(out *strings.Builder, columns int) {
	shown := artifact.Table{Right: true}
	for _, row := range t {
		var cells []any
		for _, cell := range row[:columns] {
			cells = append(cells, artifact.Cut(strings.Join(strings.Fields(cell), " "), nameWidth))
		}
		shown.Row(cells...)
	}
	_ = shown.Write(out) // a builder has no errors
}
