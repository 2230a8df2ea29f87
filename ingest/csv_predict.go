package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// Features says what a model needs of each row.
type Features struct {
	Width   int             // number of features
	Columns schemas.Columns // of the table that the model was trained on; nil: only the order of the features is known
}

// openCSVFeatures reads rows without their labels and weights. A file with a header has the model's columns in any order; one without
// has them in the order of training.
func openCSVFeatures(c *content, o Options, want Features) (reader, error) {
	r, err := newCSVReader(c, o, false)
	if err != nil {
		return nil, err
	}
	header, err := r.findHeader(want)
	if err != nil {
		return nil, err
	}
	if header {
		r.pending, r.empty = false, true
		for _, name := range r.record {
			r.header = append(r.header, strings.Clone(strings.TrimSpace(name)))
		}
	}
	for at := range r.cells {
		r.cells[at].role = ignored
	}
	if header && want.Columns != nil {
		err = r.layByName(want)
	} else {
		err = r.layByPlace(want)
	}
	if err != nil {
		return nil, err
	}
	r.batch.Cols = want.Width
	return r, r.finish()
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

// layByName gives the columns that the header names their places in the model. Other columns are not read.
func (r *csvReader) layByName(want Features) error {
	var missing []string
	at := 0
	for _, column := range want.Columns {
		switch n := count(r.header, column.Name); n {
		case 0:
			missing = append(missing, quote(column.Name))
		case 1:
			r.cells[slices.Index(r.header, column.Name)].fill(at, column)
		default:
			return r.fail(-1, fmt.Errorf("the header has column %s %d times, and the model needs it once", quote(column.Name), n))
		}
		at += column.Features()
	}
	if len(missing) > 0 {
		const most = 5
		text := strings.Join(missing[:min(most, len(missing))], ", ")
		if len(missing) > most {
			text += fmt.Sprintf(" and %d more", len(missing)-most)
		}
		return r.fail(-1, fmt.Errorf("the header lacks columns that the model needs: %s (if the first row is an example: --header=false)", text))
	}
	return nil
}

func count(names []string, name string) (n int) {
	for _, other := range names {
		if other == name {
			n++
		}
	}
	return n
}

// fill makes a column become features of the model, from a place on.
func (c *cell) fill(at int, column schemas.Column) {
	if len(column.Categories) > 0 {
		c.place(at, column)
		return
	}
	c.role, c.at = feature, at
}

// layByPlace gives the columns their places in the order of the file. The file has the columns of training, or only the features.
func (r *csvReader) layByPlace(want Features) error {
	columns := want.Columns
	if columns == nil {
		columns = make(schemas.Columns, want.Width)
	}
	used, err := r.usedPlaces(len(columns))
	if err != nil {
		return err
	}
	at := 0
	for i, place := range used {
		r.cells[place].fill(at, columns[i])
		at += columns[i].Features()
	}
	return nil
}

// usedPlaces returns the numbers of the columns that are features, of which there must be n. What the header names is left out if it is
// no feature. What the options name by number is left out if the file has too many columns otherwise: a file may lack the label.
func (r *csvReader) usedPlaces(n int) ([]int, error) {
	o := r.options
	var used []int
	for at := range r.cells {
		used = append(used, at)
	}
	if len(o.Columns.Use) > 0 && len(used) != n {
		used = nil
		for _, c := range o.Columns.Use {
			at, err := r.column(Column(c))
			if err != nil {
				return nil, err
			}
			used = append(used, at)
		}
		slices.Sort(used)
	}
	leave := []Column{csvLabel(o), o.Weight}
	for _, c := range o.Columns.Drop {
		leave = append(leave, Column(c))
	}
	for _, named := range []bool{true, false} {
		if !named && len(used) == n {
			break
		}
		for _, c := range leave {
			if at, err := r.column(c); c != "" && err == nil && c.IsName() == named {
				used = slices.DeleteFunc(used, func(other int) bool { return other == at })
			}
		}
	}
	if len(used) != n {
		return nil, r.fail(-1, fmt.Errorf("%d columns: expected %d features, with or without the label", len(r.cells), n))
	}
	return used, nil
}
