package explanation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Read reads the labelled rows of a table: all, or so many that are drawn with the seed. The labels are read beside the features, as rows
// to predict are read without them.
func Read(ctx context.Context, m *model.Model, file string, o ingest.Options, limit int, seed uint64) (*explain.Rows, error) {
	labels := &truth{model: m, classOf: explain.ClassOf(m), label: o.Label, targets: o.Targets}
	labels.noLabel = layout.MissingLabels(m.Manifest.Plan)
	if err := ingest.View(ctx, file, o, labels); err != nil {
		return nil, err
	}
	if labels.err != nil {
		return nil, fmt.Errorf("%s: %w", file, labels.err)
	}
	rows := &explain.Rows{}
	chosen := labels.choose(rows, limit, seed)
	rows.Features = kernel.NewDense(len(chosen), m.Width())
	trained := layout.Features{Width: m.Width(), Image: m.Image(), Columns: m.Columns(), Labels: m.Labels()}
	seen, next := 0, 0
	for batch, err := range ingest.File(ctx, file, o, trained) {
		if err != nil {
			return nil, err
		}
		for ; next < len(chosen) && chosen[next] < seen+batch.Rows; next++ {
			at := chosen[next] - seen
			if batch.Bytes != nil {
				examples.FromBytes(rows.Features.Row(next), batch.Bytes[at*batch.Cols:(at+1)*batch.Cols])
			} else {
				copy(rows.Features.Row(next), batch.Floats[at*batch.Cols:(at+1)*batch.Cols])
			}
		}
		seen += batch.Rows
	}
	if seen != labels.rows() {
		return nil, fmt.Errorf("%s: %d rows have features and %d a label: set --header or --header=false", file, seen, labels.rows())
	}
	return rows, nil
}

// ErrNothingHeldOut says that a version has learnt from all rows of its run.
var ErrNothingHeldOut = errors.New("the version has no test rows and no holdout rows: set examples.holdout, or use --model and -i")

// HeldOut returns rows that a version has not learnt from, and their split: those of its run that replay reads from the topic.
func HeldOut(ctx context.Context, p *topics.Pipeline, m *model.Model, limit int, seed uint64) (*explain.Rows, examples.Split, error) {
	held, split, err := replay.HeldOutRows(ctx, p, m, limit, seed)
	if err != nil {
		return nil, split, err
	}
	if len(held) == 0 {
		return nil, split, ErrNothingHeldOut
	}
	rows, classOf := &explain.Rows{Features: kernel.NewDense(len(held), m.Width())}, explain.ClassOf(m)
	for i, row := range held {
		if row.Targets != nil {
			rows.Targets = append(rows.Targets, row.Targets...)
		} else if class := classOf(row.Label); class >= 0 {
			rows.Classes = append(rows.Classes, class)
		} else {
			rows.Unknown++
			continue
		}
		copy(rows.Features.Row(rows.Len()), row.Features)
		rows.Numbers = append(rows.Numbers, int64(i))
	}
	rows.Features = kernel.Dense{Rows: rows.Len(), Cols: m.Width(), Data: rows.Features.Data[:rows.Len()*m.Width()]}
	return rows, split, nil
}

// truth is a [format.Viewer] that keeps the labels of all rows, or their numbers to predict.
type truth struct {
	model   *model.Model
	classOf func(string) int32
	noLabel value.Missing
	label   layout.Column
	targets []string

	at      []int // columns of the label, or of the numbers
	classes []int32
	numbers [][]float64 // of each column; NaN: there is none
	err     error
}

// Classes of rows that are left out.
const (
	unknown    = -1
	unlabelled = -2
)

