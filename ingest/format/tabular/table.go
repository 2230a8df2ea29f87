package tabular

import "fmt"

// Table is an open file whose schema has the names and types of columns. Row numbers start at 0. Its errors have no
// position, and a Table may panic if the file is damaged.
type Table interface {
	// Fields describes the columns, in order.
	Fields() []Field
	// Begin makes the next n rows current, or fewer at the end of the file. 0 means the end.
	Begin(n int) (int, error)
	// Numbers calls put for each value of a column of numbers or lists in the current rows. i counts them from 0, row by row.
	// A null is NaN.
	Numbers(column int, put func(i int, v float64) error) error
	// Wholes calls put for each value of an integer column in the current rows.
	Wholes(column int, put func(row int, v int64, null bool) error) error
	// Texts calls put for each value of a text column in the current rows, or for formatted numbers and booleans. v is valid
	// during the call.
	Texts(column int, put func(row int, v string, null bool) error) error
	// Lists calls put for each list of a column in the current rows, with its texts or formatted integers. A null item is "".
	// null means that there is no list.
	Lists(column int, put func(row int, items []string, null bool) error) error
	// Sparse calls put for each current row of a column, with the indices and values of its list, which are valid during the
	// call. A null is an error.
	Sparse(column int, put func(row int, indices []int64, values []float64) error) error
}

// RaggedAt returns the error of a row whose list differs in length from the first row's.
func RaggedAt(row int64, length int) error {
	return fmt.Errorf("row %d, counted from 0: the list does not have %d values, unlike row 0, which does", row, length)
}

// SourceOf returns a table as a source.
func SourceOf(t Table) Source { return tableSource{t} }

type tableSource struct{ Table }

// Read implements Source.
func (t tableSource) Read(n int, wanted []bool, b *Block) (err error) {
	fields := t.Fields()
	b.Reset(len(fields))
	if b.Rows, err = t.Begin(n); err != nil {
		return err
	}
	for at, f := range fields {
		c := &b.Columns[at]
		add := func(v string, null bool) {
			c.Texts, c.Nulls = append(c.Texts, v), append(c.Nulls, null)
		}
		switch {
		case !wanted[at] || b.Rows == 0:
		case f.Kind == Numeric:
			err = t.Numbers(at, func(_ int, v float64) error {
				c.Numbers = append(c.Numbers, v)
				return nil
			})
		case f.Kind == List:
			for row := range b.Rows {
				c.Ends = append(c.Ends, (row+1)*f.Length)
			}
			err = t.Numbers(at, func(_ int, v float64) error {
				c.Numbers = append(c.Numbers, v)
				return nil
			})
			if err != nil && t.lists(at, c) == nil { // labels have lists of different lengths
				err = nil
			}
		case f.Kind == Whole:
			err = t.Wholes(at, func(_ int, v int64, null bool) error {
				c.Wholes, c.Nulls = append(c.Wholes, v), append(c.Nulls, null)
				return nil
			})
		case f.Kind == Boolean:
			c.Truths = true
			err = t.Numbers(at, func(_ int, v float64) error {
				c.Wholes, c.Nulls = append(c.Wholes, int64(v)), append(c.Nulls, v != v)
				return nil
			})
		case f.Kind == Text || f.Kind == Moment:
			err = t.Texts(at, func(_ int, v string, null bool) error {
				add(string([]byte(v)), null)
				return nil
			})
		case f.Kind == TextList:
			err = t.lists(at, c)
		case f.Kind == Pairs:
			err = t.Sparse(at, func(_ int, indices []int64, values []float64) error {
				c.Indices, c.Numbers = append(c.Indices, indices...), append(c.Numbers, values...)
				c.Ends = append(c.Ends, len(c.Numbers))
				return nil
			})
		}
		if err != nil {
			return &ColumnError{at, err}
		}
	}
	return nil
}

// lists reads a column of lists as texts.
func (t tableSource) lists(at int, c *Column) error {
	*c = Column{}
	return t.Lists(at, func(_ int, items []string, null bool) error {
		c.Texts = append(c.Texts, items...)
		c.Ends, c.NoLists = append(c.Ends, len(c.Texts)), append(c.NoLists, null)
		return nil
	})
}
