package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// Features says what a model needs of each row.
type Features struct {
	Width   int             // number of features
	Columns schemas.Columns // of the table that the model was trained on; nil: only the order of the features is known
	Image   schemas.Image   // shape of the images that the rows are; zero: they are none, or it is not known
	Sparse  bool            // rows are sparse; columns from Width on are left out
}

// fill makes a column become features of the model, from a place on.
func (c *cell) fill(at int, column schemas.Column) {
	if len(column.Categories) > 0 {
		c.place(at, column)
		return
	}
	c.role, c.at = feature, at
}

// layByName gives the columns of a model, which the file names, their places in the model. Other columns are not read. otherwise is what
// to do if the file seems to lack a column.
func (l *layout) layByName(want schemas.Columns, otherwise string) error {
	l.ignoreAll()
	var missing []string
	for _, column := range want {
		at, err := l.find(column.Name)
		switch {
		case err != nil:
			return err
		case at < 0:
			missing = append(missing, column.Name)
		case l.cells[at].list:
			return l.locate(at, errors.New("a list of numbers: the model knows it as a column with one number in each row"))
		default:
			l.cells[at].fill(l.features, column)
		}
		l.features += column.Features()
	}
	if len(missing) > 0 {
		return l.locate(-1, fmt.Errorf("the file lacks columns that the model needs: %s%s", someNames(missing), otherwise))
	}
	return l.finish()
}

// layByPlace gives the columns their places in the order of the file. The file has the columns of training, or only the features. A list
// may have all features, whatever they were called in training.
func (l *layout) layByPlace(want Features) error {
	columns := want.Columns
	if columns == nil || l.hasList(want.Width) {
		columns = make(schemas.Columns, want.Width)
	}
	used, err := l.usedPlaces(len(columns))
	if err != nil {
		return err
	}
	l.ignoreAll()
	for _, at := range used {
		c := &l.cells[at]
		if c.list {
			c.role, c.at = feature, l.features
			l.features += c.length
			columns = columns[c.length:]
			continue
		}
		c.fill(l.features, columns[0])
		l.features += columns[0].Features()
		columns = columns[1:]
	}
	return l.finish()
}

// hasList reports whether a column has lists of this length.
func (l *layout) hasList(length int) bool {
	return slices.ContainsFunc(l.cells, func(c cell) bool { return c.list && c.length == length })
}

func (l *layout) ignoreAll() {
	for at := range l.cells {
		l.cells[at].role = ignored
	}
}

// usedPlaces returns the columns that are features, of which there must be n; a list counts as many as it has numbers. A file may lack the
// label, the weight and the columns that training dropped. So those that the options give by name are left out if the file has them. Those
// that they give by number, and what they do not use, are left out only if the file has another number of columns otherwise: without the
// label all later numbers are others.
func (l *layout) usedPlaces(n int) ([]int, error) {
	o := l.options
	var used []int
	for at := range l.cells {
		if !l.isRowIndex(at) {
			used = append(used, at)
		}
	}
	fits := func() bool {
		count := 0
		for _, at := range used {
			if c := l.cells[at]; c.list {
				count += c.length
			} else {
				count++
			}
		}
		return count == n
	}
	if len(o.Columns.Use) > 0 && !fits() {
		used = nil
		for _, c := range o.Columns.Use {
			at, err := l.column(Column(c))
			if err != nil {
				return nil, err
			}
			used = append(used, at)
		}
		slices.Sort(used)
		used = slices.Compact(used)
	}
	leave := []Column{o.Weight}
	for _, c := range slices.Concat(o.Targets, o.LabelColumns) {
		leave = append(leave, Column(c))
	}
	if len(o.Targets) == 0 && len(o.LabelColumns) == 0 {
		leave = append(leave, cmp.Or(o.Label, l.defaultLabel))
	}
	for _, c := range o.Columns.Drop {
		leave = append(leave, Column(c))
	}
	for _, named := range []bool{true, false} {
		if !named && fits() {
			break
		}
		for _, c := range leave {
			if at, err := l.column(c); c != "" && err == nil && c.IsName() == named {
				used = slices.DeleteFunc(used, func(other int) bool { return other == at })
			}
		}
	}
	if !fits() {
		return nil, l.locate(-1, fmt.Errorf("%d columns: expected %d features, with or without the label", len(l.cells), n))
	}
	return used, nil
}
