package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
)

const (
	maxTroubles = 100      // maximum number of reported errors
	checkCells  = 64 << 20 // number of values to read from all files together, beyond the first batch of each
)

// Troubles reads the files of the options as Sources and Batches do, and returns the sources and whether all of their rows
// were read, or all errors in the files: the first error of each column. Of large files it reads as much as takes a few
// seconds. An option that does not pass Check is a schemas.Problem.
func Troubles(ctx context.Context, o Options) (sources []Source, whole bool, troubles []error) {
	for len(troubles) < maxTroubles {
		found, all, err := o.readThrough(ctx)
		if err == nil {
			return found, all, troubles
		}
		if errors.Is(err, layout.ErrNoFeature) && len(troubles) > 0 { // all columns have errors
			break
		}
		wrong, placed := errors.AsType[*input.Error](err)
		if ctx.Err() != nil || !placed || wrong.Column == "" {
			troubles = append(troubles, err)
			break
		}
		next, advice, ok := o.without(wrong.Column)
		troubles = append(troubles, advised(wrong, advice))
		if o.Missing.Mode == layout.MissingError { // a column may have words as well as missing values
			lenient := o
			lenient.Missing.Mode = layout.MissingMean
			if _, _, again := lenient.readThrough(ctx); again == nil || again.Error() != err.Error() {
				o = lenient
				continue
			}
		}
		if o = next; !ok {
			break
		}
	}
	return nil, false, troubles
}

// advised adds advice to the error, if it names no key itself.
func advised(e *input.Error, advice string) error {
	if strings.Contains(e.Err.Error(), "examples.") {
		return e
	}
	with := *e
	with.Err = fmt.Errorf("%w: %s", e.Err, advice)
	return &with
}

// readThrough reads rows of the files up to the limit, and reports whether it has read all.
func (o Options) readThrough(ctx context.Context) (sources []Source, whole bool, err error) {
	sources, err = find(ctx, o, false)
	if err != nil {
		return nil, false, err
	}
	cells := 0
	whole = true
	for i := range sources {
		all, err := sources[i].readSome(ctx, &cells)
		if err != nil {
			return nil, false, err
		}
		whole = whole && all
	}
	return sources, whole, nil
}

// readSome reads the first batch of a source, and further ones while cells, to which it adds, is below the limit. It
// reports whether it has read all.
func (s *Source) readSome(ctx context.Context, cells *int) (whole bool, err error) {
	r, opened, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer closeAll(opened)
	for {
		rows, err := r.Next()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err == io.EOF:
			return true, nil
		case err != nil:
			return false, err
		}
		if *cells += rows.Rows * max(rows.Cols, 1); *cells > checkCells {
			return false, nil
		}
	}
}

// without returns the options without a column, given by its number and its name, if any, as in an error, and the key that
// configures its role. ok is false if nothing would be left to train on.
func (o Options) without(column string) (_ Options, advice string, ok bool) {
	number, name, _ := strings.Cut(column, " ")
	at, err := strconv.Atoi(number)
	if err != nil {
		return o, "", false
	}
	advice = "examples.columns.drop excludes a column"
	if name, err = strconv.Unquote(strings.Trim(name, "()")); err != nil {
		name = number
	}
	is := func(c string) bool {
		n, isNumber := layout.Column(c).Number()
		return c == name || isNumber && n == at
	}
	used, targets, labels := len(o.Columns.Use), len(o.Targets), len(o.LabelColumns)
	o.Columns.Use, o.Categorical = slices.DeleteFunc(slices.Clone(o.Columns.Use), is), slices.DeleteFunc(slices.Clone(o.Categorical), is)
	o.Times = maps.Clone(o.Times)
	maps.DeleteFunc(o.Times, func(c string, _ layout.TimeColumn) bool { return is(c) })
	o.Targets, o.LabelColumns = slices.DeleteFunc(slices.Clone(o.Targets), is), slices.DeleteFunc(slices.Clone(o.LabelColumns), is)
	switch {
	case is(string(o.Weight)):
		o.Weight, advice = "", "examples.weight names the weight column"
	case len(o.Targets) < targets:
		advice = "examples.targets names the predicted columns"
	case len(o.LabelColumns) < labels:
		advice = "examples.label_columns names the label columns"
	case len(o.Columns.Use) < used:
		advice = "examples.columns.use names the feature columns"
	}
	if used > 0 && len(o.Columns.Use) == 0 || targets > 0 && len(o.Targets) == 0 || is(string(o.Text)) ||
		slices.ContainsFunc(o.Columns.Drop, is) {
		return o, advice, false
	}
	if used > 0 && !is(string(o.Label)) {
		return o, advice, true
	}
	dropped := o
	dropped.Columns.Drop = append(slices.Clone(o.Columns.Drop), number)
	if !is(string(o.Label)) && dropped.Check() == nil {
		return dropped, advice, true
	}
	ok = !o.LeavesLabelOut() // the label column can't be dropped
	o.Options = o.WithoutLabel()
	return o, "examples.label names the label column", ok
}
