package explanation

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/examples"
)

// What the page of a run explains: so many rows, and at most so many columns, which takes a second or two.
const (
	rowsOfRun    = 2000
	columnsOfRun = 200
	shownOfRun   = 20
)

// OfRun returns the importance of columns and the errors by slices of the rows that a run has held out, as explain has them of a file. A
// run without a version, of other examples than rows of a table, or whose rows are gone has none.
func OfRun(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, r *dispatch.RunDetails) ([]compare.Bars, error) {
	if r.Version == 0 {
		return nil, nil
	}
	m, err := topics.Open(log, r.Pipeline, nil).Model(ctx, fmt.Sprint(r.Version))
	if err != nil || m.Columns() == nil || len(m.Columns()) > columnsOfRun || explain.CheckModel(m) != nil {
		return nil, err
	}
	o := explain.Defaults()
	o.Wrong = 0
	rows, split, err := HeldOut(ctx, topics.Open(log, m.Manifest.Plan.Name, nil), m, rowsOfRun, o.Seed)
	_, deleted := errors.AsType[*kafkalog.DeletedError](err)
	if deleted || errors.Is(err, ErrNothingHeldOut) {
		return nil, nil
	}
	if err != nil || rows.Len() == 0 {
		return nil, err
	}
	report, err := explain.Explain(ctx, m, blas, rows, o)
	if err != nil {
		return nil, err
	}
	return bars(report, split), nil
}

// bars returns the importance of columns and the errors by slices for the page of a run.
func bars(r *explain.Report, split examples.Split) (list []compare.Bars) {
	numbers := r.Task == regression
	head := func(first ...string) []string {
		if first = append(first, "error, %"); !numbers {
			first = append(first, "log loss")
		}
		return first
	}
	cells := func(error, loss string) []string {
		if numbers {
			return []string{error}
		}
		return []string{error, loss}
	}
	importance := compare.Bars{
		Title: "what predictions depend on",
		Caption: fmt.Sprintf("Importance: the increase of the error and of the loss of %s %s rows if a column is permuted; mean ± "+
			"standard deviation of %d permutations", humanize.Comma(int64(r.Rows)), split, r.Shuffles),
		Head: head("column"),
	}
	longest := 0.0
	for _, c := range r.Importance {
		longest = max(longest, c.Rise.Loss)
	}
	for _, c := range r.Importance[:min(len(r.Importance), shownOfRun)] {
		importance.Rows = append(importance.Rows, compare.Bar{
			Name: c.Name, Length: share(c.Rise.Loss, longest),
			Cells: cells(percents(c.Rise.Error, c.Deviation.Error), plusMinus(c.Rise.Loss, c.Deviation.Loss)),
		})
	}
	list = append(list, importance)
	for _, s := range r.Slices {
		of := compare.Bars{Caption: "Errors of these rows by their value of " + s.Name, Head: head(s.Name, "rows"), Wrong: true}
		most := mostError(s)
		for _, slice := range s.Slices {
			of.Rows = append(of.Rows, compare.Bar{
				Name: slice.Value, Length: share(slice.Error, most),
				Cells: append([]string{humanize.Comma(int64(slice.Rows))}, cells(percent(slice.Error), number(slice.Loss))...),
			})
		}
		list = append(list, of)
	}
	return list
}

// share returns v as a part of the most, 0 to 1.
func share(v, most float64) float64 {
	if most <= 0 {
		return 0
	}
	return max(v, 0) / most
}
