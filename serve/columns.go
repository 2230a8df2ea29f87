package serve

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/serve/jsonscan"
)

// columns are the columns of the model in the rows of a request. In objects they are found as in training: a column that is
// a path may be within other values.
type columns struct {
	*layout.Names        // nil: the rows have no columns with names
	has           []bool // columns of the current row, or list of columns
	found         bool   // a row has some of the columns
	lacked        []bool // columns that rows lack
	missing       int    // number of those of each row
}

func newColumns(names *layout.Names) *columns {
	n := names.Columns()
	both := make([]bool, 2*n) // one allocation a request
	return &columns{Names: names, has: both[:n:n], lacked: both[n:]}
}

// begin starts with the first row, or again.
func (c *columns) begin() {
	if c.Names != nil {
		clear(c.lacked)
		c.found, c.missing = false, 0
	}
}

// lacks records the columns that the current row lacks.
func (c *columns) lacks(absent []int) {
	c.found = c.found || len(absent) < len(c.has)
	c.missing += len(absent)
	for _, column := range absent {
		c.lacked[column] = true
	}
}

// absent returns the columns that the current row lacks.
func (c *columns) absent() (absent []int) {
	if !slices.Contains(c.has, false) {
		return nil
	}
	for column, has := range c.has {
		if !has {
			absent = append(absent, column)
		}
	}
	return absent
}

// check returns an error if no row has any of the columns.
func (c *columns) check() error {
	if c.Names == nil || c.found || !c.HasNames() {
		return nil
	}
	clear(c.has)
	return c.Lacks(c.has)
}

// headerMissing is the response header with the number of columns of the model that rows of the request lack.
const headerMissing = "Stagewise-Missing-Columns"

// lacking returns the number of columns that rows lack.
func (c *columns) lacking() (n int) {
	for _, lacked := range c.lacked {
		if lacked {
			n++
		}
	}
	return n
}

// find returns the column with a name, and records that the list or the object has it; −1 if the model has no such column,
// in which case it records the name in others.
func (d *document) find(name []byte, others *jsonscan.Names) (int, error) {
	column, known := d.columns.Find(name)
	switch {
	case !known:
		return -1, d.Once(others, "column", name)
	case d.columns.has[column]:
		return 0, d.Errorf("duplicate column %.40q", name)
	}
	d.columns.has[column] = true
	return column, nil
}

// object reads a row that is an object. value reads the value of a column.
func (d *document) object(value func(column int) error) error {
	clear(d.columns.has)
	return d.members(nil, value)
}

// members reads an object: a row, or a nested value, whose column paths start with place.
func (d *document) members(place []byte, value func(column int) error) error {
	var others jsonscan.Names
	return d.Members(func(name []byte) error {
		if place != nil {
			name = slices.Concat(place, []byte{'.'}, name)
		}
		column, err := d.find(name, &others)
		if err != nil {
			return err
		}
		if err := d.Expect(':'); err != nil {
			return err
		}
		return d.inColumn(name, column, value)
	})
}

// inColumn reads the value of a column, or another value that may contain columns.
func (d *document) inColumn(name []byte, column int, value func(column int) error) error {
	if column >= 0 {
		if err := value(column); err != nil {
			return fmt.Errorf("column %.40q: %w", name, err)
		}
		return nil
	}
	if !d.columns.Within(name) {
		return d.Skip()
	}
	switch d.Peek() {
	case '{':
		return d.members(slices.Clone(name), value)
	case '[':
		place := slices.Clone(name)
		return d.Elements(func(i int) error {
			name := strconv.AppendInt(append(slices.Clip(place), '.'), int64(i), 10)
			var none jsonscan.Names
			column, err := d.find(name, &none)
			if err != nil {
				return err
			}
			return d.inColumn(name, column, value)
		})
	}
	return d.Skip()
}
