package screen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/examples"
)

// ReadLabelled reads the labelled rows of a table: all of them, or a sample of limit rows drawn with the seed.
func ReadLabelled(ctx context.Context, m *model.Model, file string, o ingest.Options, limit int, seed uint64) (*explain.Rows, error) {
	want := layout.Features{Width: m.Width(), Image: m.Image(), Columns: m.Columns(), Labels: m.Labels(), Truth: true}
	drawn, classOf, unlabelled, unknown, number := replay.NewDraw(limit, seed), explain.ClassOf(m), int64(0), int64(0), int64(0)
	for batch, err := range ingest.File(ctx, file, o, want) {
		if err != nil {
			return nil, err
		}
		k := len(batch.Targets) / batch.Rows
		for i := range batch.Rows {
			label, targets := batch.LabelText(i), batch.Targets[i*k:(i+1)*k]
			switch {
			case k == 0 && label == "" || slices.ContainsFunc(targets, math.IsNaN):
				unlabelled++
			case k == 0 && classOf(label) < 0:
				unknown++
			default:
				drawn.Offer(number, func() replay.HeldOut {
					features := batch.Floats[i*batch.Cols : (i+1)*batch.Cols]
					return replay.HeldOut{Features: slices.Clone(features), Label: label, Targets: slices.Clone(targets)}
				})
			}
			number++
		}
	}
	rows := rowsOf(m, drawn.Rows())
	rows.Unlabelled, rows.Unknown = unlabelled, unknown
	return rows, nil
}

// rowsOf returns the rows whose labels the model has.
func rowsOf(m *model.Model, drawn []replay.HeldOut) *explain.Rows {
	rows, classOf := &explain.Rows{Features: kernel.Dense{Cols: m.Width()}}, explain.ClassOf(m)
	for _, row := range drawn {
		if class := classOf(row.Label); m.Task() != examples.Numbers {
			if class < 0 {
				rows.Unknown++
				continue
			}
			rows.Classes = append(rows.Classes, class)
		}
		rows.Targets = append(rows.Targets, row.Targets...)
		rows.Numbers = append(rows.Numbers, row.Number)
		rows.Features.Data = append(rows.Features.Data, row.Features...)
		rows.Features.Rows++
	}
	return rows
}

// errNothingHeldOut says that a version has learnt from all rows of its run.
var errNothingHeldOut = errors.New("the version has no test rows and no holdout rows: set examples.holdout, or use --model and -i")

// HeldOut returns rows that a version has not learnt from, and their split: those of its run that replay reads from the topic.
func HeldOut(ctx context.Context, p *topics.Pipeline, m *model.Model, limit int, seed uint64) (*explain.Rows, examples.Split, error) {
	held, split, err := replay.HeldOutRows(ctx, p, m, limit, seed)
	if err != nil {
		return nil, split, err
	}
	if len(held) == 0 {
		return nil, split, errNothingHeldOut
	}
	return rowsOf(m, held), split, nil
}

// Bounds of the explanation on the page of a run, which takes a second or two.
const (
	rowsOfRun    = 2000
	columnsOfRun = 200
	shownOfRun   = 20
)

// bars returns the importance of columns and the errors by slices on the held-out rows of a model's run, as explain
// does for a file; nil if the rows no longer exist.
func bars(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, m *model.Model) ([]page.Table, error) {
	o := explain.Defaults()
	o.Wrong = 0
	rows, split, err := HeldOut(ctx, p, m, rowsOfRun, o.Seed)
	_, deleted := errors.AsType[*kafkalog.DeletedError](err)
	if deleted || errors.Is(err, errNothingHeldOut) {
		return nil, nil
	}
	if err != nil || rows.Len() == 0 {
		return nil, err
	}
	report, err := explain.Explain(ctx, m, blas, rows, o)
	if err != nil {
		return nil, err
	}
	list := describe(report, fmt.Sprintf(" of %s %s rows", humanize.Comma(int64(report.Rows)), split), shownOfRun)
	list[0].Title = "What predictions depend on"
	return slices.DeleteFunc(list, func(t page.Table) bool { return !t.Wrong && t.Title != list[0].Title }), nil
}

// describe returns the tables of a report: the importance of columns, the partial dependence on some of them, the errors by slices, and the
// rows with the largest loss. of names the permuted rows in the caption of the first table, which has the top columns.
func describe(r *explain.Report, of string, top int) []page.Table {
	list := []page.Table{importanceOf(r, of, top)}
	title := "Partial dependence"
	for _, c := range r.Dependence {
		if len(c.Points) > 0 {
			t := curve(r, &c)
			t.Title, title = title, ""
			list = append(list, t)
		}
	}
	title = "Errors by slices"
	for _, s := range r.Slices {
		t := errorsBy(r, s)
		t.Title, title = title, ""
		list = append(list, t)
	}
	return append(list, mostWrong(r))
}

// ofTask drops the last of some cells or heads, that of the log loss, for a model of numbers.
func ofTask(r *explain.Report, cells ...string) []string {
	if r.Task == explain.Regression {
		return cells[:len(cells)-1]
	}
	return cells
}

func importanceOf(r *explain.Report, of string, top int) page.Table {
	t := page.Table{Title: "Importance of columns", Head: ofTask(r, "column", "error, %", "log loss"),
		Caption: fmt.Sprintf("increase of the error%s if a column is permuted, mean ± deviation of %d", of, r.Shuffles)}
	longest := math.SmallestNonzeroFloat64
	for _, c := range r.Importance {
		longest = max(longest, c.Rise.Loss)
	}
	for _, c := range r.Importance[:min(len(r.Importance), top)] {
		t.Rows = append(t.Rows, page.Bar{Length: c.Rise.Loss / longest,
			Cells: ofTask(r, c.Name, percent(c.Rise.Error)+" ± "+percent(c.Deviation.Error), number(c.Rise.Loss)+" ± "+number(c.Deviation.Loss))})
	}
	return t
}

