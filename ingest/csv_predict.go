package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// openCSVFeatures reads rows without their labels and weights. A file with a header has the model's columns in any order; one without
// has them in the order of training.
func openCSVFeatures(c *content, o Options, want Features) (reader, error) {
	r, err := newCSVReader(c, o)
	if err != nil {
		return nil, err
	}
	if o.Text != "" {
		if err := r.checkTextModel(want); err != nil {
			return nil, err
		}
		return r, r.layText()
	}
	header, err := r.findHeader(want)
	if err != nil {
		return nil, err
	}
	if header {
		r.takeHeader()
	}
	if header && want.Columns != nil {
		return r, r.layByName(want.Columns, " (if the first row is an example: --header=false)")
	}
	return r, r.layByPlace(want)
}

// checkTextModel returns a *FileError if the model was not trained on counts of words.
func (r *csvReader) checkTextModel(want Features) error {
	if want.Sparse {
		return nil
	}
	return wholeFile(r.name, fmt.Errorf("texts: the model was trained on rows of %d features", want.Width))
}

// layText finds the column of texts among rows to predict: the only one, or that with the name or the number of training. In a file without a
// header the label may be left out, but nothing else.
func (r *csvReader) layText() error {
	header := r.options.Header != nil && *r.options.Header
	if r.options.Header == nil && r.options.Text.IsName() {
		header = slices.ContainsFunc(r.record, func(field string) bool { return strings.TrimSpace(field) == string(r.options.Text) })
	}
	if header {
		r.takeHeader()
	}
	r.ignoreAll()
	at := 0
	if len(r.cells) > 1 {
		var err error
		if at, err = r.column(r.options.Text); err != nil {
			return err
		}
	}
	r.text, r.cells[at].role = at, counted
	return nil
}

// findHeader reports whether the first row has the names of the columns. If the options don't say, the row itself must. A row is never
// skipped in doubt: rows in are rows out.
func (r *csvReader) findHeader(want Features) (bool, error) {
	if r.options.Header != nil {
		return *r.options.Header, nil
	}
	row := make([]string, len(r.record))
	for i, field := range r.record {
		row[i] = strings.TrimSpace(field)
	}
	named := 0
	for _, column := range want.Columns {
		if slices.Contains(row, column.Name) {
			named++
		}
	}
	numbers := !slices.ContainsFunc(row, func(field string) bool {
		_, err := number(field)
		return err != nil && !r.isMissing(field)
	})
	switch {
	case want.Columns == nil && !r.options.hasHeader():
		return false, nil // as in the files of training
	case numbers && named == 0 && want.Columns != nil:
		return false, nil
	case !numbers && (named > 0 || want.Columns == nil):
		return true, nil // layByName says which names are missing
	}
	return false, r.fail(-1, errors.New("the first row may have the names of the columns or an example: --header or --header=false decides"))
}