// Columns finds the columns of the truth.
func (t *truth) Columns(columns []format.Column) {
	names := t.targets
	if t.model.Task() != examples.Numbers {
		byDefault := layout.Column("label")
		if len(columns) > 0 && columns[0].Type == "" { // a file without types: CSV
			byDefault = "0"
		}
		names = []string{string(cmp.Or(t.label, byDefault))}
	}
	t.at = nil
	var all []string
	for _, c := range columns {
		all = append(all, c.Name)
	}
	for _, name := range names {
		at, isNumber := layout.Column(name).Number()
		if !isNumber {
			at = slices.Index(all, name)
		}
		if at < 0 || at >= len(columns) || !columns[at].Words {
			t.err = fmt.Errorf("no column %s with the labels: set --label to one of the columns %s", value.Quote(name), layout.SomeNames(all))
			return
		}
		t.at = append(t.at, at)
	}
	if t.numbers == nil && t.model.Task() == examples.Numbers {
		t.numbers = make([][]float64, len(t.at))
	}
}

// Cell keeps the cells of the truth.
func (t *truth) Cell(column int, text string) {
	for i, at := range t.at {
		switch {
		case at != column:
		case t.numbers != nil:
			v, err := value.Number(text)
			if err == nil {
				err = layout.CheckTarget(v)
			}
			if err != nil {
				v = math.NaN()
			}
			t.numbers[i] = append(t.numbers[i], v)
		case t.noLabel.Has(text):
			t.classes = append(t.classes, unlabelled)
		default:
			t.classes = append(t.classes, t.classOf(text))
		}
	}
}

// rows returns the number of rows.
func (t *truth) rows() int {
	if len(t.numbers) > 0 {
		return len(t.numbers[0])
	}
	return len(t.classes)
}

// choose adds the truth of rows that have one: all, or so many of them, in the order of the file.
func (t *truth) choose(rows *explain.Rows, limit int, seed uint64) (chosen []int) {
	for i := range t.rows() {
		switch {
		case t.numbers != nil && slices.ContainsFunc(t.numbers, func(of []float64) bool { return of[i] != of[i] }),
			t.numbers == nil && t.classes[i] == unlabelled:
			rows.Unlabelled++
		case t.numbers == nil && t.classes[i] == unknown:
			rows.Unknown++
		default:
			chosen = append(chosen, i)
		}
	}
	if limit < len(chosen) {
		drawn := rand.New(rand.NewPCG(seed, uint64(len(chosen)))).Perm(len(chosen))[:limit]
		slices.Sort(drawn)
		for i, at := range drawn {
			drawn[i] = chosen[at]
		}
		chosen = drawn
	}
	for _, i := range chosen {
		rows.Numbers = append(rows.Numbers, int64(i))
		if t.numbers == nil {
			rows.Classes = append(rows.Classes, t.classes[i])
		}
		for _, of := range t.numbers {
			rows.Targets = append(rows.Targets, of[i])
		}
	}
	return chosen
}

// Check returns an error for options that can't be right.
func Check(o explain.Options, limit, top int) error {
	switch {
	case limit < 1:
		return fmt.Errorf("--rows: %d: expected a whole number ≥ 1", limit)
	case top < 1:
		return fmt.Errorf("--top: %d: expected a whole number ≥ 1", top)
	case o.Shuffles < 1:
		return fmt.Errorf("--permutations: %d: expected a whole number ≥ 1", o.Shuffles)
	case o.Curves < 0:
		return fmt.Errorf("--curves: %d: expected a whole number, 0 or more", o.Curves)
	}
	return nil
}

// Bounds of the explanation on the page of a run, which takes a second or two.
const (
	rowsOfRun    = 2000
	columnsOfRun = 200
	shownOfRun   = 20
)

// OfRun returns the importance of columns and the errors by slices of the rows that a run has held out, as explain has them of a file. A
// run without a version, of other examples than rows of a table, or whose rows are gone has none.
func OfRun(ctx context.Context, open func(name string) *topics.Pipeline, blas *kernel.BLAS,
	r *dispatch.RunDetails) ([]compare.Table, error) {
	if r.Version == 0 {
		return nil, nil
	}
	m, err := open(r.Pipeline).Model(ctx, fmt.Sprint(r.Version))
	if err != nil || m.Columns() == nil || len(m.Columns()) > columnsOfRun || explain.CheckModel(m) != nil {
		return nil, err
	}
	o := explain.Defaults()
	o.Wrong = 0
	rows, split, err := HeldOut(ctx, open(m.Manifest.Plan.Name), m, rowsOfRun, o.Seed)
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
