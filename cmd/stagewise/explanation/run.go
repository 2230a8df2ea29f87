package explanation

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// Bounds of the explanation on the page of a run, which takes a second or two.
const (
	rowsOfRun    = 2000
	columnsOfRun = 200
	shownOfRun   = 20
)

// OfRun returns the importance of columns and the errors by slices of the rows that a run has held out, as explain has them of a file. A
// run without a version, of other examples than rows of a table, or whose rows are gone has none.
func OfRun(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, r *dispatch.RunDetails) ([]compare.Table, error) {
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
	return tables(report, split.String()+" rows", shownOfRun), nil
}

// tables returns the importance of columns and the errors by slices of rows of some kind.
func tables(r *explain.Report, kind string, top int) (list []compare.Table) {
	numbers := r.Task == regression
	head := func(first ...string) []string {
		return append(first, []string{"error, %", "log loss"}[:columnsOf(numbers, 1)]...)
	}
	importance := compare.Table{
		Title: "what predictions depend on",
		Caption: fmt.Sprintf("Importance: the increase of the error and of the loss of %s %s if a column is permuted; mean ± "+
			"standard deviation of %d permutations", humanize.Comma(int64(r.Rows)), kind, r.Shuffles),
		Head: head("column"),
	}
	longest := 0.0
	for _, c := range r.Importance {
		longest = max(longest, c.Rise.Loss)
	}
	for _, c := range r.Importance[:min(len(r.Importance), top)] {
		cells := []string{percents(c.Rise.Error, c.Deviation.Error), plusMinus(c.Rise.Loss, c.Deviation.Loss)}
		importance.Rows = append(importance.Rows, compare.Bar{Name: c.Name, Length: c.Rise.Loss / max(longest, math.SmallestNonzeroFloat64),
			Cells: cells[:columnsOf(numbers, 1)]})
	}
	list = append(list, importance)
	for i, s := range r.Slices {
		of := compare.Table{Caption: "Errors of these rows by their value of " + s.Name, Head: head(s.Name, "rows"), Wrong: true}
		if i == 0 {
			of.Title = "errors by slices"
		}
		most := math.SmallestNonzeroFloat64
		for _, slice := range s.Slices {
			most = max(most, slice.Error)
		}
		for _, slice := range s.Slices {
			cells := []string{humanize.Comma(int64(slice.Rows)), percent(slice.Error), number(slice.Loss)}
			of.Rows = append(of.Rows, compare.Bar{Name: slice.Value, Length: slice.Error / most, Cells: cells[:columnsOf(numbers, 2)]})
		}
		list = append(list, of)
	}
	return list
}