// curve returns the partial dependence on a column. The labels whose probability changes most come first. Those that
// fit on a screen are in the order of the model, as the probabilities of two labels change equally up to rounding.
func curve(r *explain.Report, c *explain.Curve) page.Table {
	what := "mean probability"
	if r.Task == explain.Regression {
		what = "mean prediction"
	}
	t := page.Table{Caption: what + " if all rows had this value of " + c.Name, Head: []string{c.Name}}
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
	slices.Sort(order[:min(len(order), maxColumns)])
	for _, k := range order {
		t.Head = append(t.Head, r.Labels[k])
	}
	for _, p := range c.Points {
		cells := []string{p.Value}
		for _, k := range order {
			cells = append(cells, number(p.Mean[k]))
		}
		t.Rows = append(t.Rows, page.Bar{Cells: cells})
	}
	return t
}

func errorsBy(r *explain.Report, s explain.Slices) page.Table {
	t := page.Table{Caption: "errors by " + s.Name, Head: ofTask(r, s.Name, "rows", "error, %", "log loss"), Wrong: true}
	most := math.SmallestNonzeroFloat64
	for _, slice := range s.Slices {
		most = max(most, slice.Error)
	}
	for _, slice := range s.Slices {
		t.Rows = append(t.Rows, page.Bar{Length: slice.Error / most,
			Cells: ofTask(r, slice.Value, humanize.Comma(int64(slice.Rows)), percent(slice.Error), number(slice.Loss))})
	}
	return t
}

func mostWrong(r *explain.Report) page.Table {
	t := page.Table{Title: "Rows with the largest loss", Caption: "the rows with the largest loss, counted from 0",
		Head: []string{"row", "label", "predicted", "probability", "log loss"}}
	if r.Task == explain.Regression {
		t.Head = t.Head[:1]
		for _, name := range r.Labels {
			t.Head = append(t.Head, name, "predicted")
		}
	}
	for _, w := range r.Wrong {
		cells := []string{strconv.FormatInt(w.Row, 10), w.Label, w.Predicted, number(w.Probability), number(w.Loss)}
		if r.Task == explain.Regression {
			cells = cells[:1]
			for k := range r.Labels {
				cells = append(cells, number(w.Numbers[k]), number(w.Predictions[k]))
			}
		}
		t.Rows = append(t.Rows, page.Bar{Cells: cells})
	}
	return t
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

// Explained is the subject and the outputs of an explanation.
type Explained struct {
	File       string // of the rows
	Top        int    // columns that are shown
	JSON, HTML string // files; "": none
}

// WriteExplanation writes the requested files, and a report as text unless a file is the standard output.
func WriteExplanation(stdout io.Writer, r *explain.Report, a Explained) error {
	if err := WriteJSON(a.JSON, stdout, r); err != nil {
		return err
	}
	list := describe(r, "", a.Top)
	measures := fmt.Sprintf("error %s %%, log loss %s", percent(r.Measures.Error), number(r.Measures.Loss))
	if r.Task == explain.Regression {
		measures = fmt.Sprintf("squared error %s %% of the variance", percent(r.Measures.Error))
	}
	head := fmt.Sprintf("%s of %s, version %d: %s", english.Plural(r.Rows, "row", ""), a.File, r.Version, measures)
	if r.Unlabelled > 0 {
		head += fmt.Sprintf("\n%s rows without a label are left out", humanize.Comma(r.Unlabelled))
	}
	if r.Unknown > 0 {
		head += fmt.Sprintf("\n%s rows are left out: their labels are unknown to the model", humanize.Comma(r.Unknown))
	}
	if a.HTML != "" {
		err := Write(a.HTML, stdout, func(w io.Writer) error {
			about := page.About{Title: "What predictions depend on", Text: strings.ReplaceAll(head, "\n", "; ")}
			return page.WriteTables(w, about, list)
		})
		if err != nil {
			return err
		}
	}
	if a.JSON == StandardOutput || a.HTML == StandardOutput {
		return nil
	}
	more := ""
	if n := len(r.Importance) - a.Top; n > 0 {
		more = fmt.Sprintf("and %s: --top %d\n", english.Plural(n, "less important column", ""), len(r.Importance))
	}
	_, err := io.WriteString(stdout, head+"\n"+text(list[:1])+more+text(list[1:]))
	return err
}

// The widths of tables on a screen, which fit into 80 columns.
const (
	nameWidth  = 24 // characters of a name or a cell
	headWidth  = 11 // characters of the head of a cell
	barWidth   = 20 // of the longest bar
	maxColumns = 4  // of a row
)

// text formats tables as lines of at most 80 characters.
func text(list []page.Table) string {
	var out strings.Builder
	for _, t := range list {
		fmt.Fprintf(&out, "\n%s\n\n", t.Caption)
		shown, most := Table{Right: true}, min(len(t.Head), maxColumns+1)
		row := func(width int, cells []string, bar float64) {
			all := []any{Cut(oneLine(cells[0]), nameWidth)}
			for _, cell := range cells[1:most] {
				all = append(all, Cut(oneLine(cell), width))
			}
			if t.Barred() {
				all = append(all, strings.Repeat("█", int(barWidth*max(bar, 0)+0.5)))
			}
			shown.Row(all...)
		}
		row(headWidth, t.Head, 0)
		for _, b := range t.Rows {
			row(nameWidth, b.Cells, b.Length)
		}
		shown.Write(&out)
		if more := len(t.Head) - most; more > 0 {
			fmt.Fprintf(&out, "and %s: --html\n", english.Plural(more, "other column", ""))
		}
	}
	return out.String()
}
