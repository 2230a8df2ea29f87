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
	importance, _, errors, _ := describe(report, fmt.Sprintf(" of %s %s rows", humanize.Comma(int64(report.Rows)), split), shownOfRun)
	importance.Title = "what predictions depend on"
	return append([]compare.Table{importance}, errors...), nil
}
